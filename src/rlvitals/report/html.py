"""The diagnosis as one offline HTML page with zoomable plots, and as a small fragment for notebooks."""

from __future__ import annotations

import html as html_text
import math
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from rlvitals import __version__
from rlvitals.check import Onset, Verdict
from rlvitals.diagnosis import Diagnosis
from rlvitals.metrics import lookup
from rlvitals.report import words
from rlvitals.report.panels import Panel, decimate, panels, smooth
from rlvitals.report.series import Role, Series, Stretch, drawn, incident_of, stretches
from rlvitals.schema import Float64

if TYPE_CHECKING:
    from jinja2 import Environment

TELLING = 8  # ruled-out faults that are shown unfolded
SMOOTH_POINTS = 1000  # per smoothed line: it has no detail to lose
MARKS_BELOW = 60  # values; sparser series also get their points drawn
DIGITS = 6  # significant digits kept in the plots' data
ONSET_MARGIN = 0.15  # share of the run shown on each side by "around the onset"
SPARK_POINTS, SPARK_WIDTH, SPARK_HEIGHT = 160, 150.0, 22.0  # of the fragment's lines; the latter two in px
GLYPH = {
    Verdict.HEALTHY: "●",
    Verdict.WATCH: "◐",
    Verdict.ACT: "▲",
    Verdict.STOP: "■",
    Verdict.CANNOT_SAY: "○",
}


def render(diagnosis: Diagnosis) -> str:
    """Return the whole page; it opens from disk and asks nothing of the network."""
    from markupsafe import Markup

    d = diagnosis
    shown = panels(d)
    telling = words.telling(d.ruled_out, TELLING)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            d=d,
            w=words,
            version=__version__,
            glyph=GLYPH[d.verdict],
            course=_course(d),
            rollback_at=_percent(d, d.rollback.step) if d.rollback.step is not None else None,
            panels=shown,
            has_onset=bool(d.causes),
            telling=telling,
            rest=[r for r in d.ruled_out if r not in telling],
            blind=_blind(d),
            crashed=words.crashed_checks(d),
            first=words.first_number(d),
            css=Markup(_own("report.css")),
            js=Markup(_own("report.js")),
            plotly=Markup(_plotly()) if shown else "",
            data=Markup(_script_json(_data(d, shown))),
        )
    )


def fragment(diagnosis: Diagnosis) -> str:
    """Return a compact piece of HTML whose styles reach nothing outside of it, for notebooks."""
    d = diagnosis
    return (
        _environment()
        .get_template("fragment.html.j2")
        .render(
            d=d,
            w=words,
            glyph=GLYPH[d.verdict],
            first=words.first_number(d),
            sparks=[_spark(d, s) for s in drawn(d, 6)],
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_own),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _own(name: str) -> str:
    """Return a file of this package's templates."""
    return (files("rlvitals.report") / "templates" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return plotly.js as the plotly wheel ships it."""
    source = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return source.replace("</script", "<\\/script")


def _script_json(value: object) -> str:
    """Return JSON that is safe inside a script element: nothing in it can close the element or open a comment."""
    text = orjson.dumps(value).decode()
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    return text


def _data(d: Diagnosis, shown: tuple[Panel, ...]) -> dict[str, Any]:
    first, last = d.position.first_step, d.position.last_step
    whole = [first, last]
    onset = d.causes[0].onset if d.causes else Onset(first, last)
    margin = max((last - first) * ONSET_MARGIN, 5)
    around = [max(first, onset.first - margin), min(last, onset.last + margin)]
    return {"panels": [_panel(p, whole, d) for p in shown], "whole": whole, "onset": around}


def _panel(p: Panel, whole: list[int], d: Diagnosis) -> dict[str, Any]:
    values = np.concatenate([s.value for s in p.lines])
    low, high = _bounds(p)
    return {
        "low": low,
        "high": high,
        "lines": [_line(s) for s in p.lines],
        "range": whole,
        "log": bool((values >= 0).all() and (values > 0).any()),
        "stretches": [_mark(s) for s in p.stretches],
    }


def _bounds(p: Panel) -> tuple[float | None, float | None]:
    """Return the range of possible values of a panel's metrics, None where there is no bound."""
    known = [lookup(s.metric) for s in p.lines]
    low = min((m.low if m is not None else -math.inf for m in known), default=-math.inf)
    high = max((m.high if m is not None else math.inf for m in known), default=math.inf)
    return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)


def _mark(s: Stretch) -> dict[str, Any]:
    return {"id": s.id, "role": s.role.value, "first": s.first, "last": s.last, "onset_last": s.onset_last}


def _line(s: Series) -> dict[str, Any]:
    """Return one series as plain data; plotly reads its text as HTML, so the name is escaped for it as well."""
    x, y = decimate(s.step, s.value)
    marks = s.value.size < MARKS_BELOW
    sx, sy = (np.zeros(0), np.zeros(0)) if marks else decimate(s.step, smooth(s.value), SMOOTH_POINTS)
    name = html_text.escape(words.clean(s.label, 48))
    out = {"name": name, "marks": marks, "x": _ints(x), "y": _rounded(y), "sx": _ints(sx), "sy": _rounded(sy)}
    if s.stderr is not None and x.size == s.stderr.size and np.isfinite(s.stderr).any():
        out["err"] = [v if math.isfinite(v) else 0 for v in _rounded(s.stderr)]
    return out


def _ints(x: Float64) -> list[int]:
    return [int(v) for v in x]


def _rounded(y: Float64) -> list[float]:
    return [float(f"{v:.{DIGITS}g}") for v in y]


def _percent(d: Diagnosis, step: float) -> float:
    """Return where a step lies on the run, 0 to 100."""
    first, last = d.position.first_step, d.position.last_step
    return round(100 * min(max((step - first) / max(last - first, 1), 0.0), 1.0), 2)


def _course(d: Diagnosis) -> list[dict[str, Any]]:
    """Return the findings as bars over the steps of the run; what recovered several times shares one row."""
    rows: list[dict[str, Any]] = []
    recovered = {r.id: r for r in words.recovered(d)}
    at: dict[str, int] = {}
    for s in stretches(d):
        over = s.role is Role.RECOVERED
        if over and s.id in at:
            rows[at[s.id]]["bars"].append(_bar(d, s))
            continue
        if over:
            at[s.id] = len(rows)
        when = _over(recovered[s.id]) if over else f"since {Onset(s.first, s.onset_last)}"
        name = recovered[s.id].name if over else s.name
        rows.append({"id": s.id, "name": name, "role": s.role.value, "when": when, "bars": [_bar(d, s)]})
    return rows


def _over(r: words.Recovered) -> str:
    return r.times[0] if len(r.times) == 1 else f"recovered {len(r.times)} times"


def _bar(d: Diagnosis, s: Stretch) -> dict[str, float]:
    """Return where a bar lies, in percent of the run: its uncertain beginning, then the rest."""
    left, certain, right = (_percent(d, x) for x in (s.first, s.onset_last, s.last))
    return {"left": left, "onset": round(certain - left, 2), "bar": certain, "width": round(right - certain, 2)}


def _blind(d: Diagnosis) -> list[dict[str, Any]]:
    out = []
    for family, spots in words.blind_by_family(d.blind_spots).items():
        out.append(
            {
                "family": family,
                "lacks": words.blind_count(spots),
                "missing": words.lacking(spots),
                "reasons": words.unique(words.reasons(spots)),
                "how": words.unique([line for s in spots for line in s.how_to_log]),
            }
        )
    return out


def _spark(d: Diagnosis, s: Series) -> dict[str, Any]:
    """Return one small line as SVG coordinates in a box of SPARK_WIDTH x SPARK_HEIGHT."""
    step, value = decimate(s.step, s.value, SPARK_POINTS)
    first, last = d.position.first_step, max(d.position.last_step, d.position.first_step + 1)
    low, high = float(value.min()), float(value.max())
    x = SPARK_WIDTH * (step - first) / (last - first)
    y = SPARK_HEIGHT * (1 - (value - low) / (high - low)) if high > low else np.full(value.size, SPARK_HEIGHT / 2)
    mark = incident_of(d, s.metric)
    where = None if mark is None else [SPARK_WIDTH * (m - first) / (last - first) for m in mark]
    return {
        "metric": s.metric,
        "points": " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)),
        "x": None if where is None else round(where[0], 1),
        "width": 0 if where is None else round(max(where[1] - where[0], 1.0), 1),
        "shown": f"{float(s.value[0]):.3g} → {float(s.value[-1]):.3g}",
    }
