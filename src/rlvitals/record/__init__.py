"""After the diagnosis: the run record, verifying a fix, rolling back, resuming rightly, comparing honestly."""
