"""Exchange of the memory of loop variables and their next values, instead of a copy.

At the end of an iteration a loop variable takes the value computed for the next iteration. Where the addresses are
known of all steps with access to either memory, the two memories are exchanged: the next value is then computed in the
old memory of the variable. When the run is over a variable is copied back to the memory of its register.
"""

from libc.string cimport memcpy
from numpy cimport import_array, npy_intp

from tagloom.kernels.native.run cimport CALL, COPY, YES, Place, Run, Step, Verdict, most_value_bytes
from tagloom.kernels.native.sights cimport Sight, Sights, is_made_before, is_movable, is_seen, place_of_sight

import_array()

cdef enum:  # operands of an exchange
    EXCHANGE
    VARIABLE
    NEXT


cdef struct Exchange:
    char* home  # where the register has the variable
    int num_variable  # places of the variable, which come first, and of its next value
    int num_next


cdef int exchange_variables(Run run, const Sights* sights) except -1:
    """Make steps access variables and next values in exchanged memory in each iteration, where this is known to be
    right.
    """
    cdef int i
    for i in range(run.num_steps - 1, -1, -1):  # at the end of a loop first, then its beginning
        if run.steps[i].code == COPY and run.steps[i].count > most_value_bytes and _may_exchange(run, i, sights):
            _exchange(run, i, sights)
    return 0


cdef bint _may_exchange(Run run, int i, const Sights* sights) noexcept:
    """Return True if a copied value is computed by a single step just before the copy, and accessed by no step after
    it.

    The value and its copy can then exchange memory, unless some address of them is unknown.
    """
    cdef const Step* step = &run.steps[i]
    cdef char* variable = step.operands[0]
    cdef char* next = step.operands[1]
    cdef npy_intp size = step.count
    cdef const Sight* sight
    cdef int k
    if variable < next + size and next < variable + size:
        return False
    for k in range(sights.count):
        sight = &sights.all[k]
        if is_seen(sight, variable, variable + size) and not is_movable(sight, variable, variable + size) and not (
                sight.step < 0 and sight.low == variable and sight.high == variable + size):  # see put_variables_back
            return False
    return is_made_before(run, i, sights, next, size)


cdef int _exchange(Run run, int i, const Sights* sights) except -1:
    """Make a step exchange the memory of two values instead of a copy."""
    cdef Step* step = &run.steps[i]
    cdef char* variable = step.operands[0]
    cdef char* next = step.operands[1]
    cdef npy_intp size = step.count
    cdef Exchange* exchange = <Exchange*>run.arena.take(1, sizeof(Exchange))
    step.places = <Place*>run.arena.take(sights.count, sizeof(Place))
    exchange.home = variable
    exchange.num_variable = _note(run, i, sights, variable, size, step.places)
    exchange.num_next = _note(run, i, sights, next, size, step.places + exchange.num_variable)
    step.code, step.act = CALL, _change_places
    step.operands[EXCHANGE], step.operands[VARIABLE], step.operands[NEXT] = <char*>exchange, variable, next
    step.strides[VARIABLE] = step.strides[NEXT] = size
    return 0


cdef int _note(Run run, int i, const Sights* sights, char* low, npy_intp size, Place* places) noexcept:
    """Note the places of addresses with which other steps access some memory; return the number of places."""
    cdef Sight* sight
    cdef int count = 0
    cdef int k
    for k in range(sights.count):
        sight = &sights.all[k]
        if not is_seen(sight, low, low + size) or sight.step < 0:
            continue
        sight.row = i
        if sight.step != i:
            places[count].at = place_of_sight(run, sight)
            places[count].offset = places[count].at[0] - low
            count += 1
    return count


cdef Verdict _change_places(const Step* step) noexcept nogil:
    """Exchange the addresses of a variable and its next value in all steps with access to them."""
    cdef const Exchange* exchange = <const Exchange*>step.operands[EXCHANGE]
    cdef char* variable = step.operands[NEXT]
    cdef char* next = step.operands[VARIABLE]
    cdef int k
    for k in range(exchange.num_variable):
        step.places[k].at[0] = variable + step.places[k].offset
    for k in range(exchange.num_variable, exchange.num_variable + exchange.num_next):
        step.places[k].at[0] = next + step.places[k].offset
    (<Step*>step).operands[VARIABLE], (<Step*>step).operands[NEXT] = variable, next
    return YES


cdef void put_variables_back(Run run) noexcept:
    """Copy variables to the memory of their registers, at the end of the run."""
    cdef const Step* step
    cdef char* home
    cdef int i
    for i in range(run.num_steps):
        step = &run.steps[i]
        if step.code == CALL and step.act == _change_places:
            home = (<const Exchange*>step.operands[EXCHANGE]).home
            if step.operands[VARIABLE] != home:
                memcpy(home, step.operands[VARIABLE], step.strides[VARIABLE])
