"""Operation of ``Session.watch``, which shows a value to its watchers."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base import dtypes
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.rules.kernels import NoRetry
from ...ir.traits import Effect
from ..support.common import infer_nothing
from ..support.context import KernelContext
from ..support.copies import copy_in_host


def _show_value(xp: Any, context: KernelContext, value: Any, *, key: str) -> Any:
    watch = context.step.watches.get(key)
    return None if watch is None else watch.show(value, partial(copy_in_host, context.step.long_calls))


define(
    "Watch",
    "input: host T ->",
    where={"T": dtypes.VALUES},
    attrs={"key": REQUIRED},
    shape=infer_nothing,
    rules=[NoRetry()],
    kernel=_show_value,
    gradient=NotDifferentiable("it has no output"),
    effects=Effect.SHOWS | Effect.WAITS,
)
