"""Operations of ``Session.partial_run``, which feed values to a running step and fetch values from it."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base import dtypes
from ...base.dtypes import DType
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.traits import Effect, Role
from ..support.common import infer_nothing
from ..support.context import KernelContext, PartialFeeds
from ..support.copies import give_copy


def _partial_feeds(context: KernelContext) -> PartialFeeds:
    parts = context.step.parts
    assert parts is not None  # only partial runs have such operations
    return parts


def _wait_for_feed(xp: Any, context: KernelContext, *, index: int, dtype: DType) -> Any:
    return _partial_feeds(context).come(index)


def _hand_over(xp: Any, context: KernelContext, value: Any, *, key: int) -> Any:
    return give_copy(context, value, partial(_partial_feeds(context).put, key))


def _finish_fetch(xp: Any, context: KernelContext, *, key: int, needs: tuple[int, ...]) -> None:
    _partial_feeds(context).finish(key)


define(
    "PartialFeed",
    "-> value: host @dtype",
    attrs={"index": REQUIRED, "dtype": REQUIRED},
    shape=lambda op: op.outputs[0].shape,
    role=Role.PARTIAL_FEED,
    kernel=_wait_for_feed,
    gradient=NotDifferentiable("what is fed has no inputs"),
    effects=Effect.WAITS,
)

define(
    "PartialFetch",
    "input: host T ->",
    where={"T": dtypes.VALUES},
    attrs={"key": REQUIRED},
    shape=infer_nothing,
    kernel=_hand_over,
    gradient=NotDifferentiable("it has no output"),
    effects=Effect.SHOWS,
)

define(
    "PartialEnd",
    "->",
    attrs={"key": REQUIRED, "needs": REQUIRED},
    shape=infer_nothing,
    kernel=_finish_fetch,
    gradient=NotDifferentiable("it has no value"),
    effects=Effect.SHOWS,
)
