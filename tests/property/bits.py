"""Run a program under settings that change no bit of it, and compare bits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tagloom as tg

from tests.property.scattering import scatter
from tests.support.settings import ON

Make = Callable[..., tuple[list[Any], dict[Any, Any]]]

LOOP = {"parallel_iterations": 32, "swap_memory": False, "checkpoint_every": None}  # all set, as their defaults are
PLENTY = "64GiB"


@dataclass(frozen=True)
class Way:
    """A way to run a program.

    Attributes
    ----------
    loop : mapping
        Options of all its loops that differ from `LOOP`.
    options : mapping
        Options of the session; the limit of memory may be a share of the most bytes without a limit.
    devices : int or None
        Number of devices in the session; operations name two of them. None for a program that names none.
    observer : str
        "trace", "report" or "watch"; empty for none.
    """

    loop: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    devices: int | None = None
    observer: str = ""


SESSIONS = {
    "far below the limit": Way(options={"memory_limit": PLENTY}),
    "near the limit": Way(options={"memory_limit": 1.25}),
    "swapping": Way(options={"memory_limit": PLENTY, "swap": True}),
    "swapping near the limit": Way(options={"memory_limit": 1.0, "swap": True}),
    "traced": Way(observer="trace"),
    "reported": Way(observer="report"),
    "watched": Way(observer="watch"),
    "without programs for loops": Way(options={"settings": ON.without("straight")}),
    "on the step machine": Way(options={"settings": ON.without("straight", "cluster")}),
    "without machine code": Way(options={"settings": ON.without("llvm")}),
    "without workers": Way(options={"settings": replace(ON, workers=0)}),
    "on two devices": Way(devices=2),
    "on two devices with limits": Way(devices=2, options={"memory_limit": PLENTY}),
}
LOOPS = {
    "one iteration at once": Way({"parallel_iterations": 1}),
    "ten iterations at once": Way({"parallel_iterations": 10}),
    "loops that swap": Way({"swap_memory": True}),
    "loops that swap near the limit": Way({"swap_memory": True}, {"memory_limit": 1.25}),
    "a checkpoint each iteration": Way({"checkpoint_every": 1}),
    "a checkpoint each fifth iteration": Way({"checkpoint_every": 5}),
    "checkpoints near the limit": Way({"checkpoint_every": 5}, {"memory_limit": 1.25}),
    "checkpoints on the step machine": Way(
        {"checkpoint_every": 3, "parallel_iterations": 1}, {"settings": ON.without("straight", "cluster")}
    ),
    "checkpoints on two devices": Way({"checkpoint_every": 5}, devices=2),
    "checkpoints that swap": Way({"checkpoint_every": 2, "swap_memory": True, "parallel_iterations": 10}),
}
WAYS = SESSIONS | LOOPS


class Program:
    """A program to run in many ways.

    Parameters
    ----------
    make : callable
        ``make(**loop)`` builds the program in the open graph, with these options of its loops; it returns fetches, and
        feeds by placeholder.
    """

    def __init__(self, make: Make) -> None:
        self.make = make
        self.peak = 1  # bytes
        self.wanted: dict[str, list[bytes] | type] = {}

    def check(self, name: str) -> bool:
        """Fail unless a way gives the bits of the plain one; return False if it had too little memory.

        Where operations name devices, the plain way is the same program on one device: products that are added up on
        several devices are not merged.
        """
        way = WAYS[name]
        plain = Way(way.loop, devices=1) if way.devices else Way()
        wanted = self.wanted.get(str(plain)) or self.wanted.setdefault(str(plain), self.run(plain))
        try:
            found = self.run(way)
        except tg.DeviceMemoryError:
            assert isinstance(way.options.get("memory_limit"), float), name
            return False
        if isinstance(wanted, type) or isinstance(found, type):
            assert isinstance(wanted, type), name
            assert isinstance(found, type), name
        else:
            unequal = [i for i, (one, other) in enumerate(zip(wanted, found, strict=True)) if one != other]
            assert not unequal, f"other bits of results {unequal} of {len(wanted)} {name}"
        return True

    def run(self, way: Way) -> list[bytes] | type:
        """Return the bits of all results, or the class of the error of an index out of range."""
        with tg.Graph().as_default() as graph:
            fetches, feeds = self.make(**{**LOOP, **way.loop})
        options = {"settings": ON, **way.options}
        if way.devices is not None:
            scatter(graph, 2, 0)
            options |= {"devices": way.devices, "soft_placement": True}
        if isinstance(options.get("memory_limit"), float):
            options["memory_limit"] = int(options["memory_limit"] * self.peak)
        return asyncio.run(self._run(graph, fetches, feeds, options, way))

    async def _run(self, graph: Any, fetches: Any, feeds: Any, options: Any, way: Way) -> list[bytes] | type:
        async with tg.Session(graph, **options) as session:
            observers: dict[str, Any] = {}
            if way.observer == "trace":
                observers["trace"] = tg.Trace()
            elif way.observer == "report":
                observers["report"] = tg.Report()
            elif way.observer == "watch":
                watches = [session.watch(t) for t in watched_tensors(graph)]
                tasks = [asyncio.ensure_future(_read(watch)) for watch in watches]
            try:
                values = await session.run(fetches, feeds, **observers)
            except tg.DeviceMemoryError:
                raise
            except tg.TagloomError as error:
                return type(error)
            finally:
                if way.observer == "watch":
                    for task in tasks:
                        task.cancel()
            if way == Way():
                self.peak = max(session.statistics().peak_bytes, 1)
        return [np.asarray(value).tobytes() for value in values]


async def _read(watch: Any) -> None:
    with suppress(Exception):
        async for _ in watch:
            pass


def watched_tensors(graph: Any) -> list[Any]:
    """Return each third floating-point tensor in the loops and branches of a graph, except running sums."""
    inner = [op for op in graph.root.walk() if op.region is not graph.root and not op.is_param]
    others = [op for op in inner if op.type not in ("Add", "AddN") or not any(x.op.is_param for x in op.inputs)]
    return [t for op in others for t in op.outputs if t.dtype.is_floating][::3]
