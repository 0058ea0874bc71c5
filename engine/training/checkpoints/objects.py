"""The states of objects that are saved beside a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from ...base import nest
from ...base.errors import CheckpointError

_logger = logging.getLogger("tagloom")


def state_of(value: Any) -> Any:
    """Return the state of an object with copies of its arrays, which it may change as soon as it is asked.

    An iterator of a pipeline changes none of them, and what takes long is made when it is written.
    """
    if hasattr(value, "deferred_state"):
        return value.deferred_state()
    return nest.map_structure(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, value.state_dict())


@asynccontextmanager
async def loaded(objects: Mapping[str, Any], states: Mapping[str, Any], path: str) -> AsyncIterator[None]:
    """Give objects their states; if one does not take its own, or the block fails, all have again what they had.

    Raises
    ------
    CheckpointError
        If one does not take its state.
    """
    before: dict[str, Any] = {}
    try:
        for name, state in states.items():
            before[name] = _state_of(name, objects[name])
            try:
                await _load(objects[name], state)
            except Exception as error:
                raise CheckpointError(
                    f"what was saved does not fit an object: {error!r}",
                    file=path,
                    variable=f"objects/{name}",
                    hint="add what was saved by this name, or remove it from the checkpointer",
                ) from error
        yield
    except BaseException:
        for name, state in before.items():
            if state is not None:
                await _give_back(name, objects[name], state)
        raise


def _state_of(name: str, value: Any) -> Any:
    """Return the state of an object, None if it has none yet."""
    try:
        return state_of(value)
    except Exception:
        _logger.debug("object '%s' has no state before it is restored", name, exc_info=True)
        return None


async def _give_back(name: str, value: Any, state: Any) -> None:
    try:
        await _load(value, state)
    except Exception:
        _logger.warning("object '%s' may not have what it had before a restore that failed", name, exc_info=True)


async def _load(value: Any, state: Any) -> None:
    loading = value.load_state_dict(state)
    if asyncio.iscoroutine(loading):
        await loading
