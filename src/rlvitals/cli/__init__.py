"""The command line: one thin file per command, wired together in main.py."""
