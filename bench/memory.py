"""Resident memory of this process, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def resident_bytes() -> int:
    """Return the resident size now."""
    return _field("VmRSS")


class PeakMemory:
    """Peak resident size since this object was made, or told to forget, over the size when it was made."""

    def __init__(self) -> None:
        self.forget()
        self.start = resident_bytes()

    def forget(self) -> None:
        """Let the peak be what is resident now."""
        _CLEAR.write_text(_RESET_PEAK)

    def bytes(self) -> int:
        """Return how far the peak rose above the start."""
        return max(0, _field("VmHWM") - self.start)


def _field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {name}")
