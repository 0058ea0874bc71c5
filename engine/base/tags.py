"""Tags of instances of operations, as text and as numbers computed alike by every partition."""

from __future__ import annotations

import hashlib

_MASK = (1 << 64) - 1
ROOT_PATH = "root"
ROOT_ID = 0


def name_hash(name: str) -> int:
    """Return a 64-bit hash of a frame's static name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def frame_id(parent_id: int, parent_iteration: int, name: int) -> int:
    """Return the id of the frame with a parent frame, a parent iteration and a name hash (rule 23).

    A splitmix64 finaliser of the three; the step machine computes the same function in C.
    """
    x = (parent_id * 0x9E3779B97F4A7C15 + parent_iteration * 0xD1B54A32D192ED03 + name) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    # 0 is the id of the root frame.
    return (x ^ (x >> 31)) or 1


def path_hash(parent_hash: int, parent_iteration: int, name: int) -> int:
    """Return the path hash of the frame with a parent's path hash, a parent iteration and a name hash; 0 for the root.

    With the frame id it makes the key of a message: two frames of one id have two path hashes. The step machine
    computes the same function in C.
    """
    x = ((parent_hash ^ parent_iteration) * 0xFF51AFD7ED558CCD + name * 0xC4CEB9FE1A85EC53) & _MASK
    x = ((x ^ (x >> 33)) * 0x9FB21C651E98DF25) & _MASK
    return x ^ (x >> 28)


def frame_path(parent_path: str, parent_iteration: int, name: str) -> str:
    """Return the path of a frame: Enter appends the loop's name (Yu et al., 2018, Figure 5)."""
    return f"{parent_path}/{parent_iteration}/{name}"


def instance_name(node: str, path: str, iteration: int) -> str:
    """Return ``node@frame/iteration``."""
    return f"{node}@{path}/{iteration}"


class Dead:
    """The absent value of a dead token."""

    def __repr__(self) -> str:
        return "DEAD"

    def __reduce__(self) -> str:
        # By its name: it is compared by identity, in the process that it came to as well.
        return "DEAD"


DEAD = Dead()
