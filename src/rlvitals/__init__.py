"""rlvitals: the vital signs of GRPO and RLVR training runs.

import rlvitals
print(rlvitals.diagnose(rlvitals.load("path/to/run")).headline)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlvitals.conclude import diagnose
    from rlvitals.ingest import load
    from rlvitals.live.monitor import Monitor
    from rlvitals.live.reward_probe import reward_probe

__version__ = "0.1.0"
__all__ = ["Monitor", "__version__", "diagnose", "load", "reward_probe"]

_HOME = {
    "load": "rlvitals.ingest",
    "diagnose": "rlvitals.conclude",
    "Monitor": "rlvitals.live.monitor",
    "reward_probe": "rlvitals.live.reward_probe",
}


def __getattr__(name: str) -> Any:
    """Import the public functions on first use, so that start-up stays light."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'rlvitals' has no attribute {name!r}")
