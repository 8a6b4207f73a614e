"""Settings of a run: from files beside it, from console text, typed, with a source, and never from a pickle."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from rlvitals.ingest import chapter7, tinker, trl, verl
from rlvitals.ingest.configfiles import config_from_mapping, config_from_text, find_config, locate_config
from rlvitals.ingest.configmap import map_config

VERL = verl.ADAPTER
TRL = trl.ADAPTER

HYDRA = """
actor_rollout_ref:
  actor: {use_kl_loss: true, kl_loss_coef: 1e-3, kl_loss_type: low_var_kl}
  rollout:
    n: 8
    response_length: ${oc.select:data.max_response_length,512}
algorithm: {adv_estimator: grpo}
"""

PPRINT = """\
\x1b[36m(TaskRunner pid=7)\x1b[0m {'actor_rollout_ref': {'actor': {'use_kl_loss': False,
\x1b[36m(WorkerDict pid=9)\x1b[0m loading {'rollout': 3
\x1b[36m(TaskRunner pid=7)\x1b[0m                                  'clip_ratio_high': 0.28},
\x1b[36m(TaskRunner pid=7)\x1b[0m                        'rollout': {'n': 5, 'note': "it's {odd",
\x1b[36m(TaskRunner pid=7)\x1b[0m                                    'val_kwargs': {'n': 1}}},
\x1b[36m(TaskRunner pid=7)\x1b[0m  'algorithm': {'adv_estimator': 'grpo',
\x1b[36m(TaskRunner pid=7)\x1b[0m                'use_kl_in_reward': False}}
\x1b[36m(TaskRunner pid=7)\x1b[0m step:1 - actor/entropy:0.3 - critic/score/mean:0.5
"""


def test_hydra_below_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "2026-01-01" / "10-00-00" / ".hydra"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(HYDRA)
    (folder / "overrides.yaml").write_text("- data.train_batch_size=64\n- actor_rollout_ref.rollout.n=8\n")
    log = tmp_path / "console.log"
    log.write_text("step:1 - critic/score/mean:0.5\n")
    for path in (tmp_path, log):
        config = find_config(path, VERL)
        assert config.known() == {
            "group_size": 8, "prompts_per_step": 64, "kl_coef": 0.001, "kl_estimator": "k3",
            "advantage_estimator": "grpo", "algorithm": "grpo",
        }  # fmt: skip
        assert config.sources["group_size"] == (
            "outputs/2026-01-01/10-00-00/.hydra/config.yaml: actor_rollout_ref.rollout.n"
        )
    deeper = tmp_path / "file_logger" / "project"
    deeper.mkdir(parents=True)
    assert find_config(deeper / "run.jsonl", VERL).group_size == 8


def test_runs_that_contradict_each_other_leave_a_field_unknown(tmp_path: Path) -> None:
    for name, size in (("a", 4), ("b", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "args.json").write_text(json.dumps({"num_generations": size, "beta": 0.04}))
    found = locate_config(tmp_path, TRL)
    assert found.config.known() == {"kl_coef": 0.04}
    assert [note.text for note in found.notes] == ["2 config files differ in group_size: these stay unknown"]


def test_a_folder_above_counts_only_when_nothing_is_nearer(tmp_path: Path) -> None:
    run = tmp_path / "out" / "checkpoint-5"
    run.mkdir(parents=True)
    (tmp_path / "out" / "args.json").write_text('{"num_generations": 4}')
    assert find_config(run, TRL).group_size == 4
    (run / "args.json").write_text('{"num_generations": 6}')
    assert find_config(run, TRL).group_size == 6


@pytest.mark.parametrize(("name", "text"), [
    ("config.json", '{"num_generations": 8, "beta": 0.0}'),
    ("config.yaml", "num_generations: {desc: null, value: 8}\nbeta: {value: 0.0}\n_wandb: {value: {}}\n"),
    ("config.toml", "num_generations = 8\nbeta = 0.0\n"),
    ("config.yml", "training:\n  num_generations: 8\n  beta: 0.0\n"),
])  # fmt: skip
def test_file_formats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    config = find_config(tmp_path, TRL)
    assert (config.group_size, config.kl_coef) == (8, 0.0)
    assert config.sources["group_size"].startswith(f"{name}: ")


def test_model_files_tell_vocabulary_and_lora(tmp_path: Path) -> None:
    model = {"architectures": ["X"], "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 151936, "temperature": 3}
    (tmp_path / "config.json").write_text(json.dumps(model))
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8}')
    assert find_config(tmp_path, TRL).known() == {"vocab_size": 151936, "uses_lora": True}


def test_no_pickle_is_opened(tmp_path: Path) -> None:
    (tmp_path / "training_args.bin").write_bytes(pickle.dumps({"num_generations": 8}))
    assert find_config(tmp_path, TRL).known() == {}


def test_unreadable_files_are_notes(tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text("{broken")
    (tmp_path / "config.yaml").write_text("a: &x [1]\n" + "b: [" + "*x, " * 300 + "1]\n")
    found = locate_config(tmp_path, TRL)
    assert found.config.known() == {}
    assert {note.file for note in found.notes} == {"args.json", "config.yaml"}


def test_values_of_a_wrong_kind_are_ignored_with_a_reason() -> None:
    raw = {
        "num_generations": "many", "temperature": "0.7", "beta": True, "epsilon": "${eps}", "top_p": 1.5,
        "learning_rate": "1e-6", "max_steps": -1, "loss_type": "dapo", "max_completion_length": 256.0,
    }  # fmt: skip
    found = map_config(raw, TRL, "args.json")
    assert found.config.known() == {
        "temperature": 0.7, "trainer_temperature": 0.7, "token_budget": 256, "loss_type": "dapo", "learning_rate": 1e-6,
    } | ({"loss_aggregation": found.config.loss_aggregation} if found.config.loss_aggregation else {})  # fmt: skip
    assert sorted(note.text for note in found.notes) == [
        "config value ignored: beta is True, expected a number (kl_coef)",
        "config value ignored: num_generations is 'many', expected a whole number (group_size)",
        "config value ignored: top_p is 1.5, expected at least 0 and at most 1 (top_p)",
    ]


@pytest.mark.parametrize(
    ("sync", "steps"),
    [({"sync_ref_model": True}, 64), ({"sync_ref_model": "True"}, 64), ({"sync_ref_model": False}, None), ({}, None)],
)
def test_trl_replaces_its_reference_only_where_that_is_on(sync: dict[str, object], steps: int | None) -> None:
    args = {"ref_model_sync_steps": 64, **sync}
    for mapping in (args, {"train": args}):
        assert config_from_mapping(mapping, TRL, "training_args.json").reference_reset_steps == steps
    text = f"GRPOConfig({', '.join(f'{name}={value}' for name, value in args.items())})"
    assert config_from_text(text, TRL).reference_reset_steps == steps


def test_flat_and_slashed_paths() -> None:
    for mapping in ({"actor_rollout_ref.rollout.n": 4}, {"actor_rollout_ref/rollout/n": 4}):
        assert config_from_mapping(mapping, VERL, "export").group_size == 4


def test_settings_of_evaluation_are_not_the_trainings_own() -> None:
    assert config_from_mapping({"eval": {"temperature": 0.0}}, TRL, "c").temperature is None
    assert config_from_mapping({"a": {"temperature": 0.5}, "b": {"temperature": 0.9}}, TRL, "c").temperature is None


def test_pprint_in_a_ray_console() -> None:
    config = config_from_text(PPRINT, VERL)
    assert config.known() == {
        "group_size": 5, "clip_high": 0.28, "kl_coef": 0.0, "kl_in_reward": False, "advantage_estimator": "grpo",
        "algorithm": "grpo",
    }  # fmt: skip
    assert config.sources["group_size"] == "console log: actor_rollout_ref.rollout.n"


def test_yaml_and_overrides_in_a_console() -> None:
    text = "launch\nactor_rollout_ref:\n  rollout:\n    n: 4\n    top_p: 0.9\n  actor:\n    clip_ratio: 0.2\n\nx"
    assert config_from_text(text, VERL).known() == {"group_size": 4, "top_p": 0.9, "clip_low": 0.2, "clip_high": 0.2}
    text += "\nError executing job with overrides: ['actor_rollout_ref.rollout.n=8', 'data.train_batch_size=2']\n"
    config = config_from_text(text, VERL)
    assert (config.group_size, config.prompts_per_step) == (8, 2)


def test_command_line_arguments() -> None:
    text = "python train.py --num_generations 8 \\\n  --beta=0.04 --learning-rate 1e-6\nsay --temperature 2 aloud\n"
    config = config_from_text(text, TRL)
    assert (config.group_size, config.kl_coef, config.learning_rate, config.temperature) == (8, 0.04, 1e-6, None)
    script = "uv run 7_5_plus_kl.py --num_rollouts 4 --kl_coeff 0.001 --inner_epochs 2"
    assert config_from_text(script, chapter7.ADAPTER).known() == {
        "group_size": 4, "kl_coef": 0.001, "updates_per_rollout": 2.0,
    }  # fmt: skip


def test_dict_lines_reprs_and_model_cards() -> None:
    line = "{'num_generations': 8, 'beta': 0.0, 'temperature': 0.9, 'learning_rate': 1e-06}\n"
    assert config_from_text(line, TRL).group_size == 8
    assert config_from_text('{\n "num_generations": 6,\n "beta": 0.1,\n "fp16": false\n}', TRL).group_size == 6
    assert config_from_text("GRPOConfig(\n  num_generations=4,\n  temperature=0.8,\n)", TRL).group_size == 4
    assert config_from_text("Namespace(beta=0.04, num_generations=2)", TRL).group_size == 2
    assert config_from_text("- learning_rate: 5e-06\n- max_grad_norm: 0.2\n", TRL).max_grad_norm == 0.2


def test_rows_of_metrics_are_no_settings() -> None:
    text = "{'loss': 0.1, 'reward': 0.5, 'learning_rate': 9e-07, 'epoch': 0.1}\n" * 3
    assert config_from_text(text, TRL).known() == {}
    assert config_from_text('{"step": 1, "optim/lr": 1e-5, "learning_rate": 3}', tinker.ADAPTER).known() == {}


def test_hostile_text_stays_text() -> None:
    text = "{'num_generations': __import__('os').getcwd(), 'beta': 1}\n" + "{'" * 3000 + "\n"
    assert config_from_text(text, TRL).known() == {}


@pytest.mark.parametrize(("run", "group"), [("grpo54", 1), ("n4_700", 4), ("v2_300", 1), ("v5_700", 1), ("v9_300", 1)])
def test_real_verl_consoles(shared: Path, run: str, group: int) -> None:
    text = (shared / "corpus" / "runs" / f"uqc_{run}.log").read_text(errors="replace")
    config = config_from_text(text, VERL)
    assert (config.group_size, config.advantage_estimator) == (group, "grpo")
    assert (config.kl_coef, config.kl_in_reward, config.token_budget) == (0.0, False, 128)


def test_real_format_samples(shared: Path) -> None:
    formats = shared / "formats"
    config = find_config(formats / "verl" / "file_logger" / "verl_examples" / "gsm8k.jsonl", VERL)
    assert (config.group_size, config.clip_high, config.kl_coef, config.token_budget) == (4, 0.28, 0.04, 64)
    config = find_config(formats / "tinker_cookbook" / "metrics.jsonl", tinker.ADAPTER)
    assert (config.group_size, config.clip_high, config.kl_coef, config.token_budget) == (4, 0.28, 0.04, 64)
