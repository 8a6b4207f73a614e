"""One file per trainer: how the monitor is told what the trainer logs. docs/hooks.md has the table of what was run."""
