"""Device names in TensorFlow's form: ``/job:worker/task:0/device:CPU:1``, or any part."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from .errors import GraphError

_HINT = "write '/job:worker/task:0/device:CPU:1', any part of that, or short '/cpu:1'"


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device, or a partial constraint on a device: a field of None is unconstrained.

    Attributes
    ----------
    job : str or None
    replica, task, index : int or None
    type : str or None
        In capitals: "CPU", "GPU".

    Examples
    --------
    >>> spec = parse_device("/cpu:1")
    >>> str(spec)
    '/device:CPU:1'
    >>> spec.allows(parse_device("/job:localhost/task:0/device:CPU:1"))
    True
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    index: int | None = None

    def __str__(self) -> str:
        parts = [
            f"/{name}:{value}" for name in ("job", "replica", "task") if (value := getattr(self, name)) is not None
        ]
        if self.type is not None or self.index is not None:
            parts.append(
                f"/device:{'*' if self.type is None else self.type}:{'*' if self.index is None else self.index}"
            )
        return "".join(parts)

    def allows(self, device: DeviceSpec) -> bool:
        """True if a device satisfies the constraint; a device without a replica counts as replica 0."""
        return (
            self.job in (None, device.job)
            and self.replica in (None, device.replica or 0)
            and self.task in (None, device.task)
            and self.type in (None, device.type)
            and self.index in (None, device.index)
        )

    def within(self, outer: DeviceSpec) -> DeviceSpec:
        """Return the constraint with its open fields taken from an outer scope.

        An index belongs to a type: if the type differs from the outer type, the outer index is not taken, so "/gpu"
        within "/cpu:1" is any GPU.
        """
        if self.type not in (None, outer.type):
            outer = replace(outer, index=None)
        return DeviceSpec(**{f.name: _first_given(getattr(self, f.name), getattr(outer, f.name)) for f in fields(self)})

    def both(self, other: DeviceSpec) -> DeviceSpec | None:
        """Return the conjunction of two constraints, None if they contradict each other."""
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        if any(a is not None and b is not None and a != b for a, b in pairs):
            return None
        return DeviceSpec(**{f.name: _first_given(*pair) for f, pair in zip(fields(self), pairs, strict=True)})


def _first_given(a: object, b: object) -> Any:
    return b if a is None else a


# Graphs use few names, but parse and merge them for each operation.
@lru_cache(maxsize=4096)
def parse_device(name: str) -> DeviceSpec:
    """Parse a device name or a part of a name.

    Parameters
    ----------
    name : str
        Parts begin with ``/``: job, replica, task, and a type with an index as ``device:CPU:1`` or ``cpu:1``.
        ``*`` leaves a number or a type open, as omitting the part does. Types are case-insensitive.

    Returns
    -------
    DeviceSpec

    Raises
    ------
    GraphError
        If the text is no device name, or names a part twice.
    """
    found: dict[str, str | int] = {}
    for part in filter(None, name.split("/")):
        for key, value in _parse_part(part, name).items():
            if key in found:
                raise GraphError("a device name says a thing twice", wanted=f"one {key}", got=repr(name), hint=_HINT)
            if value != "*":
                found[key] = value
    return DeviceSpec(**found)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def merge_devices(inner: str, outer: str) -> str:
    """Return an inner scope's device name, with open parts taken from an outer scope's name.

    Examples
    --------
    >>> merge_devices("/cpu:1", "/job:worker/cpu:0")
    '/job:worker/device:CPU:1'
    """
    return str(parse_device(inner).within(parse_device(outer)))


def _parse_part(part: str, name: str) -> dict[str, str | int]:
    """Return the fields in a part of a device name, which is `name` in error messages; GraphError if malformed."""
    key, *values = part.split(":")
    if key == "job" and len(values) == 1 and values[0]:
        return {"job": values[0]}
    if key in ("replica", "task") and len(values) == 1:
        return {key: _parse_number(values[0], name)}
    # From here on a type with an optional index: `device:CPU:1`, or `cpu:1` for short. Then `key` becomes the type.
    if key == "device" and 1 <= len(values) <= 2 and values[0]:
        key, *values = values
    elif key in ("job", "replica", "task", "device") or len(values) > 1 or not (key.isalpha() or key == "*"):
        raise _malformed_name_error(name)
    return {"type": key.upper()} | ({"index": _parse_number(values[0], name)} if values else {})


def _parse_number(text: str, name: str) -> int | str:
    """Return a number, or "*" for any; GraphError for other text."""
    if text != "*" and not (text.isascii() and text.isdigit()):
        raise _malformed_name_error(name)
    return text if text == "*" else int(text)


def _malformed_name_error(name: str) -> GraphError:
    return GraphError("not the name of a device", wanted="parts as job, task and device", got=repr(name), hint=_HINT)
