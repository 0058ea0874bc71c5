"""Common traits of operation types: their role in a graph, and their effects.

Passes test these traits instead of names, so a new operation is described in a single place, its definition.
"""

from __future__ import annotations

from enum import Enum, Flag, auto


class Role(Enum):
    """Role of an operation in the structure of a graph; purely computing operations are KERNEL."""

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
    # hand their input on before the ready queue is served
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
# Primitives whose results may be dead, or of another iteration, although their inputs are live.
FLOW = SWITCHES | {Role.MERGE, Role.ENTER, Role.EXIT, Role.NEXT_ITERATION}
PRIMITIVES = FLOW | {Role.LOOP_COND, Role.CONTROL_TRIGGER}
# Copies of these would compute the same values and yet not be interchangeable.
UNIQUE = FLOW | STRUCTURED | {Role.FEED, Role.PLACEHOLDER, Role.PARAM, Role.LOOP_COND}


class Effect(Flag):
    """Effects of an instance besides computing outputs, and dependences of its outputs on more than its inputs."""

    NONE = 0
    READS = auto()  # state that other instances may change: a variable, an array, a stack
    WRITES = auto()  # state, or creates it
    RANDOM = auto()  # draws by the key of its instance
    INSTANCE = auto()  # returns the identity of its instance
    PYTHON = auto()  # calls a function of the user
    SHOWS = auto()  # is visible outside of the step: prints, checks, messages, parts of a partial run
    WAITS = auto()  # for an event other than its inputs
