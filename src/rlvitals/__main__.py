"""`python -m rlvitals` is the `rlvitals` command."""

from __future__ import annotations

from rlvitals.cli.main import main

if __name__ == "__main__":
    main()
