"""The JSON side: exact answers, problems for wrong questions, and the description it publishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.live.site import client, id_of, write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "healthy", 60)
    write_run(folder / "sick", 60, nan_from=30, dump=False)
    return folder


@pytest.fixture(scope="module")
def page(root: Path) -> Iterator[TestClient]:
    with client(root) as found:
        healthy = id_of(root / "healthy")
        while not found.get(f"/api/runs/{healthy}/rollouts").json()["complete"]:
            pass
        yield found


@pytest.fixture
def base(root: Path) -> str:
    return f"/api/runs/{id_of(root / 'healthy')}"


def test_runs_come_with_verdict_and_line(page: TestClient, root: Path) -> None:
    found = page.get("/api/runs").json()
    assert [(r["name"], r["verdict"], r["last_step"]) for r in found["runs"]] == [
        ("sick", "stop", 60), ("healthy", "healthy", 60),
    ]  # fmt: skip
    assert found["runs"][0]["id"] == id_of(root / "sick")
    assert found["runs"][0]["spark"]["metric"] == "reward_mean"
    assert found["left_out"] == 0


def test_a_run_carries_the_diagnosis_of_check(page: TestClient, root: Path) -> None:
    found = page.get(f"/api/runs/{id_of(root / 'sick')}").json()
    assert found["diagnosis"]["verdict"] == "stop"
    assert found["diagnosis"]["causes"][0]["onset_step"] == 30


def test_series_are_cut_to_the_window(page: TestClient, base: str) -> None:
    found = page.get(f"{base}/series?from=10&to=20&panels=reward").json()
    assert list(found["panels"]) == ["reward"]
    assert found["panels"]["reward"]["lines"][0]["x"] == list(range(9, 22))
    assert (found["first"], found["last"]) == (1, 60)


def test_rollouts_are_filtered(page: TestClient, base: str) -> None:
    def count(query: str) -> int:
        return int(page.get(f"{base}/rollouts?{query}").json()["total"])

    assert count("") == 72
    assert count("steps=2") == 12
    assert count("steps=2-3") == count("steps=3-2") == 24
    assert count("family=chains") == 24
    assert count("stop_reason=budget") == 18
    assert count("status=error") == 18
    assert count("group=g2-1") == 4
    assert count("reward_min=0.5") == 36
    assert count("reward_max=0.5") == 18
    assert count("reward_min=0.5&steps=1&family=sums") == 4
    assert count("family=x' OR '1'='1") == 0


def test_rollouts_come_in_order_and_in_pages(page: TestClient, base: str) -> None:
    first = page.get(f"{base}/rollouts?limit=5").json()["rollouts"]
    assert [(r["step"], r["group"], r["index"]) for r in first[:2]] == [(6, "g6-0", 0), (6, "g6-0", 1)]
    second = page.get(f"{base}/rollouts?limit=5&offset=5").json()["rollouts"]
    assert {r["row"] for r in first}.isdisjoint(r["row"] for r in second)
    longest = page.get(f"{base}/rollouts?order=tokens&limit=1").json()["rollouts"][0]
    assert longest["tokens"] == 13
    assert "reward" not in longest  # no reward is not 0


def test_a_rollout_comes_with_texts_parts_and_versions(page: TestClient, base: str) -> None:
    row = page.get(f"{base}/rollouts?group=g2-1&limit=1").json()["rollouts"][0]
    assert "completion" not in row
    one = page.get(f"{base}/rollouts/{row['row']}").json()
    assert one["prompt"] == "What is 1 + 2? "
    assert one["completion"] == "  thinking 0\n  it is 3. "
    assert one["raw_output"] == "score=1.0"
    assert one["reward_part/format"] == 0.5
    assert (one["reward"], one["advantage"], one["policy_version"], one["trainer_version"]) == (1.0, 0.5, 2, 3)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("steps=x", "steps"), ("steps=1-2-3", "steps"), ("steps=9999999999999999", "steps"), ("limit=0", "limit"),
        ("limit=201", "limit"), ("offset=-1", "offset"), ("order=up", "order"), ("reward_min=nan", "reward_min"),
        ("reward_max=1e999", "reward_max"), ("family=" + "x" * 201, "family"), ("group=%00", "group"),
    ],
)  # fmt: skip
def test_wrong_values_are_problems(page: TestClient, base: str, query: str, where: str) -> None:
    answer = page.get(f"{base}/rollouts?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert [p["where"] for p in answer.json()["problems"]] == [where]


def test_all_problems_come_at_once(page: TestClient, base: str) -> None:
    found = page.get(f"{base}/series?from=x&points=1&with=nobody&colour=red").json()
    assert [p["what"] for p in found["problems"]] == [
        "wrong value", "wrong value", "there is no such run", "unknown parameter",
    ]  # fmt: skip


def test_a_run_without_rollouts_says_so(page: TestClient, root: Path) -> None:
    answer = page.get(f"/api/runs/{id_of(root / 'sick')}/rollouts")
    assert (answer.status_code, answer.json()["title"]) == (404, "this run has no rollouts")
    assert page.get(f"/api/runs/{id_of(root / 'healthy')}/rollouts/9999").status_code == 404


def test_events_tell_the_state_at_once(root: Path) -> None:
    import urllib.request

    from tests.live.site import server

    with (
        server(root) as address,
        urllib.request.urlopen(f"{address}/api/runs/{id_of(root / 'sick')}/events", timeout=10) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.readline() == b'data: {"revision":1,"verdict":"stop","last_step":60}\n'


@pytest.mark.slow
def test_the_api_is_what_its_description_says(root: Path) -> None:
    """Generated requests, wrong ones too: every answer fits the description, none is a fault."""
    schemathesis = pytest.importorskip("schemathesis")
    import hypothesis

    from rlvitals.live.web.app import create_app
    from tests.live.site import shelf_of

    shelf = shelf_of(root)
    while shelf.waiting:
        shelf.refresh()
    app = create_app(shelf)
    schema = schemathesis.openapi.from_dict(
        TestClient(app, base_url="http://127.0.0.1").get("/api/openapi.json").json()
    )
    known = [id_of(root / "healthy"), id_of(root / "sick")]
    tested = set()
    for operation in schema.get_all_operations():
        operation = operation.ok()
        if operation.path.endswith("/events"):  # endless by design; tested above
            continue
        tested.add(operation.path)

        @hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(case=operation.as_strategy(), pick=hypothesis.strategies.sampled_from([*known, "0000000000"]))
        def fits(case, pick):  # type: ignore[no-untyped-def]
            if "id" in (case.path_parameters or {}):
                case.path_parameters["id"] = pick
            case.operation.app = app
            answer = case.call(base_url="http://127.0.0.1", app=app)
            assert answer.status_code < 500
            case.validate_response(answer)

        fits()
    assert len(tested) == 6
