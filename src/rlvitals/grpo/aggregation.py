"""From a loss per token to one number: last of the four axes of a policy loss.

Every function divides by counts of the whole step, not of the tensor it was given. So the losses of micro-batches and
of processes add up to the loss of the step, in value and gradient, however the step was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from torch import Tensor

from rlvitals.grpo.masks import masked, sequence_mean_B, sequence_sum_B, token_mean


class Aggregation(Enum):
    """What the losses of the tokens are divided by."""

    SEQUENCE_MEAN = "seq-mean-token-mean"
    TOKEN_MEAN = "token-mean"
    SEQUENCE_SUM = "seq-mean-token-sum"
    CONSTANT = "constant"
    LOCAL_TOKEN_MEAN = "local-token-mean"


@dataclass(frozen=True)
class Counts:
    """What one optimizer step holds, over all its micro-batches and processes.

    sequences: sequences with at least one counting token (TRL counts all B instead: pass B for its value);
    tokens: counting tokens; max_tokens: the completion limit, read by CONSTANT alone; micro_batches: how many losses
    are added up, read by LOCAL_TOKEN_MEAN alone. Zero counts give a zero loss, not a division by zero.
    """

    sequences: int
    tokens: int
    max_tokens: int
    micro_batches: int = 1

    @classmethod
    def of(cls, mask_BT: Tensor, max_tokens: int) -> Counts:
        """Return the counts of a step that is one batch."""
        return cls(int(mask_BT.any(dim=1).sum()), int(mask_BT.sum()), max_tokens)


def sequence_mean(loss_BT: Tensor, mask_BT: Tensor, counts: Counts) -> Tensor:
    """Return (1/B) sum_i (1/|o_i|) sum_t loss: every sequence weighs the same, a token of a long one less.

    Source: GRPO, arXiv 2402.03300.
    """
    return sequence_mean_B(loss_BT, mask_BT).sum() / max(counts.sequences, 1)


def token_mean_of_step(loss_BT: Tensor, mask_BT: Tensor, counts: Counts) -> Tensor:
    """Return sum_i sum_t loss / sum_i |o_i|: every token of the step weighs the same.

    Source: DAPO, arXiv 2503.14476.
    """
    return masked(loss_BT, mask_BT).sum() / max(counts.tokens, 1)


def sequence_sum(loss_BT: Tensor, mask_BT: Tensor, counts: Counts) -> Tensor:
    """Return (1/B) sum_i sum_t loss: the plain policy gradient of whole sequences, its size grows with length."""
    return sequence_sum_B(loss_BT, mask_BT).sum() / max(counts.sequences, 1)


def constant(loss_BT: Tensor, mask_BT: Tensor, counts: Counts) -> Tensor:
    """Return sum_i sum_t loss / (B max_tokens): the sum without its size. Source: Dr. GRPO, arXiv 2503.20783."""
    if counts.max_tokens < 1:
        raise ValueError(f"completion limit in tokens: found {counts.max_tokens}; expected 1 or more")
    return sequence_sum(loss_BT, mask_BT, counts) / counts.max_tokens


def local_token_mean(loss_BT: Tensor, mask_BT: Tensor, counts: Counts) -> Tensor:
    """Return the token mean of this micro-batch over the number of micro-batches.

    Depends on how the step is cut: a token in a micro-batch of short sequences weighs more. Source: TRL, loss_type
    "bnpo" (not the advantage of that paper, arXiv 2506.02864).
    """
    return token_mean(loss_BT, mask_BT) / max(counts.micro_batches, 1)


Aggregate = Callable[[Tensor, Tensor, Counts], Tensor]
AGGREGATIONS: Mapping[Aggregation, Aggregate] = MappingProxyType(
    {
        Aggregation.SEQUENCE_MEAN: sequence_mean,
        Aggregation.TOKEN_MEAN: token_mean_of_step,
        Aggregation.SEQUENCE_SUM: sequence_sum,
        Aggregation.CONSTANT: constant,
        Aggregation.LOCAL_TOKEN_MEAN: local_token_mean,
    }
)
