"""States of objects that are saved with a session."""

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
    """Return the state of an object with its arrays copied, because the object may change them afterwards.

    The iterator of a pipeline changes no array of its state, so a deferred state suffices, made when written.
    """
    if hasattr(value, "deferred_state"):
        return value.deferred_state()
    return nest.map_structure(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, value.state_dict())


@asynccontextmanager
async def load_objects(objects: Mapping[str, Any], states: Mapping[str, Any], path: str) -> AsyncIterator[None]:
    """Load the states of objects; if a load or the block fails, restore the previous states.

    Raises
    ------
    CheckpointError
        If an object fails to load its state.
    """
    before: dict[str, Any] = {}
    try:
        for name, state in states.items():
            before[name] = _state_of(name, objects[name])
            try:
                await _load_state(objects[name], state)
            except Exception as error:
                raise CheckpointError(
                    f"a saved state does not fit its object: {error!r}",
                    file=path,
                    variable=f"objects/{name}",
                    hint="add the object that was saved by this name, or remove this name from the checkpointer",
                ) from error
        yield
    except BaseException:
        for name, state in before.items():
            # An object that had no state keeps the loaded one: there is nothing to return to.
            if state is not None:
                await _give_back(name, objects[name], state)
        raise


def _state_of(name: str, value: object) -> Any:
    """Return the state of an object, or None if the object has no state yet."""
    try:
        return state_of(value)
    except Exception:  # of the user's object; before the first load a missing state is no error
        _logger.debug("object '%s' has no state before it is restored", name, exc_info=True)
        return None


async def _give_back(name: str, value: object, state: object) -> None:
    try:
        await _load_state(value, state)
    except Exception:
        _logger.warning("object '%s' may not have what it had before a restore that failed", name, exc_info=True)


async def _load_state(value: Any, state: Any) -> None:
    loading = value.load_state_dict(state)
    if asyncio.iscoroutine(loading):
        await loading
