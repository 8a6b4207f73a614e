"""Rewards: verifiers that say right, wrong, no parse, error or timeout, and shaping terms beside them."""
