"""The page of one trainer, from its adapter and its sheet: what is read, what is missing, how to log it and attach."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlvitals.check import Check
from rlvitals.checks import CHECKS
from rlvitals.ingest.adapter import Adapter, Key
from rlvitals.metrics import lookup
from rlvitals.reference.page import Bullets, Code, Page, Paragraph, Table, page, section
from rlvitals.reference.sheets import SHEETS, Sheet
from rlvitals.reference.tenthings import TEN_THINGS, Part, log_line
from rlvitals.reference.words import code, trainers
from rlvitals.schema import RunConfig, Scope

UNSET = RunConfig()
NO_NEED = "no lag to log"  # begins the line of a trainer that samples with the weights it trains
NAMES_NOTE = (
    "A value that you log yourself is recognised by its name, whatever the trainer puts before it or behind: "
    "`parse_failure_frac`, `success_tier_<tier>`, `reward_family_<family>`, `stop_frac_<reason>`, `length_right_mean`. "
    "Any other name: `--map METRIC=KEY`."
)


def file_name(adapter: Adapter) -> str:
    """Return the name of a trainer's page."""
    return adapter.info.name.lower().replace(" ", "-") + ".md"


def trainer_page(adapter: Adapter, link: Callable[[Check], str]) -> Page:
    """Return a trainer's page; `link` makes a check's id a link."""
    sheet = SHEETS[adapter.info.name]
    info = adapter.info
    unread = tuple(f"not read: {text}" for text in sheet.unread)
    return page(
        info.name,
        f"Releases: {sheet.releases}. Steps count from {info.step_base}.",
        section("Tested on", Bullets(tested_lines(sheet))),
        section("What is read", Table(("sink", "where"), sheet.reads), Bullets(unread)),
        section("The ten things to log", _ten(adapter), Paragraph(NAMES_NOTE)),
        section("Checks that stay blind", *_blind(adapter, link)),
        section("Attach live", *_live(sheet, info.name)),
        section("Keys", Table(("key", "metric", "unit", "as", "note"), _keys(adapter)), _variable(adapter)),
        section("Held-out scores", Table(("key", "set", "kind", "note"), _evals(adapter))),
        section("Knobs", Table(("knob", "here"), tuple((k.replace("_", " "), v) for k, v in info.knobs.items()))),
        section("Settings that are read", Table(("field", "from"), _config(adapter))),
        section("Defaults", Table(("field", "default"), tuple((f"`{k}`", v) for k, v in info.defaults.items()))),
        section("Understood and not used", Paragraph(code(map(_open, _bare(adapter.ignore))))),
    )  # fmt: skip


def tested_lines(sheet: Sheet) -> tuple[str, ...]:
    """Return one line per kind of test, and "no real run" where that is so."""
    tested = sheet.tested
    lines = []
    if tested.public:
        lines.append(f"real runs that people made public: {tested.public}")
    if tested.own:
        lines.append(f"real runs made for this project: {tested.own}")
    if not lines:
        lines.append("no real run: nobody has checked here what the trainer itself writes")
    return (*lines, f"a sample written after its source: {tested.sample}") if tested.sample else tuple(lines)


def index_page() -> Page:
    """Return the index of all trainers."""
    rows = tuple(
        (f"[{a.info.name}]({file_name(a)})", SHEETS[a.info.name].releases, SHEETS[a.info.name].tested.short)
        for a in trainers()
    )
    return page(
        "Trainers",
        "What is read of each trainer, in its own words. Tested on a sample: a log written after the trainer's source, "
        "not by the trainer. Any other trainer: JSONL, CSV, parquet, TensorBoard, W&B, MLflow, console text or "
        "notebooks, with own names by `--map METRIC=KEY`.",
        section("Known trainers", Table(("trainer", "releases", "tested on"), rows)),
    )


def logged(adapter: Adapter) -> frozenset[str]:
    """Return the metrics that the trainer's own keys can give; families with a trailing slash."""
    forms = (adapter.keys, refined(adapter), *_variants(adapter))
    names = [key.metric for form in forms for key in form.values()]
    names += [key.metric for _, key in adapter.patterns] + [d.metric for d in adapter.derived]
    names += SHEETS[adapter.info.name].also
    return frozenset(n.partition("/")[0] + "/" if "/" in n else n for n in names)


def refined(adapter: Adapter, raw: frozenset[str] = frozenset(), config: RunConfig = UNSET) -> Mapping[str, Key]:
    """Return the adapter's keys as they are in a run that logs `raw` with this config; new ones last, by name."""
    found = adapter.refine(raw, config) if adapter.refine is not None else {}
    names = [*adapter.keys, *sorted(name for name in found if name not in adapter.keys)]
    return {name: found.get(name) or adapter.keys[name] for name in names}


def _variants(adapter: Adapter) -> tuple[Mapping[str, Key], ...]:
    """Return the keys in the cases in which an adapter may read one otherwise."""
    configs = (
        UNSET, RunConfig(importance_level="sequence"), RunConfig(advantage_scaling="batch"),
        RunConfig(drops_zero_variance=True), RunConfig(kl_coef=0.5),
    )  # fmt: skip
    return tuple(refined(adapter, frozenset(adapter.keys), config) for config in configs)


def _variable(adapter: Adapter) -> Paragraph | None:
    """Name the keys whose meaning depends on the release or on settings."""
    plain = refined(adapter)
    others = _variants(adapter)
    names = [n for n, key in plain.items() if adapter.keys.get(n) != key or any(form.get(n) != key for form in others)]
    bare = _bare(tuple(names))
    return Paragraph(f"Read with an eye on release, settings and the other keys: {code(bare)}.") if bare else None


def _there(adapter: Adapter, part: Part) -> bool:
    """True when a key of this trainer, a config field that is read or an evaluation gives the part."""
    have = logged(adapter)
    for source in part.sources:
        if source.startswith("config:"):
            name = source.removeprefix("config:")
            if name in adapter.config or name in adapter.fixed.known():
                return True
        elif source == "evals":
            if adapter.evals:
                return True
        elif source.removesuffix("*") in have:
            return True
    return False


def _ten(adapter: Adapter) -> Table:
    rows = []
    for thing in TEN_THINGS:
        for i, part in enumerate(thing.parts):
            line = log_line(part.sources, adapter)
            here = "not needed" if line.startswith(NO_NEED) else "yes" if _there(adapter, part) else "no"
            rows.append((str(thing.number) if not i else "", part.label, here, line))
    return Table(("", "what", "own key", "how to log it"), tuple(rows))


def _blind(adapter: Adapter, link: Callable[[Check], str]) -> tuple[Paragraph | Table, ...]:
    """Return the checks whose metrics no key of this trainer gives."""
    have = logged(adapter) | ({"held-out"} if adapter.evals else set())
    rows = []
    for check in CHECKS:
        needs = check.needs
        lacking = [m for m in needs.all_of if m not in have]
        if needs.any_of and not have & set(needs.any_of):
            lacking.append(" or ".join(needs.any_of))
        if lacking:
            rows.append((link(check), ", ".join(f"`{m}`" for m in lacking)))
    if not rows:
        return (Paragraph("None, when everything it can log is logged."),)
    text = "No key of this trainer gives what these need. They work once you log it, under these names or by `--map`."
    return Paragraph(text), Table(("check", "needs"), tuple(rows))


def _live(sheet: Sheet, name: str) -> tuple[Code | Paragraph, ...]:
    text = f'monitor = rlvitals.Monitor(trainer="{name}")\n\n{sheet.hook}'
    note = "`monitor.diagnosis()` gives the verdict at any time; `monitor.log` returns what opened, worsened or closed."
    return Code(text), Paragraph(" ".join(t for t in (sheet.hook_note, note) if t))


def _bare(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names without those that only repeat another under `train/`."""
    known = set(names)
    return tuple(dict.fromkeys(n for n in names if not (n.startswith("train/") and n.removeprefix("train/") in known)))


def _keys(adapter: Adapter) -> tuple[tuple[str, ...], ...]:
    keys, patterns = refined(adapter), dict(adapter.patterns)
    rows = [_key_row(name, keys[name]) for name in _bare(tuple(keys))]
    rows += [_key_row(name, patterns[name]) for name in _bare(tuple(patterns))]
    for made in adapter.derived:
        row = lookup(made.metric)
        unit = row.unit if row is not None else ""
        rows.append((f"{made.transform} (computed)", f"`{made.metric}`", unit, made.estimator, made.note))
    return tuple(rows)


def _key_row(name: str, key: Key) -> tuple[str, ...]:
    metric = _open(key.metric)
    row = lookup(metric)
    unit = key.unit or (row.unit if row is not None else "")
    direction = key.direction or (row.direction if row is not None else None)
    scope = "" if key.scope in (Scope.ALL, Scope.UNKNOWN) else key.scope.value
    parts = (key.estimator, direction.value if direction is not None else "", scope, _conversion(key))
    return (f"`{_open(name)}`", f"`{metric}`", unit, "; ".join(p for p in parts if p), key.note)


def _conversion(key: Key) -> str:
    if key.transform:
        return f"converted: {key.transform}"
    scaled = "" if key.scale == 1.0 else "sign flipped" if key.scale == -1.0 else f"times {key.scale:g}"
    moved = "" if key.offset == 0.0 else f"plus {key.offset:g}" if key.offset > 0 else f"minus {-key.offset:g}"
    text = ", then ".join(t for t in (scaled, moved) if t)
    return f"converted: {text}" if text else ""


def _evals(adapter: Adapter) -> tuple[tuple[str, ...], ...]:
    patterns = {e.pattern: e for e in adapter.evals}
    return tuple(
        (f"`{_open(name)}`", f"`{_open(patterns[name].name)}`", patterns[name].metric, patterns[name].note)
        for name in _bare(tuple(patterns))
    )


def _open(name: str) -> str:
    """Return a pattern with a word in place of each brace."""
    return name.replace("{}", "<name>").replace("{0}", "<first>").replace("{1}", "<second>")


def _config(adapter: Adapter) -> tuple[tuple[str, str], ...]:
    fixed = adapter.fixed
    rows = [(f"`{name}`", code(paths)) for name, paths in adapter.config.items()]
    rows += [
        (f"`{name}`", f"always {value} ({fixed.sources.get(name, 'source')})") for name, value in fixed.known().items()
    ]
    return tuple(rows)
