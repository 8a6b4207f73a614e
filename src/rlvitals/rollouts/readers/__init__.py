"""The readers of rollouts, the most specific first: an explicit list."""

from __future__ import annotations

from rlvitals.rollouts.readers import (
    areal,
    atropos,
    columnwise,
    generic,
    nemo_rl,
    open_instruct,
    own,
    prime_rl,
    rllm,
    skyrl,
    slime,
    tinker,
    trl,
    verifiers,
    verl,
)
from rlvitals.rollouts.readers.base import Reader

READERS: tuple[Reader, ...] = (
    own.READER,
    trl.READER,
    verl.READER,
    prime_rl.READER,
    nemo_rl.READER,
    open_instruct.READER,
    tinker.READER,
    columnwise.ROLL,
    columnwise.MS_SWIFT,
    rllm.READER,
    areal.READER,
    skyrl.READER,
    atropos.READER,
    verifiers.READER,
    slime.READER,
    generic.READER,
)
