"""The mathematics of group-relative policy optimisation, as pure functions of tensors.

Suffixes name axes: B sequences, T response tokens, K reward components, N tokens of any order, V vocabulary entries,
H hidden size; 1 is an axis kept for broadcasting. logp is a natural logarithm (nats); every mask is boolean, true where
a token counts. Positions outside the mask may hold anything, NaN included: they change neither values nor gradients.
"""
