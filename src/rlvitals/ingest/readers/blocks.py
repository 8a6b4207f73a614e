"""Console records of several lines: torchforge's `=== [..] - METRICS STEP 3 ===` and mlx-lm-lora's `Iter 3:` blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rlvitals.ingest.values import number

MAX_LINES = 2_000  # of one block; a longer one is no block of metrics

_FORGE_HEAD = re.compile(r"=== \[.*?\] - METRICS STEP (\d+) ===\s*$")
_FORGE_LINE = re.compile(r"\s+([\w.][\w./@ -]*): (\S+)\s*$")
_MLX_HEAD = re.compile(r"Iter (\d+):\s*$")
_RULE = re.compile(r"\s*(?:=|-){20,}\s*$")
_DOUBLE_RULE = re.compile(r"\s*={20,}\s*$")

_VALUE = r"([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))"
_MEAN_STD = rf"\s*μ={_VALUE}, σ={_VALUE}"
_MLX_LINES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(rf"Loss: {_VALUE}"), ("loss",)),
    (re.compile(rf"Total Rewards:{_MEAN_STD}"), ("total_rewards_mean", "total_rewards_std")),
    (re.compile(rf"Group Rewards:{_MEAN_STD}"), ("grouped_rewards_mean", "grouped_rewards_std")),
    (re.compile(rf"KL Divergence: {_VALUE}"), ("kl",)),
    (re.compile(rf"\W*Avg tokens: {_VALUE}"), ("average_generated_tokens",)),
    (re.compile(rf"\W*Min tokens: {_VALUE}"), ("min_generated_tokens",)),
    (
        re.compile(rf"\W*Max tokens: {_VALUE}(?: \(limit: {_VALUE}\))?"),
        ("max_generated_tokens", "max_completion_length"),
    ),
    (
        re.compile(rf"Clipping:\s+low={_VALUE}, high={_VALUE}, total={_VALUE}"),
        ("clip_ratio_low", "clip_ratio_high", "clip_ratio_total"),
    ),
    (re.compile(rf"Learning Rate: {_VALUE}"), ("learning_rate",)),
    (re.compile(rf"Speed: {_VALUE} it/s, {_VALUE} tok/s"), ("iterations_per_second", "tokens_per_second")),
    (re.compile(rf"Memory: {_VALUE}GB"), ("peak_memory",)),
)
_MLX_PERCENT = re.compile(rf"\W*Hit limit: {_VALUE}%")
_MLX_FUNCTION = re.compile(rf"\s*• (.+?):{_MEAN_STD}, cov={_VALUE}%")

Values = dict[str, object]


@dataclass
class Blocks:
    """Follows one console; `feed` takes its lines in order and returns a record when a block is complete."""

    style: str = ""
    _values: Values = field(default_factory=dict)
    _lines: int = 0
    _first: int = 0

    def feed(self, piece: str, line: int) -> tuple[bool, tuple[str, Values, int] | None]:
        """Return (whether the line belongs to a block, the finished record as (style, values, its line))."""
        head = self._head(piece)
        if head is not None:
            done = self._close()
            self.style, self._values = head
            self._first, self._lines = line, 0
            return True, done
        if not self.style:
            return False, None
        self._lines += 1
        parse: Callable[[str], Values | None] = _forge if self.style == "torchforge" else _mlx
        found = parse(piece)
        if found is not None:
            self._values.update(found)
            return True, None
        inside = self.style == "mlx-lm-lora" and not _DOUBLE_RULE.match(piece) and self._lines <= MAX_LINES
        if inside and (_RULE.match(piece) or piece.rstrip().endswith(":")):
            return True, None
        ends = bool(_DOUBLE_RULE.match(piece))
        return ends, self._close()

    def finish(self) -> tuple[str, Values, int] | None:
        """Return the record of a block that the file's end cut short, if it holds anything."""
        return self._close()

    def _head(self, piece: str) -> tuple[str, Values] | None:
        match = _FORGE_HEAD.search(piece) if "METRICS STEP" in piece else None
        if match is not None:
            return "torchforge", {"step": int(match[1])}
        match = _MLX_HEAD.match(piece) if piece.startswith("Iter ") else None
        return ("mlx-lm-lora", {"iteration": int(match[1])}) if match is not None else None

    def _close(self) -> tuple[str, Values, int] | None:
        style, values = self.style, self._values
        self.style, self._values = "", {}
        return (style, values, self._first) if style and len(values) > 2 else None


def _forge(piece: str) -> Values | None:
    match = _FORGE_LINE.match(piece)
    if match is None or number(match[2], match[1]) is None:
        return None
    return {match[1]: match[2]}


def _mlx(piece: str) -> Values | None:
    """Return the values of one line; percentages become fractions."""
    function = _MLX_FUNCTION.match(piece)
    if function is not None:
        name = function[1].strip().replace(" ", "_")
        coverage = number(function[4])
        out: Values = {f"{name}_mean": function[2], f"{name}_std": function[3]}
        return out if coverage is None else {**out, f"{name}_coverage": coverage / 100}
    share = _MLX_PERCENT.match(piece)
    if share is not None:
        value = number(share[1])
        return None if value is None else {"hit_max_tokens_ratio": value / 100}
    for pattern, names in _MLX_LINES:
        match = pattern.match(piece)
        if match is not None:
            return {name: text for name, text in zip(names, match.groups(), strict=True) if text is not None}
    return None
