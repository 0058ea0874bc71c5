"""The resources of a session: what its steps find again, and what they leave behind.

See docs/design/0019-resources.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from ...base import nest
from ...base.resources import Resource
from ...base.settings import DEFAULTS
from ...kernels.memory.contexts import outside
from ...kernels.memory.pool import Pool
from ...kernels.scheduler.allocations import resource_allocations

R = TypeVar("R", bound=Resource)
Snapshot = dict[str, dict[str, Any]]  # what resources hold, by container and name
_logger = logging.getLogger("tagloom")


class ResourceManager:
    """Keeps the resources of one session, and knows those of its steps as long as they live.

    Parameters
    ----------
    close_seconds : float
        Longest time that closing waits for code of the user.

    Attributes
    ----------
    close_seconds : float
        As given.
    of_steps : dict of int to dict
        Weak references to what steps that run have made, by number of the step, in the order of making; a step that
        made nothing is not there.
    taken : dict of int to list of (callable, str)
        By number of the step, what gives back what it has taken but not given to its caller yet, and the operation that
        has taken it.
    """

    __slots__ = ("_kinds", "_made", "_saved", "close_seconds", "of_steps", "taken")

    def __init__(self, close_seconds: float = DEFAULTS.close_seconds) -> None:
        self.close_seconds: float = close_seconds
        self._kinds: dict[str, dict[str, Any]] = {}  # resources by container and name
        self._made: list[Resource] = []  # the same, in the order of making
        self._saved: Snapshot = {}  # restored, but not asked for yet
        self.of_steps: dict[int, dict[ref[Resource], None]] = {}
        self.taken: dict[int, list[tuple[Callable[[], object], str]]] = {}

    # ---- used by kernels

    def get_or_create(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        """Return the resource of a name, which lives until the session is closed.

        Parameters
        ----------
        container : str
            The kind of state, so that resources of two kinds may have one name.
        name : str
        factory : callable
            ``factory(name)`` makes the resource when there is none yet.
        """
        try:
            return self._kinds[container][name]  # type: ignore[no-any-return]
        except KeyError:
            return self._create(container, name, factory)

    def _create(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        made = factory(name)
        saved = self._saved.get(container, {})
        if name in saved:
            # The kernel that asks may be refused memory here and begin again, so nothing is noted before.
            made.restore(saved[name])()
            del saved[name]
        self._kinds.setdefault(container, {})[name] = made
        self._made.append(made)
        return made

    def add_to_step(self, number: int, resource: Resource) -> None:
        """Close a resource, if it still lives, when the step of this number ends. Its handles alone keep it alive."""
        try:
            alive = self.of_steps[number]
        except KeyError:
            alive = self.of_steps[number] = {}
        # A loop may make an array in each iteration, so a reference goes when its array does.
        alive[ref(resource, alive.pop)] = None

    def note_taken(self, number: int, give_back: Callable[[], object], operation: str = "") -> None:
        """Call `give_back` if the step of this number ends and its caller has not got what `operation` has taken."""
        self.taken.setdefault(number, []).append((give_back, operation))

    def drop_taken(self, number: int, give_back: Callable[[], object]) -> None:
        """Forget what was noted."""
        self._keep_taken(number, lambda noted: noted[0] != give_back)

    def hand_over_taken(self, number: int, operations: Collection[str]) -> None:
        """Forget what some operations of a step have taken, since the caller has it."""
        self._keep_taken(number, lambda noted: noted[1] not in operations)

    def _keep_taken(self, number: int, is_kept: Callable[[tuple[Callable[[], object], str]], bool]) -> None:
        if number in self.taken:
            self.taken[number] = list(filter(is_kept, self.taken[number]))
            if not self.taken[number]:
                del self.taken[number]

    def give_back(self, number: int) -> None:
        """Give back what a step has taken that ends early, what it took last first."""
        for give_back, _ in reversed(self.taken.pop(number, [])):
            try:
                give_back()
            except Exception:  # what else the step took goes back all the same
                _logger.exception("what step %d has taken could not be given back", number)

    def __iter__(self) -> Iterator[Resource]:
        """Yield what outlives steps, in the order of making; from any thread."""
        return iter(list(self._made))

    # ---- what they hold

    def names(self, container: str) -> list[str]:
        """Return the names of one kind of resources, those that were restored and not asked for yet last."""
        return [*self._kinds.get(container, ()), *self._saved.get(container, ())]

    def nbytes_by_device(self, pools: Mapping[str, Pool]) -> dict[str, int]:
        """Return the bytes that the session's resources hold of each of some pools, each array once."""
        return {name: sum(size for size, *_ in resource_allocations(self, pool)) for name, pool in pools.items()}

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return what the session's resources tell of themselves, by container and name; from any thread."""
        found: dict[str, dict[str, Any]] = {}
        for container, resources in list(self._kinds.items()):
            for name, resource in list(resources.items()):
                if (figures := resource.statistics()) is not None:
                    found.setdefault(container, {})[name] = figures
        return found

    def snapshot(self) -> Snapshot:
        """Return what the session's resources hold, all at one time; arrays that are read-only are to be copied."""
        found = {container: dict(saved) for container, saved in self._saved.items() if saved}
        for container, resources in self._kinds.items():
            for name, resource in resources.items():
                if (saved := resource.snapshot()) is not None:
                    found.setdefault(container, {})[name] = saved
        return found

    def restore(self, snapshot: Mapping[str, Mapping[str, Any]]) -> None:
        """Let resources hold what they held at a snapshot: all that it names, or none if something does not fit.

        Those that are not there yet get it when a step asks for them; those that it does not name stay as they are.
        """
        self.prepare(snapshot)()

    def prepare(self, snapshot: Mapping[str, Mapping[str, Any]]) -> Callable[[], None]:
        """Make what it takes to restore a snapshot, in whatever thread; return what does it on the loop's."""
        changes: list[Callable[[], object]] = []
        later: dict[str, dict[str, Any]] = {}
        for container, saved in snapshot.items():
            for name, state in saved.items():
                resource = self._kinds.get(container, {}).get(name)
                if resource is None:
                    # In the host's memory, as no step has asked for room for it yet.
                    later.setdefault(container, {})[name] = outside(nest.map_structure, _copied, state)
                else:
                    changes.append(resource.restore(state))

        def change() -> None:
            changes.extend(self._asked_for_meanwhile(later))
            for each in changes:
                each()
            for container, saved in later.items():
                self._saved.setdefault(container, {}).update(saved)

        return change

    def _asked_for_meanwhile(self, later: dict[str, dict[str, Any]]) -> list[Callable[[], object]]:
        """Take out of what is to be restored later what is there by now; return what restores that."""
        there = [(c, name) for c, saved in later.items() for name in saved if name in self._kinds.get(c, {})]
        found = [self._kinds[container][name].restore(later[container][name]) for container, name in there]
        for container, name in there:
            del later[container][name]
        return found

    def take(self, names: Collection[str]) -> Snapshot:
        """Return what resources of some names hold, in the host's memory, for another session that goes on with it.

        Those that need no closing are forgotten here; others end with this session.
        """
        found: Snapshot = {}
        for container in list(self._saved):
            for name in self._saved[container].keys() & set(names):
                found.setdefault(container, {})[name] = self._saved[container].pop(name)
        for container, resources in list(self._kinds.items()):
            for name in resources.keys() & set(names):
                resource = resources[name]
                if (saved := resource.snapshot()) is not None:
                    found.setdefault(container, {})[name] = outside(nest.map_structure, _copied, saved)
                if resource.is_plain:
                    self._forget(container, name)
        return found

    def immovable(self, names: Collection[str]) -> set[str]:
        """Return those of some names whose resources have no snapshots, such as queues."""
        return {
            name
            for resources in list(self._kinds.values())
            for name, resource in list(resources.items())
            if name in names and not resource.is_plain and resource.snapshot() is None
        }

    def names_in_turn(self) -> set[str]:
        """Return the names of the resources that somebody reads or changes, perhaps in a thread, or waits to."""
        return {
            name
            for resources in list(self._kinds.values())
            for name, resource in list(resources.items())
            if resource.turns is not None and resource.turns.taken
        }

    def drop_torn(self) -> list[str]:
        """Forget what a thread was perhaps writing to that this process does not have; return the names."""
        torn = sorted(self.names_in_turn())
        for container, resources in self._kinds.items():
            for name in [each for each in torn if each in resources]:
                self._forget(container, name)
        return torn

    def _forget(self, container: str, name: str) -> None:
        self._made.remove(self._kinds[container].pop(name))

    # ---- the end

    def cancel(self, error: BaseException) -> None:
        """Wake what waits in the session's resources."""
        _cancel(self, error)

    def cancel_step(self, number: int, error: BaseException) -> None:
        """Wake what waits in the resources of a step that ends early."""
        _cancel(_living(self.of_steps.get(number, ())), error)

    async def aclose_step(self, number: int) -> None:
        """Close what a step made and somebody still holds, the newest first."""
        alive = self.of_steps.pop(number)
        closing = _living(alive)
        alive.clear()  # their ends need not be noted any longer
        await _close(closing)

    async def aclose(self) -> None:
        """Close the session's resources, the newest first, and forget them; twice is fine."""
        self.taken.clear()  # what partial runs that nobody closed have taken is gone with what it was taken from
        closing, self._made = self._made, []
        self._kinds.clear()
        self._saved.clear()
        await _close(closing)


def _living(references: Iterable[ref[Resource]]) -> list[Resource]:
    return [resource for each in list(references) if (resource := each()) is not None]


def _cancel(resources: Iterable[Resource], error: BaseException) -> None:
    for resource in resources:
        try:
            resource.cancel(error)
        except Exception:
            _logger.exception("%s could not be cancelled", resource.label)


async def _close(resources: list[Resource]) -> None:
    """Close resources, the newest first, and all of them: what one raises is logged, a cancellation is raised then."""
    cancellation = None
    while resources:
        resource = resources.pop()
        try:
            await resource.aclose()
        except asyncio.CancelledError as error:
            cancellation = cancellation or error
        except Exception:
            _logger.exception("%s could not be closed", resource.label)
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            del cancellation  # the traceback refers to this frame


def _copied(value: Any) -> Any:
    """Return a copy of an array, which nobody writes to from now on; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy
