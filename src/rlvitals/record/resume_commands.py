"""How to resume from a checkpoint, in the words of each trainer. Read from their documentation; none is run here."""

from __future__ import annotations

from collections.abc import Mapping

_HOW: Mapping[str, str] = {
    "TRL": 'trainer.train(resume_from_checkpoint="{path}")',
    "TRL async": 'trainer.train(resume_from_checkpoint="{path}")',
    "unsloth": 'trainer.train(resume_from_checkpoint="{path}")',
    "ms-swift": "swift rlhf ... --resume_from_checkpoint {path}",
    "verl": "... trainer.resume_mode=resume_path trainer.resume_from_path={path}",
    "rLLM": "... trainer.resume_mode=resume_path trainer.resume_from_path={path}",
    "Agent Lightning": "... trainer.resume_mode=resume_path trainer.resume_from_path={path}",
    "SkyRL": "... trainer.resume_mode=from_path trainer.resume_path={path}",
    "OpenRLHF": (
        "write global_step{step} into the file `latest` beside {path}, "
        "then start again with --load_checkpoint --ckpt_path and the folder of that checkpoint"
    ),
    "NeMo-RL": "move the step_* folders after step_{step} away, then start again: it resumes from the newest one left",
    "prime-rl": "uv run rl ... --ckpt.resume-step {step}",
    "open-instruct": "start again with the same --checkpoint_state_dir, with the newer states moved away",
    "slime": "... --load {path} --ckpt-step {step}",
    "AReaL": "recover.mode=resume, with the newer recover state moved away",
    "ROLL": "resume_from_checkpoint: {path}",
    "tinker-cookbook": "... load_checkpoint_path={path}",
    "rlvitals": "rlvitals train --resume {path}",
    "chapter-7 scripts": "--checkpoint_path {path} (weights only: optimizer, RNG and data order start anew)",
}


def resume_command(trainer: str, path: str, step: int) -> str:
    """Return the command for a trainer, in general words for one that is not known."""
    how = next((text for name, text in _HOW.items() if name.lower() == trainer.lower()), "")
    return how.format(path=path, step=step) if how else f"resume from {path or f'the checkpoint of step {step}'}"
