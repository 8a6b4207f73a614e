"""Seconds and peak memory of the parts of a step on a card, which works on while the program goes ahead."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

GB = 1e9


def wait(device: torch.device) -> None:
    """Return once the device has done all that it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release(device: torch.device) -> None:
    """Give memory that nothing holds any more back to the device, so that the next peak is its own."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


@dataclass
class Meter:
    """What the parts of one step took: seconds, and GB (10**9 bytes) at the highest; no memory without a card."""

    device: torch.device
    seconds: dict[str, float] = field(default_factory=dict)
    allocated: dict[str, float] = field(default_factory=dict)
    reserved_gb: float = 0.0

    @property
    def on_card(self) -> bool:
        return self.device.type == "cuda"

    def clear(self) -> None:
        """Forget the steps so far."""
        self.seconds, self.allocated, self.reserved_gb = {}, {}, 0.0

    def timed(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time and memory count for a part; the device is waited for before and after."""

        def outer(*args: Any, **more: Any) -> Any:
            wait(self.device)
            if self.on_card:
                torch.cuda.reset_peak_memory_stats(self.device)
            began = time.perf_counter()
            try:
                return inner(*args, **more)
            finally:
                wait(self.device)
                self._note(name, time.perf_counter() - began)

        return outer

    def _note(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if self.on_card:
            peak = torch.cuda.max_memory_allocated(self.device) / GB
            self.allocated[name] = max(self.allocated.get(name, 0.0), peak)
            self.reserved_gb = max(self.reserved_gb, torch.cuda.max_memory_reserved(self.device) / GB)

    def memory(self) -> dict[str, Any]:
        """Return the peaks, None without a card: missing is not zero."""
        if not self.on_card:
            return {"peak_allocated_gb": None, "peak_reserved_gb": None, "peak_by_part_gb": None}
        return {
            "peak_allocated_gb": round(max(self.allocated.values()), 2),
            "peak_reserved_gb": round(self.reserved_gb, 2),
            "peak_by_part_gb": {n: round(v, 2) for n, v in self.allocated.items()},
        }
