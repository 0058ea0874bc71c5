"""Libraries of peers: in this Python's packages, or in those of the Python that TAGLOOM_PEERS names."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from .errors import BenchError

_QUESTION = (
    "import sys, sysconfig; print(*sys.version_info[:2], *{sysconfig.get_path(p) for p in ('purelib', 'platlib')})"
)


@functools.cache
def other_packages() -> list[str]:
    """Return the folders of packages of the Python that TAGLOOM_PEERS names; none if the variable is not set.

    Raises
    ------
    BenchError
        If the Python is of another version: its compiled packages cannot be imported here.
    """
    named = os.environ.get("TAGLOOM_PEERS")
    if not named:
        return []
    answer = subprocess.run([named, "-c", _QUESTION], capture_output=True, text=True, check=True)
    major, minor, *folders = answer.stdout.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        wanted = ".".join(map(str, sys.version_info[:2]))
        raise BenchError(f"TAGLOOM_PEERS names a Python {major}.{minor}; wanted {wanted}, as the bench runs in")
    return folders
