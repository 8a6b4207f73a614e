"""SHEETS: for each trainer which releases and files are read, on what that was tested, and where a live hook goes.

Everything else that a trainer's page says comes from its adapter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tested:
    """What the reading was tested on; "" where it was not.

    Attributes:
        public: logs of real runs that people made public; they are no part of the project.
        own: real runs made for this project.
        sample: a log written for the test after the trainer's source, never by the trainer itself.
    """

    public: str = ""
    own: str = ""
    sample: str = ""

    @property
    def short(self) -> str:
        """Say in a few words whether a real run, a sample or both were read."""
        real = [text for text in (self.public, self.own) if text]
        if not real:
            return "sample"
        return "real runs and sample" if self.sample else "real runs"


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one trainer's page says beside what its adapter declares.

    Attributes:
        releases: the releases whose keys are known.
        reads: (file or sink, where the trainer writes it), best first.
        unread: what the trainer writes and is not read.
        tested: on what.
        hook: where to call the monitor, as code.
        hook_note: what the hook does not see.
        also: metrics of keys that only some logs have: with names of the user's own, or under one switch.
    """

    releases: str
    reads: tuple[tuple[str, str], ...]
    tested: Tested
    hook: str
    unread: tuple[str, ...] = ()
    hook_note: str = ""
    also: tuple[str, ...] = ()


_SAMPLE = "16 steps"
_CALLBACK = """class Vitals(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        monitor.log(state.global_step, logs or {})"""
_PICKLED_ARGS = "`training_args.bin` (a pickle)"
_HF_SINKS = (
    ("TensorBoard", "`<output_dir>/runs/`; its `args/text_summary` holds the config"),
    ("W&B", "offline `.wandb` files, CSV and JSON exports, the API with a key"),
    ("MLflow, trackio, SwanLab", "their files and SQLite stores"),
)
_STATE = ("`trainer_state.json`", "at the root after `trainer.save_state()`, else in the newest `checkpoint-N`")
_CONSOLE = ("console", "any file that holds the output")
_TB = "TensorBoard"
_WANDB = ("W&B", "offline `.wandb` files, CSV and JSON exports, the API with a key")
_TRACKING = """# verl/utils/tracking.py, in Tracking.log(self, data, step, backend=None)
monitor.log(step, data)"""

SHEETS: Mapping[str, Sheet] = {
    "TRL": Sheet(
        "GRPOTrainer of every release from 0.14 to 1.16",
        (_STATE, ("console", "dict lines, numbers as text in transformers 5"), *_HF_SINKS),
        Tested(
            "15 logs of 9 repositories, and inputs made from 6 user reports",
            "TRL 1.16.0: the example run, its healthy twin, the lines below, one run of 20 steps",
            f"{_SAMPLE}, keys of 1.x and of 0.15",
        ),
        _CALLBACK,
        (_PICKLED_ARGS, "`completions/*.parquet`: texts, without group id, tokens and stop reason"),
    ),
    "unsloth": Sheet(
        "as the TRL that it rewrites, 2025 and 2026",
        (("notebook", "tables and streams of `.ipynb` files"), _STATE, _CONSOLE, *_HF_SINKS),
        Tested("26 logs of 6 repositories", "", _SAMPLE),
        _CALLBACK,
        (_PICKLED_ARGS,),
    ),
    "ms-swift": Sheet(
        "3.x and 4.x, up to 4.5",
        (
            ("`logging.jsonl`", "`<output_dir>/vN-<date>/`; the step is the text 5/100"),
            ("`args.json`", "beside it: the config"),
            _STATE,
            *_HF_SINKS[1:],
        ),
        Tested("2 logs of 1 repository, and an input made from 1 user report", "", _SAMPLE),
        _CALLBACK,
        (_PICKLED_ARGS, "`completions.jsonl`: one line of columns per step"),
    ),
    "TRL async": Sheet(
        "trl.experimental.async_grpo from 1.9 to 1.16",
        (_STATE, _CONSOLE, *_HF_SINKS),
        Tested(sample="rows in the keys of 1.10 and 1.16"),
        _CALLBACK,
        (_PICKLED_ARGS, "trackio traces: group id, policy version and tokens of each rollout"),
    ),
    "verl": Sheet(
        "0.1 to 0.9, trainers v0 and v1",
        (
            ("JSONL", "`$VERL_FILE_LOGGER_PATH`, else `./<project>/<experiment>.jsonl` (0.6 and newer)"),
            ("console", "`step:12 - key:value` with ANSI colours, Ray prefixes and `np.float64(...)`"),
            (_TB, "`$TENSORBOARD_DIR` or `tensorboard_log/<project>/<experiment>`"),
            _WANDB,
            ("MLflow, SwanLab, trackio", "their files and SQLite stores"),
            ("rollout dump", "`trainer.rollout_data_dir/<step>.jsonl`, when that folder is named"),
            ("Hydra config", "`outputs/<date>/<time>/.hydra/config.yaml`"),
        ),
        Tested("7 logs of 2 repositories, and inputs made from 4 user reports", "", _SAMPLE),
        _TRACKING,
        ("`trainer.validation_data_dir`",),
        also=("kl_sampler_trainer",),
    ),
    "agent-lightning": Sheet(
        "1.0",
        (("JSONL, console, TensorBoard, W&B", "as verl, whose Tracking it uses"),),
        Tested(sample=_SAMPLE),
        _TRACKING,
        ("W&B artifacts `step_N/train_trajectories.jsonl.zip`",),
        also=("kl_sampler_trainer",),
    ),
    "rLLM": Sheet(
        "its own loop (2026) and the verl fork of 2025",
        (
            ("JSONL", "`<root>/<project>/<experiment>.jsonl`"),
            _CONSOLE,
            _WANDB,
            (_TB, "as verl"),
            ("Hydra config", "as verl"),
        ),
        Tested(sample=_SAMPLE),
        "# in Tracking.log(self, data, step, backend=None, ...)\nmonitor.log(step, data)",
        ("episode files `episodes/train_step_<s>_.../*.json`",),
    ),
    "open-instruct": Sheet(
        "grpo_fast, key names of 2025 and 2026",
        (_WANDB,),
        Tested(sample=f"{_SAMPLE}, as a W&B history"),
        "# open_instruct/grpo_fast.py, beside wandb.log(metrics, step=...)\nmonitor.log(training_step, metrics)",
        ("`<run>_rollouts_<shard>.jsonl`: token ids", "the rich panel on the console"),
    ),
    "ROLL": Sheet(
        "RLVR and agentic pipelines, up to 0.3",
        (
            (_TB, "`tracker_kwargs.log_dir`"),
            ("console", "`metrics_tag: {...}` lines of `track_with: stdout`"),
            _WANDB,
            ("SwanLab, trackio", "their files"),
        ),
        Tested(sample=f"{_SAMPLE}, console and TensorBoard"),
        "# in the log(self, values, step, **kwargs) of your tracker\nmonitor.log(step, values)",
        ("`rollout_dump_data.step_<N>.jsonl`: one object of columns per step",),
    ),
    "torchforge": Sheet(
        "the GRPO app of November 2025",
        (("console", "blocks that begin with `=== [...] - METRICS STEP n ===`"), _WANDB),
        Tested(sample=_SAMPLE),
        "# in the log_batch(self, metrics, global_step) of a LoggerBackend\n"
        "monitor.log(global_step, {m.key: m.value for m in metrics})",
    ),
    "Atropos": Sheet(
        "environments and example trainer, as archived in July 2026",
        (("dump of groups", "`--env.data_path_to_save_groups`: one line per group, no training step"), _WANDB),
        Tested(sample="64 groups of 16 steps"),
        "# in wandb_log(self, wandb_metrics) of your BaseEnv, before super()\n"
        "monitor.log(self.curr_step, wandb_metrics)",
        ("`eval_results/metrics.json`", "the trainer's own log: read that as its own run"),
        "It sees what the environment logs; loss, KL and entropy are the trainer's.",
    ),
    "mlx-lm-lora": Sheet(
        "GRPO of August 2026",
        (
            ("console", "`Iter n:` blocks, every `--steps-per-report` steps"),
            _WANDB,
            ("config", "`adapter_config.json`"),
        ),
        Tested(sample=_SAMPLE),
        "class Vitals(TrainingCallback):\n"
        "    def on_train_loss_report(self, train_info):\n"
        '        monitor.log(train_info["iteration"], train_info)',
    ),
    "tinker-cookbook": Sheet(
        "0.5, and custom loops on the Tinker API that log `reward/mean`",
        (
            ("`metrics.jsonl`", "`<log_path>/`"),
            ("`config.json`, `checkpoints.jsonl`", "beside it"),
            ("W&B, trackio", "as exports or files"),
        ),
        Tested("6 logs of 1 repository, all of custom loops", "", _SAMPLE),
        "class Vitals(ml_log.Logger):\n"
        "    def log_metrics(self, metrics, step=None):\n"
        "        monitor.log(step, metrics)",
        ("`iteration_*/train_rollout_summaries.jsonl`", "`*_logtree.json`", "`timing_spans.jsonl`"),
    ),
    "OpenRLHF": Sheet(
        "0.5 to 0.11",
        (
            (_TB, "`--logger.tensorboard_dir`, a folder per run"),
            ("console", "`Global step N: {...}` lines"),
            _WANDB,
            ("command line", "in `run.sh` beside the log, or at the head of the console"),
        ),
        Tested(sample=f"{_SAMPLE}, console and TensorBoard"),
        "# openrlhf/utils/logging_utils.py, in log_train(self, global_step, logs_dict)\n"
        "monitor.log(global_step, logs_dict)",
    ),
    "NeMo-RL": Sheet(
        "0.3 to 0.7",
        (
            (_TB, "`logs/exp_NNN/tensorboard`"),
            ("W&B, MLflow, SwanLab", "`logs/exp_NNN/`; all four are off by default"),
            ("config", "`<checkpoint_dir>/step_N/config.yaml`"),
        ),
        Tested(sample=f"{_SAMPLE}, TensorBoard"),
        "class Vitals(LoggerInterface):\n"
        '    def log_metrics(self, metrics, step, prefix="", step_metric=None, step_finished=False):\n'
        '        monitor.log(step, {f"{prefix}/{key}": value for key, value in metrics.items()})',
        ("`train_data_step<N>.jsonl` and `val_data_step<N>.jsonl`: texts, tokens, rewards",),
    ),
    "prime-rl": Sheet(
        "0.2 to 0.4, 0.5 and 0.6, 0.7 and newer",
        (
            ("`metrics.jsonl`", "`<output_dir>/<run>/`; orchestrator and trainer share it"),
            ("console", "`logs/attempt_<n>/orchestrator.log` and `trainer.log`"),
            _WANDB,
            ("config", "`configs/*.json`"),
        ),
        Tested(sample=f"{_SAMPLE}, in the keys of 0.5 and of 0.8"),
        "class Vitals(prime_rl.monitors.base.Monitor):\n"
        "    async def log_metrics(self, metrics, step):\n"
        "        monitor.log(step, metrics)",
        ("`rollouts/step_N/train/all/traces.jsonl`: texts, tokens, rewards, policy versions",),
        "Orchestrator and trainer are two processes, each with a monitor of its own; for both halves watch the file.",
        ("reward_family/",),
    ),
    "verifiers": Sheet(
        "vf-rl of 0.1.8 to 0.1.14, the last release that trained",
        (
            _WANDB,
            _STATE,
            _CONSOLE,
            ("evaluations", "`outputs/evals/<env>--<model>/<id>/results.jsonl`, by `--evals NAME=FOLDER`"),
        ),
        Tested(sample="trainer rows in the keys of 0.1.14, one evaluation"),
        _CALLBACK,
    ),
    "SkyRL": Sheet(
        "0.2 to 0.4, synchronous and fully asynchronous",
        (
            (_TB, "`$TENSORBOARD_DIR` or `./tensorboard_log`, without a folder per run"),
            ("console", "`Step N:` and a dict over many lines"),
            ("W&B, MLflow, SwanLab", "as exports or files"),
        ),
        Tested(sample=f"{_SAMPLE}, console and TensorBoard"),
        "class Vitals(TrainingCallback):\n"
        "    def on_log(self, trainer, callback_input, control):\n"
        "        monitor.log(trainer.global_step, callback_input.logs)",
        ("`dumped_data/*.pkl` (pickles)", "`dumped_evals/`: texts of evaluations"),
    ),
    "slime": Sheet(
        "0.1 to 0.3, and forks with its log names",
        (
            (_TB, "`$TENSORBOARD_DIR` or `tensorboard_log/<project>/<experiment>`"),
            ("console", "`rollout N: {...}`, `perf N: {...}`, `eval N: {...}` lines"),
            _WANDB,
            ("command line", "in `run.sh` beside the log"),
        ),
        Tested(sample=f"{_SAMPLE}, console and TensorBoard"),
        "# --custom-rollout-log-function-path FILE.py:f\n"
        "def f(rollout_id, args, samples, extra, time):\n"
        "    monitor.log(rollout_id, extra)\n"
        "    return False",
        ("`--dump-details` (pickles)",),
        "It sees the rollout half; for loss, KL and gradients watch the TensorBoard folder.",
    ),
    "AReaL": Sheet(
        "0.3 to 1.0",
        (
            (_TB, "`stats_logger.tensorboard.path`"),
            ("console", "tables under `Train step n/N done`"),
            ("W&B, SwanLab, trackio", "as exports or files"),
            ("config", "`<fileroot>/logs/<user>/<experiment>/<trial>/config.yaml`"),
        ),
        Tested(sample=f"{_SAMPLE}, console and TensorBoard"),
        "# in StatsLogger.commit(self, epoch, step, global_step, data)\n"
        "monitor.log(global_step, data if isinstance(data, dict) else data[-1])",
        ("`rollout/<version>/<task>.jsonl`: texts, rewards, versions of each rollout",),
    ),
    "chapter-7 scripts": Sheet(
        "chapters 6 and 7, every script and header up to April 2026",
        (("CSV", "`logs/*_metrics.csv`; restarts append"), ("text", "`logs/*_metrics.txt`, and console output")),
        Tested("3 logs of 1 repository", "", _SAMPLE),
        '# beside the line that appends the CSV row\nmonitor.log(step, {"reward_avg": reward_avg, "loss": loss})',
        ("`*_outputs.txt`: one completion per step",),
    ),
    "rlvitals train": Sheet(
        "0.1, the trainer of this project",
        (
            ("JSON lines", "`metrics.jsonl`, one row per step in canonical names"),
            ("config", "`config.json`: settings, loss, canonical facts, identities of environment, reward and sampler"),
            ("rollouts", "`rollouts/*.parquet`, one file per checkpoint interval"),
            ("evaluations", "in `metrics.jsonl`; `rescored.csv` of `rlvitals train eval`, by `--evals NAME=FILE`"),
            ("CSV, text", "`metrics.csv` and `train.log`, in the form of the chapter-7 scripts"),
        ),
        Tested(own="runs on the embedded task"),
        "# on by default, off with --no-vitals; in a loop of your own:\n"
        "train(config, folder=out, watch=[lambda run, row, held_out: monitor.log(run.step, row)])",
    ),
}
