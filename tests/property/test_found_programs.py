"""Programs that once failed, as small as they could be made."""

import asyncio

from tests.property.programs import FLOAT, Block, Cond, Const, Op, Program
from tests.property.test_random_gradients import Tally, check

EMPTY = ()


def check_gradients(program):
    """Check both orders at every window, none of the differences left out."""
    tally = Tally()
    for window in (1, 2, 32):
        asyncio.run(check(program, window, tally))
    assert tally.rejected == 0


def test_branch_that_returns_a_capture():
    # the gradient was None: only what a branch makes itself counted as active when it left the branch
    statements = (
        Const("c", FLOAT, 0.3),
        Op("p", "less", ("x", "c")),
        Cond(("y",), "p", (Block(EMPTY, ("x",)), Block(EMPTY, ("c",)))),
    )
    check_gradients(Program((("x", FLOAT),), Block(statements, ("y",)), {"x": 0.6}))
