"""The web page of `rlvitals serve`: what `check` says of every run of a folder, while they run, and their rollouts."""
