"""The MCP server, driven by the SDK's own client: over stdio as an agent does, and in memory."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlvitals.report.json import json_schema
from tests.cli.runs import sft_rows, trl_rows, write_jsonl

mcp = pytest.importorskip("mcp")


def ask(*calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """Start `rlvitals mcp`, list its tools and make the calls; return tool names and answers."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    async def talk() -> tuple[list[str], list[Any]]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "rlvitals", "mcp"])
        async with Client(server, read_timeout_seconds=60) as client:
            tools = await client.list_tools()
            assert all(t.annotations is not None and t.annotations.read_only_hint for t in tools.tools)
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
            return [t.name for t in tools.tools], answers

    return asyncio.run(talk())


def data(answer: Any) -> dict[str, Any]:
    found = answer.structured_content or json.loads(answer.content[0].text)
    return found.get("result", found) if isinstance(found, dict) else {}


@pytest.mark.slow
def test_an_agent_checks_explains_verifies_and_compares(tmp_path: Path) -> None:
    broken = str(write_jsonl(tmp_path / "broken.jsonl", trl_rows(80, nan_from=40)))
    fine = str(write_jsonl(tmp_path / "fine.jsonl", trl_rows(80)))
    sft = str(write_jsonl(tmp_path / "sft.jsonl", sft_rows()))
    dump = tmp_path / "rollouts.jsonl"
    rows = [
        {"step": 1, "input": "2+2=", "output": f"it is {n}", "score": float(n == 4), "uid": f"p_{n}_0"}
        for n in range(6)
    ]
    dump.write_text("".join(json.dumps(r) + "\n" for r in rows))
    names, answers = ask(
        ("check", {"path": broken}),
        ("explain", {"topic": "D001"}),
        ("verify", {"path": broken, "since": 60}),
        ("compare", {"paths": [broken, fine]}),
        ("check", {"path": sft}),
        ("check", {"path": str(tmp_path / "nowhere")}),
        ("explain", {"topic": "zzzz-no-such-thing"}),
        ("rollouts", {"path": str(dump), "where": "reward>0.5"}),
        ("rollouts", {"path": str(dump), "where": "reward >>> 3"}),
    )
    assert sorted(names) == ["check", "compare", "explain", "rollouts", "verify"]
    diagnosis = data(answers[0])
    jsonschema.validate(diagnosis, json_schema())
    assert diagnosis["verdict"] == "stop"
    assert "nonfinite" in data(answers[1])["markdown"]
    assert data(answers[2])["answer"] in ("not fixed", "something else became worse")
    assert data(answers[3])["pairs"][0]["common_steps"] == 80
    assert "supervised" in data(answers[4])["problems"][0]
    assert "no such file" in data(answers[5])["problems"][0]
    assert "nothing is known" in data(answers[6])["problems"][0]
    shown = data(answers[7])
    assert (shown["matching"], shown["rollouts"][0]["completion"]) == (1, "it is 4")
    assert data(answers[8])["problems"]
