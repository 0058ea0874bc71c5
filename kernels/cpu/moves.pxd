"""Copies of rows between arrays with rows of different lengths, for concatenations and splits.

A concatenation copies each input's rows into a column range of the output's rows, a split does the reverse. One Move
describes the copy between one input and one output; all moves of a kernel have the same number of rows.
"""

from libc.string cimport memcpy
from numpy cimport npy_intp

from tagloom.kernels.core.cost cimport do_or_leave, take_memory
from tagloom.kernels.core.table cimport Table, Work
from tagloom.kernels.core.values cimport Value

cdef enum:
    MOST_MOVES = 20  # that fit into Work.arguments: Moves has 824 of 1024 bytes, the last 40 have meanings of their own
    MOST_MOVE_PARTS = 64  # into which the copying may be cut for threads


cdef struct Move:  # the same bytes of every row, from one array to another
    const char* source  # in the first row
    char* target
    size_t size  # bytes copied of each row
    size_t source_step  # bytes from one row to the next
    size_t target_step


cdef struct Moves:  # the arguments of move_rows
    Move here[MOST_MOVES]  # unless there are more than MOST_MOVES
    Move* elsewhere  # all moves, if there are more, in memory that Work.kept owns; else NULL
    npy_intp count  # of moves
    npy_intp rows  # of each move


cdef inline Move* begin_moves(Work* work, npy_intp count, npy_intp rows) except NULL:
    """Return room for `count` moves of `rows` rows, to be filled in by the caller before finish_moves."""
    cdef Moves* moves = <Moves*>work.arguments
    moves.count, moves.rows, moves.elsewhere = count, rows, NULL
    if count <= MOST_MOVES:
        return moves.here
    moves.elsewhere = <Move*>take_memory(work, count * sizeof(Move))
    return moves.elsewhere


cdef inline int finish_moves(const Table* table, Work* work, Value* output) noexcept nogil:
    """Copy the rows, or leave the copying in `work` if it takes long; return 1, as the result of do_or_leave."""
    cdef const Moves* moves = <const Moves*>work.arguments
    cdef const Move* first = &moves.here[0] if moves.elsewhere == NULL else moves.elsewhere
    cdef double cost = 0
    cdef npy_intp i
    for i in range(moves.count):
        cost += moves.rows * (5 + 0.2 * first[i].size)  # nanoseconds, about: 5 for a call of memcpy, 0.2 for a byte
    return do_or_leave(table, work, move_rows, cost, MOST_MOVE_PARTS, output)


cdef inline void move_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Copy a part of the rows: whole rows, or with fewer rows than parts the same share of each row."""
    cdef const Moves* moves = <const Moves*>arguments
    cdef const Move* first = &moves.here[0] if moves.elsewhere == NULL else moves.elsewhere
    cdef npy_intp start = moves.rows * part // parts
    cdef npy_intp stop = moves.rows * (part + 1) // parts
    cdef bint cuts_rows = moves.rows < parts
    cdef size_t begin, end
    cdef npy_intp row, i
    if cuts_rows:
        start, stop = 0, moves.rows
    for i in range(moves.count):
        begin = first[i].size * part // parts if cuts_rows else 0
        end = first[i].size * (part + 1) // parts if cuts_rows else first[i].size
        for row in range(start, stop):
            memcpy(
                first[i].target + row * first[i].target_step + begin,
                first[i].source + row * first[i].source_step + begin,
                end - begin)
