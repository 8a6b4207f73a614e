"""Per-trajectory data: one canonical table whatever the trainer, and facts folded from it in parts that merge."""
