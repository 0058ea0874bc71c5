"""Programs that once failed, as small as they could be made."""

import asyncio

from tests.property.executors import check_executors
from tests.property.finite_differences import Tally, check_differences
from tests.property.programs import FLOAT, INT, VECTOR, Assign, Block, Cond, Const, Op, Program, While

EMPTY = ()


def check_gradients(program):
    """Check both orders at every window, none of the differences left out."""
    tally = Tally()
    for window in (1, 2, 32):
        asyncio.run(check_differences(program, window, tally))
    assert tally.rejected == 0


def test_branch_that_returns_a_capture():
    # the gradient was None: only what a branch makes itself counted as active when it left the branch
    statements = (
        Const("c", FLOAT, 0.3),
        Op("p", "less", ("x", "c")),
        Cond(("y",), "p", (Block(EMPTY, ("x",)), Block(EMPTY, ("c",)))),
    )
    check_gradients(Program((("x", FLOAT),), Block(statements, ("y",)), {"x": 0.6}))


def test_assignment_that_is_computed_with_ahead_of():
    # the second assignment came first: what was computed from the value assigned no longer waited for the first
    statements = (
        Assign("a", "w", "assign", "x"),
        Op("y", "mul", ("a", "a")),
        Assign("b", "w", "assign_add", "y"),
    )
    values = {"x": (1.0, 2.0, 3.0), "w": (0.0, 0.0, 0.0)}
    program = Program((("x", VECTOR),), Block(statements, ("b",)), values, (("w", VECTOR),))
    asyncio.run(check_executors(program))


def test_assignment_that_waits_for_a_loop_variable():
    # iterations overlapped: a control input that is a loop variable was dropped
    body = (
        Assign("a", "w", "assign", "five", ("t",)),
        Op("y", "mul", ("a", "a")),
        Assign("b", "w", "assign_add", "y"),
        Op("j", "add", ("i", "one")),
    )
    loop = While(
        ("k", "last"),
        ("i", "t"),
        ("zero", "zero"),
        Block((Op("p", "less", ("i", "n")),), ("p",)),
        Block(body, ("j", "b")),
    )
    statements = (*(Const(name, INT, value) for name, value in (("zero", 0), ("one", 1), ("five", 5))), loop)
    program = Program((("n", INT),), Block(statements, ("last",)), {"n": 3, "w": 0}, (("w", INT),))
    asyncio.run(check_executors(program))
