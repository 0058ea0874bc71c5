"""Memory budgets, which several sessions may share."""

from __future__ import annotations

from typing import SupportsIndex

from ...base.sizes import format_size, parse_size
from ...kernels.memory.pool import SharedLimit


class MemoryBudget:
    """Memory that the arrays of several sessions may take together: ``Session(memory_limit=budget)``.

    The sum of the bytes in use of all its sessions stays within the limit, and the steps of all of them stand in the
    same line. A closed session releases its bytes. A budget serves a single event loop at a time: a step ends with
    TagloomError while steps of its sessions on another loop are under way. Each SyncSession has a loop of its own, so
    several of them share a budget if they are called one after the other; threads may share a SyncSession.

    The devices of a session count together.

    Parameters
    ----------
    limit : int or str
        Bytes, as a number or like "512MiB".

    Raises
    ------
    GraphError
        If the limit is no size.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> budget = tg.MemoryBudget("1MiB")
    >>> with tg.Graph().as_default() as graph:
    ...     v = tg.Variable(np.zeros(1000, "float32"), name="v")
    >>> with tg.SyncSession(graph, memory_limit=budget) as session:
    ...     session.write_variables({"v": np.ones(1000, "float32")})
    ...     budget.live_bytes
    4000
    >>> budget
    <MemoryBudget of 1 MiB: 0 B in use by 0 devices of sessions>
    """

    def __init__(self, limit: SupportsIndex | str) -> None:
        self._shared = SharedLimit(parse_size(limit, "limit of a MemoryBudget"))

    def __repr__(self) -> str:
        size, live, devices = format_size(self.limit_bytes), format_size(self.live_bytes), self._shared.pools
        return f"<MemoryBudget of {size}: {live} in use by {devices} device{'' if devices == 1 else 's'} of sessions>"

    @property
    def shared(self) -> SharedLimit:
        """The limit shared by the pools of the sessions' devices."""
        return self._shared

    @property
    def limit_bytes(self) -> int:
        """Bytes that all sessions together may take."""
        return self._shared.limit

    @property
    def live_bytes(self) -> int:
        """Bytes that all sessions together have in use now."""
        return self._shared.used_bytes

    @property
    def peak_bytes(self) -> int:
        """Most bytes in use by all sessions together so far."""
        return self._shared.peak_bytes
