"""From outcomes to one ordered diagnosis: what explains what, what comes first, what to do, where to roll back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlvitals.check import (
    MOVES,
    SEVERITY,
    VERDICT_OF,
    Action,
    Check,
    Clear,
    Crashed,
    Family,
    Finding,
    Fired,
    NoData,
    NotApplicable,
    Rollback,
    Verdict,
)
from rlvitals.checks import CHECKS
from rlvitals.diagnosis import (
    BlindSpot,
    Cause,
    Consequence,
    Cost,
    Coverage,
    Diagnosis,
    Position,
    RollbackTarget,
    RuledOut,
)
from rlvitals.engine import Examination, Incident, run_engine
from rlvitals.logline import log_lines
from rlvitals.plan import MIN_ROWS, make_plan
from rlvitals.rollback import NOTHING, rollback_target
from rlvitals.schema import EventKind, Run
from rlvitals.view import View

UPDATED = (Family.UPDATE, Family.LEASH)  # faults of updates and of what holds them
SAMPLED = (Family.SIGNAL, Family.ROLLOUT)  # faults of sampling; a reward that is constant may have broken later on
_VERDICT_ORDER = (Verdict.HEALTHY, Verdict.WATCH, Verdict.ACT, Verdict.STOP)


def diagnose(run: Run, checks: tuple[Check, ...] = CHECKS) -> Diagnosis:
    """Examine a whole run and return one ordered diagnosis. Raises TypeError for a path: rlvitals.load reads it."""
    if not isinstance(run, Run):
        raise TypeError(f"diagnose takes a Run, found a {type(run).__name__}: rlvitals.diagnose(rlvitals.load(path))")
    examination = run_engine(run, checks).examine()
    return conclude(examination, checks, name=run.name, run=run)


def conclude(examination: Examination, checks: tuple[Check, ...], *, name: str, run: Run | None = None) -> Diagnosis:
    """Turn the outcomes at one moment into a diagnosis; pure, the same live and after the fact."""
    view, by_id = examination.view, {c.id: c for c in checks}
    fired = {i: o.finding for i, o in examination.outcomes.items() if isinstance(o, Fired)}
    faults = {i: f for i, f in fired.items() if f.action is not Action.NOTE}
    unseen = frozenset(i for i, o in examination.outcomes.items() if isinstance(o, NoData))
    causes = order_causes(explain(faults, by_id, unseen, start=start_of(view)), by_id)
    notes = tuple(Cause(i, by_id[i].name, f) for i, f in fired.items() if f.action is Action.NOTE)
    coverage = cover(examination, by_id)
    blind = blind_spots(examination, by_id, view)
    position = Position(view.rows, view.first_step, view.step, view.count("reward_mean"))
    verdict, reason = judge(causes, examination, position, coverage)
    plan, held_back = make_plan(causes, by_id, view, blind, verdict)
    rollback = choose_rollback(causes, by_id, view)
    ended = (e for e in view.events if e.kind is EventKind.CRASH and (e.step is None or e.step >= view.step))
    crash = next((e.detail for e in ended), "")  # a crash before the last row was survived by a restart
    return Diagnosis(
        name=name,
        trainer=view.trainer.name,
        verdict=verdict,
        headline=headline(verdict, reason, causes, examination.incidents),
        position=position,
        causes=causes,
        notes=notes,
        incidents=over(examination.incidents, fired),
        outcomes=examination.outcomes,
        coverage=coverage,
        blind_spots=blind,
        ruled_out=ruled_out(examination, by_id, causes),
        plan=plan,
        held_back=held_back,
        rollback=rollback,
        cost=cost_of(causes, view),
        crash=crash,
        run=run,
    )


def over(incidents: Sequence[Incident], fired: Mapping[str, Finding]) -> tuple[Incident, ...]:
    """Return the incidents that are past: not those of a fault that is there now and began no later than they ended."""
    return tuple(
        i for i in incidents if i.check not in fired or i.closed is None or fired[i.check].onset.first > i.closed
    )


def start_of(view: View) -> int:
    """Return the number of a run's first step, whose rollouts come from the policy that nothing has updated yet.

    As the trainer counts, or 0 where the log itself begins there; a log that begins later does not hold that step.
    """
    return min(view.first_step, view.trainer.step_base) if view.rows else view.trainer.step_base


def explain(
    faults: Mapping[str, Finding],
    by_id: Mapping[str, Check],
    unseen: frozenset[str] = frozenset(),
    *,
    start: int = 1,
) -> tuple[Cause, ...]:
    """Attach each fault to the upstream fault that explains it; what nothing explains is a cause.

    A explains B when the `leads_to` graph reaches B from A through faults that are there, or through at most one check
    that could not look (`unseen`), and B did not certainly begin first. What is only to be watched explains nothing
    that asks for a move: it is not established enough to accuse. Between two that reach each other the shorter path
    decides, then the further upstream family. No update explains how alike the rollouts of the first
    step (`start`) were.
    """
    found = dict(faults)
    reach = {i: _distances(i, by_id, frozenset(found), unseen) for i in found}

    def explains(a: str, b: str) -> bool:
        if a == b or b not in reach[a] or found[b].onset.before(found[a].onset):
            return False
        if by_id[a].family in UPDATED and by_id[b].family in SAMPLED and found[b].onset.last <= start:
            return False
        if _asks_for_a_move(found[b]) and not _asks_for_a_move(found[a]):
            return False
        earlier = found[a].onset.before(found[b].onset)
        back = None if earlier else reach[b].get(a)  # nothing leads to what certainly came before it
        mine, other = _upstream(by_id[a], found[a]), _upstream(by_id[b], found[b])
        return back is None or reach[a][b] < back or (reach[a][b] == back and mine < other)

    parents = {b: [a for a in found if explains(a, b)] for b in found}
    in_order = sorted(found, key=lambda i: _upstream(by_id[i], found[i]))
    roots = _roots(parents, in_order)
    children: dict[str, list[str]] = {r: [] for r in roots}
    for b in in_order:
        if b not in roots:
            children[_owner(b, parents, roots, in_order)].append(b)
    return tuple(Cause(r, by_id[r].name, found[r], _consequences(children[r], found, by_id)) for r in roots)


def _roots(parents: Mapping[str, list[str]], in_order: list[str]) -> list[str]:
    """Return what nothing explains, and of a ring that explains itself its most upstream member."""
    roots = [i for i in parents if not parents[i]]
    for i in in_order:
        above = _above(i, parents)
        if not above & set(roots):
            roots.append(next(a for a in in_order if a in above))
    return roots


def _owner(b: str, parents: Mapping[str, list[str]], roots: list[str], in_order: list[str]) -> str:
    """Return the root that a consequence belongs to: the most upstream one found by climbing its parents."""
    above = _above(b, parents)
    return next(r for r in in_order if r in above and r in roots)


def _above(b: str, parents: Mapping[str, list[str]]) -> set[str]:
    """Return a fault and everything that explains it, directly or through others."""
    todo, seen = [b], {b}
    while todo:
        for a in parents[todo.pop()]:
            if a not in seen:
                seen.add(a)
                todo.append(a)
    return seen


def _consequences(
    ids: Sequence[str], found: Mapping[str, Finding], by_id: Mapping[str, Check]
) -> tuple[Consequence, ...]:
    in_order = sorted(ids, key=lambda c: (found[c].onset.first, by_id[c].family, c))
    return tuple(Consequence(c, by_id[c].name, found[c]) for c in in_order)


def _asks_for_a_move(finding: Finding) -> bool:
    return finding.action in MOVES


def _distances(start: str, by_id: Mapping[str, Check], fired: frozenset[str], unseen: frozenset[str]) -> dict[str, int]:
    """Return the faults that one can have led to, with the number of steps to each."""
    best: dict[str, int] = {}
    todo: list[tuple[str, int, bool]] = [(start, 0, False)]
    seen: set[tuple[str, bool]] = set()
    while todo:
        at, far, guessed = todo.pop(0)
        for then in by_id[at].leads_to:
            if then in fired and then != start:
                best.setdefault(then, far + 1)
            passes = then in fired or (then in unseen and not guessed)
            guess = guessed or then not in fired
            if passes and then in by_id and (then, guess) not in seen:
                seen.add((then, guess))
                todo.append((then, far + 1, guess))
    return best


def _upstream(check: Check, finding: Finding) -> tuple[int, int, str]:
    return (int(check.family), finding.onset.first, check.id)


def order_causes(causes: Sequence[Cause], by_id: Mapping[str, Check]) -> tuple[Cause, ...]:
    """Order causes by what they ask for (a move, to finish, to watch), then certain onset order, then the triage."""
    remaining = list(causes)
    ordered: list[Cause] = []
    while remaining:
        top = max(_weight(c) for c in remaining)
        heavy = [c for c in remaining if _weight(c) == top]
        first = [c for c in heavy if not any(o.onset.before(c.onset) for o in heavy if o is not c)]
        chosen = min(
            first or heavy,
            key=lambda c: (by_id[c.id].family, -SEVERITY.index(c.action), c.onset.first, c.id),
        )
        ordered.append(chosen)
        remaining.remove(chosen)
    return tuple(ordered)


def _weight(cause: Cause) -> int:
    """Return 3 when the cause or anything it led to asks for a move, 2 when it says to finish, else 1."""
    if cause.asks_for_a_move:
        return 3
    return 2 if Action.FINISH in cause.actions else 1


def judge(
    causes: Sequence[Cause], examination: Examination, position: Position, coverage: Coverage
) -> tuple[Verdict, str]:
    """Return the verdict of now, and for cannot_say the reason.

    A proven fault stands however short the log is; without one, too little to look at is never called healthy.
    """
    worst = Verdict.HEALTHY
    for cause in causes:
        for action in cause.actions:
            worst = max(worst, VERDICT_OF[action], key=_VERDICT_ORDER.index)
    if worst in (Verdict.ACT, Verdict.STOP):
        return worst, ""
    if position.usable_rows == 0:
        return Verdict.CANNOT_SAY, "no reward series was found"
    if position.usable_rows < MIN_ROWS:
        return Verdict.CANNOT_SAY, f"{_usable(position.usable_rows)}; at least {MIN_ROWS} are needed"
    if worst is Verdict.HEALTHY and {"signal", "update"} <= set(coverage.blind_families):
        return Verdict.CANNOT_SAY, "nothing about the learning signal or the update was logged"
    if worst is Verdict.HEALTHY and any(_serious(i) for i in examination.incidents):
        return Verdict.WATCH, ""
    return worst, ""


def _usable(steps: int) -> str:
    return f"{steps} usable step" + ("" if steps == 1 else "s")


def _serious(incident: Incident) -> bool:
    return incident.finding.action in MOVES


def headline(verdict: Verdict, reason: str, causes: Sequence[Cause], incidents: Sequence[Incident]) -> str:
    """Return the diagnosis in one sentence."""
    if verdict is Verdict.CANNOT_SAY:
        return f"Cannot say: {reason}."
    if causes:
        return causes[0].finding.summary
    recovered = [i for i in incidents if _serious(i)]
    if recovered:
        return f"Recovered: {recovered[-1].finding.summary}"
    return "Nothing is wrong among the things that could be looked at."


def choose_rollback(causes: Sequence[Cause], by_id: Mapping[str, Check], view: View) -> RollbackTarget:
    """Return the target of the first cause that has one; what is only to be watched undoes no steps.

    A flaw in the setup (a wrong KL estimator) needs no older weights itself, but what it led to may. The present
    weights are only the answer where nothing that asks for a move says that they are damaged.
    """
    present = NOTHING
    for cause in causes:
        damage = (c for c in cause.consequences if _asks_for_a_move(c.finding))
        items: tuple[Cause | Consequence, ...] = (cause, *damage)
        for item in items:
            what = "the root cause" if item is cause else f"the first damage ({item.name})"
            target = rollback_target(by_id[item.id].plan(item.finding.variant), item.finding.onset, view, what)
            if target.kind is Rollback.BEFORE_ONSET and _asks_for_a_move(item.finding):
                return target
            if target.kind is Rollback.CURRENT and present is NOTHING:
                present = target
    return present


def cover(examination: Examination, by_id: Mapping[str, Check]) -> Coverage:
    """Count what could be looked at, and name the families of which nothing could."""
    looked: dict[Family, int] = {}
    blind: dict[Family, int] = {}
    counts = {"ran": 0, "blind": 0, "na": 0, "crashed": 0}
    for i, outcome in examination.outcomes.items():
        family = by_id[i].family
        if isinstance(outcome, Fired | Clear):
            counts["ran"] += 1
            looked[family] = looked.get(family, 0) + 1
        elif isinstance(outcome, NoData):
            counts["blind"] += 1
            blind[family] = blind.get(family, 0) + 1
        elif isinstance(outcome, NotApplicable):
            counts["na"] += 1
        elif isinstance(outcome, Crashed):
            counts["crashed"] += 1
            blind[family] = blind.get(family, 0) + 1
    families = tuple(f.label for f in Family if blind.get(f) and not looked.get(f))
    return Coverage(counts["ran"], counts["blind"], counts["na"], counts["crashed"], families)


def blind_spots(examination: Examination, by_id: Mapping[str, Check], view: View) -> tuple[BlindSpot, ...]:
    """Return every check that could not look, in triage order, with the lines that would let it."""
    out = []
    for i, outcome in examination.outcomes.items():
        if isinstance(outcome, NoData):
            of_config = by_id[i].family is Family.CONFIG
            how = log_lines((*outcome.missing, *outcome.unmeasured), view, settings=of_config)
            family = by_id[i].family.label
            out.append(BlindSpot(i, by_id[i].name, family, outcome.missing, how, outcome.reason, outcome.few))
    return tuple(sorted(out, key=lambda b: (by_id[b.id].family, b.id)))


def ruled_out(examination: Examination, by_id: Mapping[str, Check], causes: Sequence[Cause]) -> tuple[RuledOut, ...]:
    """Return the faults that were looked for and are not there, in triage order."""
    out = [RuledOut(i, by_id[i].name, o.because) for i, o in examination.outcomes.items() if isinstance(o, Clear)]
    return tuple(sorted(out, key=lambda r: (by_id[r.id].family, r.id)))


def cost_of(causes: Sequence[Cause], view: View) -> Cost | None:
    """Return how much of the run came after the first cause began, with GPU-hours where step times were logged."""
    serious = [c for c in causes if c.asks_for_a_move]
    if not serious or view.rows == 0:
        return None
    onset = serious[0].onset.first
    total = max(view.step - view.first_step + 1, 1)
    after = max(view.step - max(onset, view.first_step) + 1, 0)
    times = view.trace("step_time_s")
    hours = money = None
    if times.size and view.config.gpus is not None:
        seconds = float((times.value * times.count).sum() / times.count.sum())
        hours = seconds * after * view.config.gpus / 3600
        if view.config.price_per_gpu_hour is not None:
            money = hours * view.config.price_per_gpu_hour
    return Cost(after, after / total, hours, money)
