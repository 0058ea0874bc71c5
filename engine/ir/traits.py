"""What operation types have in common: their role in a graph, and their effects.

Passes ask for these instead of comparing names, so that a new operation says what it is in one place, its definition.
"""

from __future__ import annotations

from enum import Enum, Flag, auto


class Role(Enum):
    """What an operation is for the structure of a graph; all that just compute are KERNEL."""

    KERNEL = auto()
    # values that come from outside a region
    CONST = auto()
    PLACEHOLDER = auto()
    FEED = auto()
    PARTIAL_FEED = auto()
    PARAM = auto()
    # operations that own regions
    COND = auto()
    WHILE = auto()
    # primitives of control flow
    SWITCH = auto()
    SWITCH_N = auto()
    MERGE = auto()
    ENTER = auto()
    EXIT = auto()
    NEXT_ITERATION = auto()
    LOOP_COND = auto()
    CONTROL_TRIGGER = auto()
    # what hands its input on before the ready queue is looked at
    IDENTITY = auto()
    MAYBE_GET = auto()
    # saved values
    SERIES_PUSH = auto()
    SERIES_EXIT = auto()
    TRIP_COUNT = auto()
    SERIES_READ = auto()
    SERIES = auto()  # computes with series or their slots
    # between devices
    SEND = auto()
    RECV = auto()
    TRANSFER = auto()


SWITCHES = frozenset({Role.SWITCH, Role.SWITCH_N})
LEAVES_FRAME = frozenset({Role.EXIT, Role.SERIES_EXIT, Role.TRIP_COUNT})  # from a frame to the one around it
ABOUT_SERIES = frozenset({Role.SERIES_PUSH, Role.SERIES_EXIT, Role.SERIES_READ, Role.SERIES})
STRUCTURED = frozenset({Role.COND, Role.WHILE})
# Primitives whose results may be dead, or of another iteration, though their inputs are there.
FLOW = SWITCHES | {Role.MERGE, Role.ENTER, Role.EXIT, Role.NEXT_ITERATION}
PRIMITIVES = FLOW | {Role.LOOP_COND, Role.CONTROL_TRIGGER}
# Copies of these would compute the same and yet not be the same.
UNIQUE = FLOW | STRUCTURED | {Role.FEED, Role.PLACEHOLDER, Role.PARAM, Role.LOOP_COND}


class Effect(Flag):
    """What an instance does besides giving its outputs, or what these depend on besides its inputs."""

    NONE = 0
    READS = auto()  # what others may change: a variable, an array, a stack
    WRITES = auto()  # or makes it
    RANDOM = auto()  # draws by the key of its instance
    INSTANCE = auto()  # gives what instance it is
    PYTHON = auto()  # calls a function of the user
    SHOWS = auto()  # is seen outside of the step: prints, checks, messages, parts of a partial run
    WAITS = auto()  # for what is no input of it
