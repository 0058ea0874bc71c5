"""Machine code for runs: its compilation, and its use by all runs with the same steps.

Code takes over between two slices, wherever the steps are suspended then. Runs with the same signature share code.
"""

from libc.stdint cimport int64_t, uint64_t

from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.native.compiled cimport CompiledProgram
from tagloom.kernels.native.listing cimport Listing, list_steps
from tagloom.kernels.native.listing import LAYOUT
from tagloom.kernels.native.run cimport Code, Run

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int)

cdef int64_t SOMETIMES = 300000  # nanoseconds after which an event loop yields to a thread that compiles
cdef int64_t _given_way = 0

cdef enum:
    MOST_SIGNATURES = 8  # of a program; others run step by step
    MOST_STEPS = 150  # of a run: LLVM takes the square of them, a tenth of a second for these


cdef int use_code(Run run) except -1:
    """Continue a run in machine code, if there is some for its steps; request compilation if the program runs long."""
    cdef CompiledProgram program = run.program
    cdef object after = program.program.compile_after
    if run.execution.is_settled:
        return 0
    if after is None:
        run.execution.is_settled = True
        return 0
    program.spent += run.execution.spent
    run.execution.spent = 0
    if not run.is_listed and program.spent >= 1e9 * <double>after and run.num_steps <= MOST_STEPS:
        run.is_listed, run.compilation = True, _compilation_for(run)
    if run.compilation is not None:
        run.execution.is_settled = run.compilation.is_over  # asked first: the last code is there then
        run.execution.code = <Code><uint64_t>run.compilation.address
        if not run.execution.is_settled:
            _give_way()
    else:
        run.execution.is_settled = run.is_listed or run.num_steps > MOST_STEPS
    return 0


cdef int _give_way() except -1:
    """Release the interpreter lock for a moment, for a compiling thread, which needs the lock for each of its calls of
    LLVM.

    Consecutive short runs never release the lock by themselves, except once in 5 ms, the longest wait of a thread;
    only a pause is long enough for the thread to wake up.
    """
    global _given_way
    if nanoseconds() - _given_way > SOMETIMES:
        with nogil:
            usleep(1)  # which takes some fifty microseconds
        _given_way = nanoseconds()
    return 0


cdef object _compilation_for(Run run):
    """Return the Compilation shared by all runs with the same steps, or None beyond the limit of compilations."""
    cdef CompiledProgram program = run.program
    cdef Listing listing = list_steps(run)
    for known, compilation in program.compilations:
        if known == listing.signature:
            return compilation
    if len(program.compilations) == MOST_SIGNATURES:
        return None
    from tagloom.kernels.native.jit.compilation import Compilation  # when it is wanted: most processes compile nothing

    compilation = Compilation(program.program.name, listing.steps(), LAYOUT)
    program.compilations.append((listing.signature, compilation))
    compilation.begin(at_once=program.program.compile_after == 0)
    return compilation
