"""Reading runs: `load(path)` turns any trainer's log into a Run."""

from __future__ import annotations

from rlvitals.ingest.loading import load

__all__ = ["load"]
