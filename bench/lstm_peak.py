"""Peak memory of the training step of ``lstm_train``, each case in fresh processes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

from . import lstm_train
from .experiment import Case, Step

COMPILING = 0.5  # seconds in which LLVM surely compiles a small loop


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Train with tagloom, whose libraries are loaded before its memory is looked at, as those of the others are."""
    await load_compiler()
    return await lstm_train.tagloom(case, stack)


async def load_compiler() -> None:
    """Have a small loop compiled, where LLVM is installed: its library takes 50 MB, whatever loops there are."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        count = tg.while_loop(lambda i: i < 1_000_000, lambda i: i + 1, [0])
    async with tg.Session(graph, settings=tg.Settings(llvm_seconds=0.0)) as session:
        await session.run(count)
        await asyncio.sleep(COMPILING)


EXPERIMENT = replace(
    lstm_train.EXPERIMENT,
    name="lstm_peak",
    peak="peak_bytes",
    engines={**lstm_train.EXPERIMENT.engines, "tagloom": tagloom},
)
