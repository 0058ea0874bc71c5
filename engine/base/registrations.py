"""Registrations of outside packages: device kinds, kernels and passes, for the whole process until taken back.

Tables are replaced, never changed: a compilation in another thread sees a table from before a registration, or from
after, and takes no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

from .errors import GraphError
from .forks import when_forked
from .source_lines import Source, user_source

T = TypeVar("T")

_lock = threading.RLock()  # taken by writers
_version = 0


def version() -> int:
    """Return a number that changes with each registration; compiled steps of another number are out of date."""
    return _version


class Registration:
    """A registration in effect; `unregister` takes it back, as leaving a ``with`` block does.

    Attributes
    ----------
    what : str
        Description for errors: "the kernel of MatMul for float32".
    source : Source or None
        Line of the registering call.

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom import operations, streams
    >>> with operations.register_device_kind("slow", lambda name, index, settings: streams.CpuDevice(name)):
    ...     with tg.SyncSession(tg.Graph(), devices=["/slow:0"]) as session:
    ...         session.list_devices()[0].device_type
    'SLOW'
    """

    __slots__ = ("_remove", "source", "what")

    def __init__(self, what: str, remove: Callable[[], None]) -> None:
        self.what: str = what
        self.source: Source | None = user_source()
        self._remove: Callable[[], None] | None = remove

    def __repr__(self) -> str:
        return f"<Registration of {self.what}{'' if self._remove else ', taken back'}>"

    def unregister(self) -> None:
        """Take the registration back; may be repeated.

        Steps compiled before are compiled again at their next run. Sessions keep devices that they have opened.

        Raises
        ------
        GraphError
            If another registration rests on this one.
        """
        with _lock:
            remove = self._remove
            if remove is not None:
                remove()
                self._remove = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unregister()


class Registry(Generic[T]):
    """A table of registered objects by their keys.

    Parameters
    ----------
    noun : str
        Name of an entry in errors: "device kind".
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._entries: Mapping[object, T] = MappingProxyType({})
        self._sources: Mapping[object, Source | None] = MappingProxyType({})

    @property
    def entries(self) -> Mapping[object, T]:
        """The entries at this moment, in the order of their registration; a later registration does not change it."""
        return self._entries

    def add(self, key: object, entry: T, what: str, check_removal: Callable[[], None] = lambda: None) -> Registration:
        """Add an entry.

        Parameters
        ----------
        key : object
        entry : object
        what : str
            Description of the entry for errors.
        check_removal : callable, optional
            Raises GraphError if the entry cannot be taken back.

        Raises
        ------
        GraphError
            If the key is taken.
        """

        def remove() -> None:
            check_removal()
            self._replace({k: e for k, e in self._entries.items() if k != key}, key, None)

        with _lock:
            if key in self._entries:
                raise GraphError(
                    f"{what} is registered already",
                    wanted=f"at most one {self._noun} for each",
                    got=f"another one, registered at {self._sources[key] or 'the start of the process'}",
                    hint="call unregister() on the earlier registration, or choose another name",
                )
            registration = Registration(what, remove)
            self._replace({**self._entries, key: entry}, key, registration.source)
            return registration

    def source_of(self, key: object) -> Source | None:
        """Return the line of the call that registered an entry."""
        return self._sources.get(key)

    def _replace(self, entries: dict[object, T], key: object, source: Source | None) -> None:
        global _version
        self._entries = MappingProxyType(entries)
        self._sources = MappingProxyType({**{k: s for k, s in self._sources.items() if k in entries}, key: source})
        _version += 1


REGISTERED_PASSES: Registry[Any] = Registry("pass")  # of the compiler: here since settings name them


def _unlock_in_child(parent: int) -> None:
    """Replace the lock in a child process: a thread of the parent may have held it, and will never release it."""
    global _lock
    _lock = threading.RLock()


when_forked(_unlock_in_child)
