"""The loop: sample, score, give credit, update, sync, log, evaluate, save, in this order, until it should stop."""

from __future__ import annotations

import copy
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from rlvitals.grpo import checkpoint, measure
from rlvitals.grpo.config import Config
from rlvitals.grpo.credit import credit
from rlvitals.grpo.distributed import weights
from rlvitals.grpo.evaluate import NAME, HeldOut, evaluate
from rlvitals.grpo.interrupt import Abandoned, Interrupt, cut_short
from rlvitals.grpo.kl import Estimator, Place, estimate_BT
from rlvitals.grpo.masks import per_token_BT, sequence_sum_B
from rlvitals.grpo.measure import by_group
from rlvitals.grpo.packing import Packed
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.pool import Tried
from rlvitals.grpo.presets import uses_ratio
from rlvitals.grpo.ratiostats import clip_bounds
from rlvitals.grpo.recipes import DeadGroups
from rlvitals.grpo.rollout import Trajectory, seed_of
from rlvitals.grpo.run import Run, open_run, state_of
from rlvitals.grpo.score import Pending, Scores, divergence
from rlvitals.grpo.undo import Before
from rlvitals.grpo.update import StepData, UpdateStats, kl_coefs, live_rows, needs_distributions

Row = dict[str, float]
Watch = Callable[[Run, Row, HeldOut | None], None]
"""Called after each step with its row, in the process that writes: progress, monitor, trackers."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its folder, steps done, why, and the newest checkpoint."""

    folder: Path
    steps: int
    reason: str
    complete: bool


@dataclass
class Sampled:
    """Rollouts of a step in this process: those to train on, and tries that were dropped for want of signal."""

    kept: list[Trajectory]
    dropped: list[Trajectory]
    tries: int = 1


def train(
    config: Config, parts: Parts | None = None, *, folder: Path, resume: bool = False, watch: Sequence[Watch] = ()
) -> Outcome:
    """Train until the planned steps, a stop rule or a signal.

    Raises InputError before the first step for anything wrong with the input, and when the disk refuses.
    """
    return go_on(open_run(config, parts or Parts(), folder, resume=resume), watch)


def go_on(run: Run, watch: Sequence[Watch] = ()) -> Outcome:
    """Train an opened run until the planned steps, a stop rule or a signal, and close its files.

    Raises InputError when the disk refuses.
    """
    with Interrupt() as interrupt:
        try:
            reason = _steps(run, interrupt, watch)
        except BaseException:
            _abandon(run)
            raise
        _close(run)
    return Outcome(run.folder, run.step, reason, run.step >= run.config.steps)


def _steps(run: Run, interrupt: Interrupt, watch: Sequence[Watch]) -> str:
    """Make step after step; return why it ended. One that a signal left incomplete leaves no trace."""
    reason, before, begun = "", Before(run.pool), run.step
    try:
        if run.step == 0 and run.cadence.every and run.held_out.held_out:
            _note_eval(run, 0, _evaluate(run), row={})
    except Abandoned:
        reason = _abandoned(run, interrupt, before, begun)
    while run.step < run.config.steps and not reason:
        before, begun = Before(run.pool), run.step
        try:
            row, held_out = one_step(run)
        except Abandoned:
            reason = _abandoned(run, interrupt, before, begun)
            break
        if run.parallel.main:
            for each in watch:
                each(run, row, held_out)
        reason = run.stopping.stepped(row)
        if held_out is not None:
            reason = run.stopping.evaluated(run.step, held_out.score, held_out.stderr) or reason
        if run.parallel.largest(int(interrupt.asked)):
            reason = f"asked to stop ({interrupt.name})"
        if reason or run.step % run.config.save_every == 0 or run.step >= run.config.steps:
            save(run)
    if run.log is not None:
        run.log.event(run.step, "stopped" if reason else "finished", reason or "all planned steps are done")
    return reason or "all planned steps are done"


def _abandoned(run: Run, interrupt: Interrupt, before: Before, begun: int) -> str:
    """Save what was complete before a step that was not finished; return why the run ended.

    begun: steps that were complete before it.
    """
    names = {name for name in run.parallel.gather(interrupt.name) if name}
    why = f"asked to stop ({', '.join(sorted(names))}) while verdicts were missing"
    if run.step != begun:  # its evaluation was cut short: the run is past what was logged, its weights moved or not
        run.step = begun
        return f"{why} of an evaluation: step {run.step + 1} was left out, a resume goes on from the newest checkpoint"
    before.restore(run.pool)
    if run.step % run.config.save_every and run.step != run.resumed:
        save(run)
    return f"{why}: step {run.step + 1} was left out, a resume makes it again"


def _complete(run: Run) -> None:
    """Raise Abandoned in every process when one of them stopped waiting for verdicts."""
    if run.parallel.largest(int(cut_short())):
        raise Abandoned


def one_step(run: Run) -> tuple[Row, HeldOut | None]:
    """Make one step; return the row that was logged and the held-out score, if it was due.

    Raises Abandoned, before anything is logged, when the run was asked to stop and verdicts were missing.
    """
    started = time.perf_counter()
    step = run.step + 1
    with run.parallel.whole(run.trainer.policy):
        sampled = sample(run, step)
        sample_s = time.perf_counter() - started

        data, everyone = prepare(run, sampled)
        score_s = time.perf_counter() - started - sample_s

    sampled_by = run.trainer.version
    stats = run.parts.update(run.trainer, run.recipe, data, step, run.parts.loss)
    _settle(run, sampled.kept, data, everyone)
    with run.parallel.whole(run.trainer.policy):
        run.parts.sync(run.sampler, run.policy.model, run.trainer.version, step)
        if run.config.reference_reset > 0 and step % run.config.reference_reset == 0:
            run.reference.reset(step)
    update_s = time.perf_counter() - started - sample_s - score_s

    dropped = _everyone(run, sampled.dropped)
    row = measured(run, everyone, dropped, stats, sampled_by, data.rows)
    tokens = sum(t.tokens for t in [*everyone, *dropped])
    run.tokens += tokens
    seconds = time.perf_counter() - started
    row |= {
        "step_time_s": seconds,
        "tokens_per_second": tokens / seconds,
        "tokens_total": float(run.tokens),
        "epoch": run.pool.passes,
        "extra/sample_s": sample_s,
        "extra/score_s": score_s,
        "extra/update_s": update_s,
        "extra/memory_mb": memory_mb(run.parallel.device()),
        "extra/tries": float(sampled.tries),
        "extra/dropped_tokens": float(sum(t.tokens for t in dropped)),
    }
    run.step = step
    row = dict(run.parts.record(step, row))
    held_out = None
    if run.held_out.held_out and (run.cadence.due(step) or (step == run.config.steps and run.cadence.every)):
        held_out = _evaluate(run)
        row[f"eval/{NAME}"] = held_out.score
    _write(run, row, everyone + dropped, held_out, sampled_by)
    return row, held_out


def sample(run: Run, step: int) -> Sampled:
    """Return the rollouts of a step: prompts drawn once, and again in place of groups without signal if asked."""
    config, parallel = run.config, run.parallel
    again = run.recipe.dead_groups is DeadGroups.RESAMPLE
    tries = 1 + (config.resample_tries if again else 0)
    out, missing, seed = Sampled([], []), config.prompts, seed_of(config.seed, "rollouts", step)
    for attempt in range(tries):
        items = run.pool.draw(missing, step, attempt)
        mine = parallel.share(missing)
        made = run.parts.collect(
            run.task, items[mine.start : mine.stop], config.group_size, run.sampler, run.tokenizer, run.sampling, seed,
            first_group=attempt * config.prompts + mine.start,
        )  # fmt: skip
        _complete(run)
        for t in made:
            t.attempt = attempt
        last = attempt + 1 == tries
        for group in by_group(made).values():
            (out.kept if last or not again or _informative(group) else out.dropped).extend(group)
        found = parallel.total(len(by_group(out.kept)))
        out.tries = attempt + 1
        missing = config.prompts - found
        if missing <= 0:
            break
    tried = [_tried(g) for part in parallel.gather(_outline(out, parallel.world)) for g in part]
    run.pool.learn(tried, step)
    return out


def _informative(group: Iterable[Trajectory]) -> bool:
    return len({t.reward for t in group if t.scored}) > 1


def _outline(sampled: Sampled, world: int) -> list[list[Trajectory]]:
    groups = by_group([*sampled.kept, *sampled.dropped]).values()
    return [g if world == 1 else [_light(t) for t in g] for g in groups]


def _tried(group: Sequence[Trajectory]) -> Tried:
    return Tried(group[0].item, measure.full_reward(group), _informative(group))


def _light(t: Trajectory) -> Trajectory:
    """Return a trajectory without what only its own process needs."""
    twin = copy.copy(t)
    twin.keep_packed = []
    return twin


def _everyone(run: Run, own: list[Trajectory]) -> list[Trajectory]:
    """Return the trajectories of all processes, in rank order."""
    if run.parallel.world == 1:
        return own
    return [t for part in run.parallel.gather([_light(t) for t in own]) for t in part]


def prepare(run: Run, sampled: Sampled) -> tuple[StepData, list[Trajectory]]:
    """Score the rollouts and give each its advantage; return what the update needs and the rollouts of everyone.

    In a step without a scoring pass the update gives the scores of the rows it sees; the others are scored here.
    """
    config, recipe, parts = run.config, run.recipe, run.parts
    device = run.parallel.device()
    kept = sampled.kept
    packed: Packed = parts.pack(kept, _pad(run), device)
    scores: Scores | None = None
    if run.scoring:
        scores = parts.score(run.policy, packed, config.temperature, config.micro_tokens)
    ref_BT = run.reference.score(packed, config.temperature, config.micro_tokens)
    if scores is not None:
        _attach(run, kept, packed, scores, ref_BT)
    _score_rest(run, [t for t in sampled.dropped if t.attempt == 0])
    everyone = _everyone(run, kept)
    given = credit(recipe, everyone, run.task.plan, config.max_tokens, parts.advantage)
    for t, value, judged in zip(everyone, given.adv_B.tolist(), given.judged_B.tolist(), strict=True):
        t.advantage = value if judged else float("nan")
    first = sum(len(p) for p in run.parallel.gather([0] * len(kept))[: run.parallel.rank])
    own_B = given.adv_B[first : first + len(kept)].to(device)
    adv_BT = per_token_BT(own_B, packed.mask_BT)
    pending = None
    if scores is None:
        own = given.rows[(given.rows >= first) & (given.rows < first + len(kept))] - first
        pending = _pending(run, packed, live_rows(recipe, adv_BT, own.to(device)))
        scores = pending.scores
    families = [t.item.family for t in kept]
    data = StepData(
        packed, given.rows, first, adv_BT, scores.logp_BT, ref_BT, kl_coefs(recipe.kl_term, families, scores.logp_BT),
        run.reference.head if needs_distributions(recipe.kl_term) else None, pending,
    )  # fmt: skip
    return data, everyone


def _pending(run: Run, packed: Packed, live: torch.Tensor) -> Pending:
    """Score the rows that the update does not see: entropy and divergence of the others alone would be of a selection.

    What it sees is NaN until it has seen it.
    """
    unseen = torch.ones(packed.rows, dtype=torch.bool, device=packed.mask_BT.device)
    unseen[live] = False
    waiting_BT = torch.where(packed.mask_BT, torch.nan, 0.0)
    found = Pending(Scores(waiting_BT, waiting_BT.clone()), torch.zeros_like(packed.mask_BT))
    rest = unseen.nonzero().flatten()
    if rest.numel():
        part = packed.select(rest)
        scores: Scores = run.parts.score(run.policy, part, run.config.temperature, run.config.micro_tokens)
        found.take(rest, scores.logp_BT, scores.entropy_BT, part.mask_BT)
    return found


def _settle(run: Run, kept: Sequence[Trajectory], data: StepData, everyone: Sequence[Trajectory]) -> None:
    """Give the trajectories of a step without a scoring pass what its update has found, in every process."""
    if data.pending is None:
        return
    _attach(run, kept, data.packed, data.pending.scores, data.logp_ref_BT)
    known_B = (data.pending.known_BT | ~data.packed.mask_BT).all(dim=1).tolist()
    for t, known in zip(kept, known_B, strict=True):
        if not known:  # a part in the update's place passed it by: missing, not NaN
            t.trainer_logp = t.entropy = None
    if run.parallel.world > 1:  # before the update they were gathered without
        found = run.parallel.gather([(t.trainer_logp, t.entropy, t.ref_logp) for t in kept])
        for t, own in zip(everyone, [each for part in found for each in part], strict=True):
            t.trainer_logp, t.entropy, t.ref_logp = own


def _score_rest(run: Run, dropped: list[Trajectory]) -> None:
    """Score the dropped rollouts of the first draw too.

    Groups with mixed results are the uncertain ones: entropy and divergence of the kept ones alone would be those of a
    selection, not of the policy.
    """
    if not dropped:
        return
    config = run.config
    packed: Packed = run.parts.pack(dropped, _pad(run), run.parallel.device())
    scores: Scores = run.parts.score(run.policy, packed, config.temperature, config.micro_tokens)
    _attach(run, dropped, packed, scores, run.reference.score(packed, config.temperature, config.micro_tokens))


def _pad(run: Run) -> int:
    pad = run.tokenizer.pad_token_id
    return int(run.tokenizer.eos_token_id if pad is None else pad)


def _attach(run: Run, kept: Sequence[Trajectory], packed: Packed, scores: Scores, ref_BT: torch.Tensor | None) -> None:
    """Give each trajectory its own scores."""
    logp_BT, entropy_BT = scores.logp_BT, scores.entropy_BT
    term = run.recipe.kl_term
    if term is not None and term.place is Place.REWARD and ref_BT is not None:
        if term.estimator is Estimator.EXACT:
            config = run.config
            nats_BT = divergence(run.policy, run.reference.head, packed, config.temperature, config.micro_tokens)
        else:
            nats_BT = estimate_BT(term.estimator, logp_BT, logp_BT, ref_BT, packed.mask_BT)
        for t, total in zip(kept, sequence_sum_B(nats_BT, packed.mask_BT).tolist(), strict=True):
            t.divergence = total
    mask, logp, entropy = packed.mask_BT.cpu().numpy(), logp_BT.cpu().numpy(), entropy_BT.cpu().numpy()
    ref = None if ref_BT is None else ref_BT.cpu().numpy()
    for i, t in enumerate(kept):
        mine = mask[i]
        t.trainer_logp, t.entropy = logp[i][mine], entropy[i][mine]
        t.ref_logp = None if ref is None else ref[i][mine]


def measured(
    run: Run, kept: list[Trajectory], dropped: list[Trajectory], stats: UpdateStats, version: int, rows: torch.Tensor
) -> Row:
    """Return the row of a step, timing left out; `rows` are the kept trajectories in the loss."""
    everyone = kept + dropped
    row = measure.rollout_row(everyone)
    row |= measure.advantage_row(kept)
    row |= measure.policy_row([t for t in everyone if t.attempt == 0])
    cuts = clip_bounds(run.recipe.surrogate) is not None and uses_ratio(run.recipe)
    families = [kept[i].item.family for i in rows.tolist()]
    row |= measure.update_row(stats, run.recipe.kl_term, families, clips=cuts)
    row |= measure.lag_row([t.version for t in kept], version)
    if run.recipe.dead_groups is not DeadGroups.KEEP:
        groups = list(by_group(everyone).values())
        row["dropped_group_frac"] = sum(not _informative(g) for g in groups) / len(groups)
    return row


def memory_mb(device: torch.device) -> float:
    """Return the peak memory so far in MB (10**6 bytes): of the device, or of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _evaluate(run: Run) -> HeldOut:
    started = time.perf_counter()
    with run.parallel.whole(run.trainer.policy):
        found = evaluate(
            run.held_out, run.config.eval_items, run.eval_sampler, run.tokenizer, run.sampling, run.parallel,
            run.parts.collect,
        )  # fmt: skip
    _complete(run)
    if run.cadence.took(time.perf_counter() - started, run.elapsed()) and run.log is not None:
        run.log.event(
            run.step, "cadence", f"evaluations took over a quarter of the time: now every {run.cadence.every}"
        )
    return found


def _note_eval(run: Run, step: int, found: HeldOut, row: Row) -> None:
    """Write the evaluation before the first step."""
    run.stopping.evaluated(step, found.score, found.stderr)
    if run.log is not None:
        run.log.evaluation(step, NAME, found.rows, found.score)
        run.log.held_out(step, {f"eval/{NAME}": found.score})


def _write(run: Run, row: Row, trajectories: Sequence[Trajectory], held_out: HeldOut | None, version: int) -> None:
    if run.log is None or run.rollouts is None:
        return
    run.log.step(run.step, row, None if held_out is None else held_out.score)
    if held_out is not None:
        run.log.evaluation(run.step, NAME, held_out.rows, held_out.score)
    # in the order of sampling: what was dropped stands beside what was kept
    run.latest = sorted(trajectories, key=lambda t: (t.group, t.index))
    run.rollouts.add(run.step, run.latest, version)


def save(run: Run) -> None:
    """Write a checkpoint and seal the rollouts so far; what is sharded is gathered first."""
    optimizer = run.parallel.gathered(run.trainer.optimizer)
    with run.parallel.whole(run.trainer.policy):
        if run.log is not None and run.rollouts is not None:
            run.rollouts.seal()
            folder = run.folder / checkpoint.FOLDER / f"checkpoint-{run.step}"
            run.log.event(run.step, "checkpoint", path=str(folder.relative_to(run.folder)))
            checkpoint.save(
                run.folder, run.step, run.policy.model, run.tokenizer, optimizer, run.reference.state(), state_of(run),
                weights=weights(run.policy.model) if run.parallel.shards else None,
            )  # fmt: skip
    run.parallel.wait()


def _close(run: Run) -> None:
    if run.log is not None:
        run.log.close()
    if run.rollouts is not None:
        run.rollouts.close()


def _abandon(run: Run) -> None:
    """Close the files on the way out of an error: it is what is told, not what closing would say."""
    if run.log is not None:
        run.log.abandon()
    if run.rollouts is not None:
        run.rollouts.abandon()
