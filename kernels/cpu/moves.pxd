"""Rows that are copied from one array to another, or several, whose rows are longer or shorter."""

from libc.string cimport memcpy
from numpy cimport npy_intp

from tagloom.kernels.core.cost cimport do_or_leave, take_memory
from tagloom.kernels.core.table cimport Table, Work
from tagloom.kernels.core.values cimport Value

cdef enum:
    MOST_MOVES = 20  # that fit into the arguments of work
    MOST_MOVE_PARTS = 64


cdef struct Move:  # of as many bytes of each row
    const char* source
    char* target
    size_t size
    size_t source_step  # bytes from one row to the next
    size_t target_step


cdef struct Moves:
    Move here[MOST_MOVES]
    Move* elsewhere  # if there are more: all of them, in memory that the work keeps
    npy_intp count
    npy_intp rows


cdef inline Move* begin_moves(Work* work, npy_intp count, npy_intp rows) except NULL:
    """Return room in the arguments of work for so many moves of so many rows."""
    cdef Moves* moves = <Moves*>work.arguments
    moves.count, moves.rows, moves.elsewhere = count, rows, NULL
    if count <= MOST_MOVES:
        return moves.here
    moves.elsewhere = <Move*>take_memory(work, count * sizeof(Move))
    return moves.elsewhere


cdef inline int finish_moves(const Table* table, Work* work, Value* output) noexcept nogil:
    """Copy the rows, or leave that to be done."""
    cdef const Moves* moves = <const Moves*>work.arguments
    cdef const Move* first = &moves.here[0] if moves.elsewhere == NULL else moves.elsewhere
    cdef double cost = 0
    cdef npy_intp i
    for i in range(moves.count):
        cost += moves.rows * (5 + 0.2 * first[i].size)  # nanoseconds, about
    return do_or_leave(table, work, move_rows, cost, MOST_MOVE_PARTS, output)


cdef inline void move_rows(const void* arguments, int part, int parts) noexcept nogil:
    """Copy some of the rows; where there are few, a part of each."""
    cdef const Moves* moves = <const Moves*>arguments
    cdef const Move* first = &moves.here[0] if moves.elsewhere == NULL else moves.elsewhere
    cdef npy_intp start = moves.rows * part // parts
    cdef npy_intp stop = moves.rows * (part + 1) // parts
    cdef bint few = moves.rows < parts
    cdef size_t begin, end
    cdef npy_intp row, i
    if few:
        start, stop = 0, moves.rows
    for i in range(moves.count):
        begin = first[i].size * part // parts if few else 0
        end = first[i].size * (part + 1) // parts if few else first[i].size
        for row in range(start, stop):
            memcpy(
                first[i].target + row * first[i].target_step + begin,
                first[i].source + row * first[i].source_step + begin,
                end - begin)
