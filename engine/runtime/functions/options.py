"""Options of traced functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.graph import Graph
from ..session.session import Session
from ..session.sync import SyncSession

MOST_TRACES = 128  # traces kept by a function; each takes some 200 KB with its compiled step


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """Options of a traced function: keyword arguments of :func:`function`, which describes them."""

    graph: Graph | None = None
    session: Session | SyncSession | None = None
    input_signature: Sequence[Any] | None = None
    static_argnames: str | Sequence[str] = ()
    max_traces: int = MOST_TRACES
    blocking: bool | None = None


DEFAULTS = FunctionOptions()
