"""Resources of a session, with state between steps, and of its running steps; see docs/design/0019-resources.md."""

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
Snapshot = dict[str, dict[str, Any]]  # saved states of resources, by container and name
_logger = logging.getLogger("tagloom")


class ResourceManager:
    """Owner of a session's resources; refers weakly to the resources of its running steps.

    Parameters
    ----------
    close_seconds : float
        Longest time that closing waits for code of the user.

    Attributes
    ----------
    close_seconds : float
        Longest time that closing waits for code of the user.
    of_steps : dict of int to dict
        Weak references to the resources made by running steps, by number of the step, in the order of making; steps
        without resources have no entry.
    taken : dict of int to list of (callable, str)
        Elements taken from resources and not delivered to the caller yet, by number of the step: the function that
        returns an element to its resource, and the name of the operation that took the element.
    """

    __slots__ = ("_kinds", "_made", "_saved", "close_seconds", "of_steps", "taken")

    def __init__(self, close_seconds: float = DEFAULTS.close_seconds) -> None:
        self.close_seconds: float = close_seconds
        self._kinds: dict[str, dict[str, Any]] = {}  # resources by container and name
        self._made: list[Resource] = []  # the same, in the order of making
        self._saved: Snapshot = {}  # restored states of resources that no step has made yet
        self.of_steps: dict[int, dict[ref[Resource], None]] = {}
        self.taken: dict[int, list[tuple[Callable[[], object], str]]] = {}

    # ---- used by kernels

    def get_or_create(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        """Return the resource of a name, which lives until the session is closed.

        Parameters
        ----------
        container : str
            The kind of state, so resources of two kinds may have the same name.
        name : str
        factory : callable
            ``factory(name)`` makes the resource at the first call.
        """
        try:
            return self._kinds[container][name]  # type: ignore[no-any-return]
        except KeyError:
            return self._create_resource(container, name, factory)

    def _create_resource(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        """Make a resource, and restore its state if a snapshot was restored before."""
        resource = factory(name)
        saved = self._saved.get(container, {})
        if name in saved:
            # The calling kernel may be refused memory here and start over, so the resource is registered afterwards.
            resource.restore(saved[name])()
            del saved[name]
        self._kinds.setdefault(container, {})[name] = resource
        self._made.append(resource)
        return resource

    def add_to_step(self, number: int, resource: Resource) -> None:
        """Register a resource to be closed at the end of a step; only the resource's handles keep the resource alive.

        A resource whose last handle is dropped earlier needs no closing.
        """
        try:
            alive = self.of_steps[number]
        except KeyError:
            alive = self.of_steps[number] = {}
        # A loop may make a TensorArray in each iteration, so the weak reference removes itself with its resource.
        alive[ref(resource, alive.pop)] = None

    def note_taken(self, number: int, give_back: Callable[[], object], operation: str = "") -> None:
        """Register `give_back`, called if the step ends before its caller has the element taken by `operation`."""
        self.taken.setdefault(number, []).append((give_back, operation))

    def drop_taken(self, number: int, give_back: Callable[[], object]) -> None:
        """Forget a function registered by `note_taken`."""
        self._keep_taken(number, lambda noted: noted[0] != give_back)

    def hand_over_taken(self, number: int, operations: Collection[str]) -> None:
        """Forget the elements taken by `operations` of a step: the caller has received the elements."""
        self._keep_taken(number, lambda noted: noted[1] not in operations)

    def _keep_taken(self, number: int, is_kept: Callable[[tuple[Callable[[], object], str]], bool]) -> None:
        if number in self.taken:
            self.taken[number] = list(filter(is_kept, self.taken[number]))
            if not self.taken[number]:
                del self.taken[number]

    def give_back(self, number: int) -> None:
        """Return the elements taken by a step that ends early to their resources, the last element first.

        The reverse order restores the order of elements in a queue.
        """
        for give_back, _ in reversed(self.taken.pop(number, [])):
            try:
                give_back()
            except Exception:  # the remaining elements go back all the same
                _logger.exception("what step %d has taken could not be given back", number)

    def __iter__(self) -> Iterator[Resource]:
        """Iterate over the session's resources in the order of making; callable from any thread."""
        return iter(list(self._made))

    # ---- states of resources

    def names(self, container: str) -> list[str]:
        """Return the names of a kind of resources: of live resources, then of restored states without a resource."""
        return [*self._kinds.get(container, ()), *self._saved.get(container, ())]

    def nbytes_by_device(self, pools: Mapping[str, Pool]) -> dict[str, int]:
        """Return the bytes of each pool held by the session's resources; an array shared by several counts once."""
        return {name: sum(size for size, *_ in resource_allocations(self, pool)) for name, pool in pools.items()}

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return the statistics of the session's resources, by container and name; callable from any thread."""
        found: dict[str, dict[str, Any]] = {}
        for container, resources in list(self._kinds.items()):
            for name, resource in list(resources.items()):
                if (figures := resource.statistics()) is not None:
                    found.setdefault(container, {})[name] = figures
        return found

    def snapshot(self) -> Snapshot:
        """Return the states of the session's resources, all at one time; read-only arrays are shared, not copied."""
        found = {container: dict(saved) for container, saved in self._saved.items() if saved}
        for container, resources in self._kinds.items():
            for name, resource in resources.items():
                if (saved := resource.snapshot()) is not None:
                    found.setdefault(container, {})[name] = saved
        return found

    def restore(self, snapshot: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore the resources named by a snapshot: all of them, or none if a state does not fit.

        The state of a missing resource is restored when a step makes the resource; other resources are unchanged.
        """
        self.prepare(snapshot)()

    def prepare(self, snapshot: Mapping[str, Mapping[str, Any]]) -> Callable[[], None]:
        """Allocate the restored states of a snapshot, in any thread; return a function that installs them.

        The function must be called on the thread of the event loop.
        """
        changes: list[Callable[[], object]] = []
        later: dict[str, dict[str, Any]] = {}
        for container, saved in snapshot.items():
            for name, state in saved.items():
                resource = self._kinds.get(container, {}).get(name)
                if resource is None:
                    # Allocated outside of the devices' limits: no step has reserved memory for the resource yet.
                    later.setdefault(container, {})[name] = outside(nest.map_structure, _copy_read_only, state)
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
        """Move states out of `later` whose resources were made since `prepare`; return functions that restore them."""
        there = [(c, name) for c, saved in later.items() for name in saved if name in self._kinds.get(c, {})]
        found = [self._kinds[container][name].restore(later[container][name]) for container, name in there]
        for container, name in there:
            del later[container][name]
        return found

    def take(self, names: Collection[str]) -> Snapshot:
        """Return the states of the named resources, in the host's memory, for a session that continues with them.

        Resources that need no closing are forgotten here; others end with this session.
        """
        found: Snapshot = {}
        for container in list(self._saved):
            for name in self._saved[container].keys() & set(names):
                found.setdefault(container, {})[name] = self._saved[container].pop(name)
        for container, resources in list(self._kinds.items()):
            for name in resources.keys() & set(names):
                resource = resources[name]
                if (saved := resource.snapshot()) is not None:
                    found.setdefault(container, {})[name] = outside(nest.map_structure, _copy_read_only, saved)
                if resource.is_plain:
                    self._forget_resource(container, name)
        return found

    def immovable(self, names: Collection[str]) -> set[str]:
        """Return the subset of `names` whose resources have no snapshots, such as queues."""
        return {
            name
            for resources in list(self._kinds.values())
            for name, resource in list(resources.items())
            if name in names and not resource.is_plain and resource.snapshot() is None
        }

    def names_in_turn(self) -> set[str]:
        """Return the names of resources being read or changed, perhaps in a thread, or waited for."""
        return {
            name
            for resources in list(self._kinds.values())
            for name, resource in list(resources.items())
            if resource.turns is not None and resource.turns.taken
        }

    def drop_torn(self) -> list[str]:
        """Forget resources possibly half-written by a thread that a fork did not copy; return their names."""
        torn = sorted(self.names_in_turn())
        for container, resources in self._kinds.items():
            for name in [each for each in torn if each in resources]:
                self._forget_resource(container, name)
        return torn

    def _forget_resource(self, container: str, name: str) -> None:
        self._made.remove(self._kinds[container].pop(name))

    # ---- the end

    def cancel(self, error: BaseException) -> None:
        """Raise `error` in all operations waiting in the session's resources."""
        _cancel_all(self, error)

    def cancel_step(self, number: int, error: BaseException) -> None:
        """Raise `error` in all operations waiting in the resources of a step that ends early."""
        _cancel_all(_living_resources(self.of_steps.get(number, ())), error)

    async def aclose_step(self, number: int) -> None:
        """Close the live resources of a step, the newest first."""
        alive = self.of_steps.pop(number)
        closing = _living_resources(alive)
        alive.clear()  # drops the weak references, whose callbacks would change the dict during the closing
        await _close_all(closing)

    async def aclose(self) -> None:
        """Close the session's resources, the newest first, and forget them; closing twice is fine."""
        self.taken.clear()  # elements of unclosed partial runs have no resource to return to
        closing, self._made = self._made, []
        self._kinds.clear()
        self._saved.clear()
        await _close_all(closing)


def _living_resources(references: Iterable[ref[Resource]]) -> list[Resource]:
    return [resource for each in list(references) if (resource := each()) is not None]


def _cancel_all(resources: Iterable[Resource], error: BaseException) -> None:
    for resource in resources:
        try:
            resource.cancel(error)
        except Exception:
            _logger.exception("%s could not be cancelled", resource.label)


async def _close_all(resources: list[Resource]) -> None:
    """Close all resources, the newest first; log errors, and raise the first cancellation at the end."""
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


def _copy_read_only(value: Any) -> Any:
    """Return a read-only copy of an array; other values unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy
