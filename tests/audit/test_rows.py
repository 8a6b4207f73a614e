"""Plain files: keys by name or by the user, broken input counted or refused, an endpoint and a local model sampled."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rlvitals.audit.load import load_rollouts, load_tasks
from rlvitals.audit.rows import read_rows, write_rows
from rlvitals.audit.sample import Sampling, sample_endpoint, sample_local
from rlvitals.errors import InputError
from tests.audit.data import items, row, task_file, write_jsonl


def test_usual_names_chats_and_nested_keys(tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "no"},
    ]
    path = write_jsonl(
        tmp_path / "verl.jsonl",
        [
            {
                "prompt": chat,
                "response": "4",
                "reward_model": {"ground_truth": "4"},
                "data_source": "sums",
                "score": {"score": 1.0},
            }
        ],
    )
    (found,) = read_rows(path).rows
    assert ([m.content for m in found.messages], found.completion, found.gold) == (["Be brief.", "2+2?"], "4", "4")
    assert (found.family, found.reward, found.turns) == ("sums", 1.0, ("4",))


def test_the_users_word_goes_before_names(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [{"q": "2+2?", "reward": 0, "mine": 0.5}])
    found = read_rows(path, {"reward": "mine", "prompt": "q"}).rows[0]
    assert (found.reward, found.prompt) == (0.5, "2+2?")
    with pytest.raises(InputError, match="mapped key is not in the file"):
        read_rows(path, {"reward": "yours"})
    with pytest.raises(InputError, match="unknown role"):
        read_rows(path, {"rewards": "mine"})
    with pytest.raises(InputError, match="no gold found"):
        read_rows(path, needs=("gold",))


def test_broken_lines_are_counted_and_broken_files_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"prompt": "a", "reward": NaN}\n{half\n[1]\n{"prompt": "\xff", "reward": 1}\n')
    found = read_rows(path)
    assert len(found.rows) == 2
    assert math.isnan(found.rows[0].reward)
    assert found.notes[0] == "2 broken lines were skipped"
    assert found.notes[1].startswith("1 lines are not UTF-8")
    bad = tmp_path / "x.parquet"
    bad.write_bytes(b"PAR1 cut off")
    with pytest.raises(InputError, match="not a readable parquet file"):
        read_rows(bad)
    with pytest.raises(InputError, match="no such file"):
        read_rows(tmp_path / "none.jsonl")


def test_csv_and_json_arrays(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("question,answer,level\n2+2?,4,1\n3+3?,6,\n")
    (tmp_path / "x.json").write_text(json.dumps([{"question": "2+2?", "answer": 4}]))
    assert [(r.prompt, r.gold, r.tier) for r in read_rows(tmp_path / "x.csv").rows] == [
        ("2+2?", "4", "1"),
        ("3+3?", "6", ""),
    ]
    assert read_rows(tmp_path / "x.json").rows[0].gold == "4"


def test_rollouts_are_written_and_read_under_their_canonical_names(tmp_path: Path) -> None:
    rows = [row(i, index=j, completion=f"so {j}", reward=float(j), stop="eos") for i in range(2) for j in range(2)]
    write_rows(rows, tmp_path / "rollouts.jsonl")
    found = load_rollouts(tmp_path / "rollouts.jsonl").rows
    assert [(r.id, r.group, r.index, r.reward, r.stop) for r in found] == [
        (r.id, r.group, r.index, r.reward, r.stop) for r in rows
    ]


def test_tasks_are_taken_once_with_the_name_of_their_gold_column(tmp_path: Path) -> None:
    path = task_file(tmp_path / "tasks.jsonl", 3)
    path.write_text(path.read_text() * 2)
    found, key = load_tasks(path)
    assert ([i.id for i in found], [i.gold for i in found], key) == (["t0", "t1", "t2"], ["5", "7", "9"], "answer")


class Replies(BaseHTTPRequestHandler):
    asked: list[dict[str, object]] = []  # noqa: RUF012
    failures = 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Replies.asked.append({"path": self.path, **body})
        busy, Replies.failures = Replies.failures > 0, Replies.failures - 1
        said = {"choices": [{"message": {"content": body["messages"][-1]["content"]}, "finish_reason": "length"}]}
        data = json.dumps({} if body["model"] == "odd" else said).encode()
        self.send_response(503 if busy else 404 if body["model"] == "none" else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test quiet."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replies)
    Replies.asked, Replies.failures = [], 1
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_an_endpoint_is_sampled_and_a_busy_one_asked_again(endpoint: str) -> None:
    found = sample_endpoint(endpoint, "m", items(2), Sampling(per_task=3, temperature=0.7, max_tokens=9))
    assert [(r.id, r.index, r.completion, r.stop) for r in found] == [
        (f"t{i}", k, f"What is {i} + {i + 5} ?", "budget") for i in range(2) for k in range(3)
    ]
    assert len(Replies.asked) == 7  # one was refused
    first = Replies.asked[0]
    assert (first["path"], first["temperature"], first["max_tokens"]) == ("/v1/chat/completions", 0.7, 9)


@pytest.mark.parametrize(("model", "what"), [("none", "the endpoint refused"), ("odd", "no chat completion")])
def test_an_endpoint_that_answers_otherwise_is_an_input_error(endpoint: str, model: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        sample_endpoint(endpoint, model, items(1), Sampling(per_task=1))
    with pytest.raises(InputError, match="not an address"):
        sample_endpoint("file:///etc/passwd", model, items(1), Sampling(per_task=1))


def test_a_local_model_is_sampled(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {c: i for i, c in enumerate(["<end>", "<unk>", *"0123456789+? Whatis"])}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", eos_token="<end>")
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        eos_token_id=0, bos_token_id=0,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    found = sample_local(str(tmp_path), items(2), Sampling(per_task=3, max_tokens=8))
    assert [(r.id, r.index) for r in found] == [(f"t{i}", k) for i in range(2) for k in range(3)]
    assert {r.stop for r in found} <= {"eos", "budget"}
    with pytest.raises(InputError, match="can't be loaded"):
        sample_local(str(tmp_path / "none"), items(1), Sampling())
