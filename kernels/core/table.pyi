"""Kinds of nodes."""

from enum import IntEnum

class Kind(IntEnum):
    """The action of an executor for a node; it performs all kinds itself except KERNEL."""

    KERNEL = 0
    SWITCH = 1
    SWITCH_N = 2
    MERGE = 3
    ENTER = 4
    EXIT = 5
    NEXT_ITERATION = 6
    LOOP_COND = 7
    CONTROL_TRIGGER = 8
    IDENTITY = 9
    CONST = 10
    FEED = 11
    FETCH = 12
    SERIES_PUSH = 13
    SERIES_EXIT = 14
    TRIP_COUNT = 15
    SERIES_READ = 16
    SEND = 17
    RECV = 18
