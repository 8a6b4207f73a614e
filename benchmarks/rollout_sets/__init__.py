"""Simulated rollout sets, healthy ones and ones with a fault, for benchmarks/rollout_checks.py."""
