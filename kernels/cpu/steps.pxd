"""The steps of a fused operation, each over one block of rows. The rows of `kernels/steps.py` define their meaning."""

from libc.string cimport memcpy, memset
from numpy cimport npy_intp

from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.cpu.arrays cimport repeat
from tagloom.kernels.cpu.elementwise cimport logistic

cdef extern from "cpu/short_loops.h" nogil:
    enum:
        NO_SHORT_LOOP, SHORT_ADD, SHORT_SUBTRACT, SHORT_MULTIPLY, SHORT_DIVIDE, SHORT_NEGATIVE, SHORT_SQUARE
    void short_loop_float(
        int operation, const float* x, npy_intp x_step, const float* y, npy_intp y_step, float* z, npy_intp count)
    void short_loop_double(
        int operation, const double* x, npy_intp x_step, const double* y, npy_intp y_step, double* z, npy_intp count)

cdef enum:
    MOST_OPERANDS = 3  # of an inner loop


cdef enum Code:  # as `StepCode` in kernels/steps.py
    APPLY  # an inner loop
    SIGMOID
    SUM  # of each row
    MEAN
    EXTREME  # the largest or smallest of each row
    SLICE  # columns start to stop of its operand
    CONCAT  # its operands side by side
    BROADCAST  # a column, or a scalar, repeated along rows of `stop` elements


cdef struct Step:
    Code code
    Loop loop  # APPLY; SUM, MEAN and EXTREME: joins two elements
    void* data  # its last argument
    int short_loop  # loop of short_loops.h with the same results, or NO_SHORT_LOOP
    int start, stop  # columns of SLICE and BROADCAST
    int count
    int* operands  # registers, `count` of them


cdef struct Register:
    npy_intp width  # elements of a row; 1 for a column, 0 for a scalar
    npy_intp advance  # bytes from one row to the next; 0 if every block uses the same memory
    size_t size  # bytes of an element
    char* data  # first element of the current block
    bint repeated  # an input with a single row, which is copied to every row of a block of scratch
    bint by_rows  # made by an inner loop with a column as operand, so the loop runs once for each row
    int result  # number of the output, or -1
    int last_reader  # register of the last step that reads this one; for inputs, the number of registers
    size_t room  # offset in the scratch memory, if it is neither input nor output
    bint passed_on  # its scratch memory is used by a later register too


cdef inline void _apply(const Step* step, const Register* registers, const Register* made, npy_intp rows) noexcept nogil:
    """Run an inner loop over a block: once for all elements, or once for each row if an operand is a column."""
    cdef char* pointers[MOST_OPERANDS + 1]
    cdef npy_intp strides[MOST_OPERANDS + 1]
    cdef npy_intp count = made.width if made.by_rows else made.width * rows
    cdef const Register* operand
    cdef npy_intp row
    cdef int k
    strides[step.count] = made.size
    for k in range(step.count):
        operand = &registers[step.operands[k]]
        strides[k] = operand.size if operand.width == made.width else 0
    for row in range(rows if made.by_rows else 1):
        for k in range(step.count):
            operand = &registers[step.operands[k]]
            pointers[k] = operand.data + row * operand.width * operand.size
        pointers[step.count] = made.data + row * made.width * made.size
        if step.short_loop == NO_SHORT_LOOP:
            step.loop(pointers, &count, strides, step.data)
        else:
            run_short_loop(step.short_loop, pointers, strides, step.count, made.size, count)


cdef inline void run_short_loop(
        int operation, char** pointers, const npy_intp* strides, int num_inputs, size_t size, npy_intp count) noexcept nogil:
    """Run a loop of short_loops.h over adjacent elements of 4 or 8 bytes; a stride of 0 repeats an element."""
    cdef int last = num_inputs - 1
    if size == sizeof(float):
        short_loop_float(operation, <float*>pointers[0], strides[0] != 0, <float*>pointers[last], strides[last] != 0,
                         <float*>pointers[num_inputs], count)
    else:
        short_loop_double(operation, <double*>pointers[0], strides[0] != 0, <double*>pointers[last], strides[last] != 0,
                          <double*>pointers[num_inputs], count)


cdef inline void _copy(
        char* source, size_t source_row, char* target, size_t target_row, size_t size, npy_intp rows) noexcept nogil:
    """Copy `size` bytes of each row; `source_row` and `target_row` are the bytes from one row to the next."""
    cdef npy_intp r
    for r in range(rows):
        memcpy(target + r * target_row, source + r * source_row, size)


cdef inline void _move(const Step* step, const Register* registers, const Register* made, npy_intp rows) noexcept nogil:
    """Copy the columns of a SLICE, or the rows of all operands of a CONCAT side by side."""
    cdef size_t size = made.size
    cdef const Register* operand
    cdef char* target = made.data
    cdef int k
    for k in range(step.count):
        operand = &registers[step.operands[k]]
        if step.code == SLICE:
            _copy(operand.data + step.start * size, operand.width * size, target, made.width * size, made.width * size, rows)
        else:
            _copy(operand.data, operand.width * size, target, made.width * size, operand.width * size, rows)
            target += operand.width * size


cdef inline void _fold(const Step* step, const Register* operand, const Register* made, npy_intp rows) noexcept nogil:
    """Join the elements of each row by the step's inner loop: SUM, MEAN and EXTREME."""
    cdef char* pointers[3]
    cdef npy_intp strides[3]
    cdef npy_intp count = operand.width
    cdef npy_intp row
    # As ufunc.reduce: operand 0 and the result are the same element, so that the loop adds up.
    strides[0], strides[1], strides[2] = 0, operand.size, 0
    for row in range(rows):
        pointers[0] = pointers[2] = made.data + row * made.size
        pointers[1] = operand.data + row * operand.width * operand.size
        if step.code == EXTREME:
            memcpy(pointers[0], pointers[1], made.size)
        else:
            memset(pointers[0], 0, made.size)
        step.loop(pointers, &count, strides, step.data)
        if step.code == MEAN and made.size == sizeof(float):
            (<float*>pointers[0])[0] = <float>(<double>(<float*>pointers[0])[0] / <double>count)
        elif step.code == MEAN:
            (<double*>pointers[0])[0] /= <double>count


cdef inline void _broadcast(const Register* operand, const Register* made, npy_intp rows) noexcept nogil:
    """Repeat a scalar, or the element of each row of a column, along the rows of the result."""
    cdef npy_intp row
    for row in range(rows):
        repeat(made.data + row * made.width * made.size, operand.data + row * operand.width * operand.size, made.size,
               made.width)


cdef inline void run_step(const Step* step, const Register* registers, const Register* made, npy_intp rows) noexcept nogil:
    """Run a step over the current block."""
    if step.code == APPLY:
        _apply(step, registers, made, rows)
    elif step.code == SIGMOID:
        logistic(registers[step.operands[0]].data, made.data, rows * made.width, made.size)
    elif step.code == BROADCAST:
        _broadcast(&registers[step.operands[0]], made, rows)
    elif step.code == SLICE or step.code == CONCAT:
        _move(step, registers, made, rows)
    else:
        _fold(step, &registers[step.operands[0]], made, rows)


cdef inline bint is_elementwise(const Step* step) noexcept nogil:
    return step.code == APPLY or step.code == SIGMOID


cdef inline bint find_width(const Step* step, const Register* registers, Register* made) noexcept nogil:
    """Set the width of a step's result; return False if the operands are incompatible.

    The same rule as `result_width` in kernels/steps.py, for the widths of a run.
    """
    cdef const Register* operand
    cdef bint has_all_rows = step.code == BROADCAST
    cdef int k
    made.width, made.by_rows = 0, False
    for k in range(step.count):
        operand = &registers[step.operands[k]]
        has_all_rows = has_all_rows or (operand.width != 0 and not operand.repeated)
        if is_elementwise(step):
            # Operands of different widths: one has to be a column, which is repeated along the rows.
            if operand.width != 0 and made.width != 0 and operand.width != made.width:
                if operand.width != 1 and made.width != 1:
                    return False
                made.by_rows = True
            made.width = max(made.width, operand.width)
        elif operand.repeated or (operand.width == 0 and step.code != BROADCAST):
            return False
        elif step.code == CONCAT:
            made.width += operand.width
        elif step.code == SLICE:
            made.width = step.stop - step.start
            if step.stop > operand.width:
                return False
        elif step.code == BROADCAST:
            made.width = step.stop
            if operand.width > 1:
                return False
        else:
            made.width = 1
    return has_all_rows and made.width > 0
