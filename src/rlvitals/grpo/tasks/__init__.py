"""Tasks to train on: embedded ones that need no download, datasets on disk, and generated puzzles."""
