"""Steps to call the Python kernels of operations, for operations without a C kernel for the arrays of a run.

A call takes the interpreter's lock, on whichever thread walks over the steps, and copies the results to memory of the
run. The program gives up if a kernel raises an error, or returns arrays of other shapes than at the beginning; also
for a long kernel, which the step machine calls in a thread, beside others.

See docs/design/0057-no-cliffs.md.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from numpy cimport PyArray_NBYTES, ndarray

import _thread
from time import thread_time_ns

import numpy as np

from tagloom.kernels.memory.contexts import KernelContexts

from tagloom.kernels.core.convert cimport box
from tagloom.kernels.core.cost cimport LARGE, decline, keep, leave
from tagloom.kernels.core.table cimport Work
from tagloom.kernels.core.values cimport Value, object_value, pointer
from tagloom.kernels.cpu.arrays cimport new_array
from tagloom.kernels.memory.contexts cimport is_inside
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport LONG_STEP, Refusal, Run, type_of

cnp.import_array()

_contexts = KernelContexts()  # of threads that walk over steps; arrays there are in NumPy's own memory

cdef enum:
    QUICK = 2000  # nanoseconds that a call is expected to take on small arrays
    SLOW = 1000000  # nanoseconds of a core for a call that is better made in a thread, beside other operations
    ENOUGH = 100000000  # nanoseconds of slow calls after which a kernel counts as slow: the first ones often are
    FEWEST = 3  # slow calls


cdef class Call:
    """The call of an operation's kernel in each iteration of a run.

    Attributes
    ----------
    inputs, outputs : list of numpy.ndarray
        Arrays over memory of the run.
    reason : str or None
        Why the program has to give up.
    """

    cdef str name
    cdef object kernel
    cdef list inputs
    cdef list outputs
    cdef str reason
    cdef bint is_quick  # a call was quick
    cdef int64_t calls  # before that
    cdef int64_t spent  # nanoseconds of a core in them

    cdef bint run(self) except -1:
        """Call the kernel and copy its results; return False if they do not fit, or take long."""
        cdef int64_t begin = 0 if self.is_quick else thread_time_ns()
        result = self.kernel(*self.inputs) if is_inside() else _contexts.run(self.kernel, *self.inputs)
        results = (result,) if len(self.outputs) == 1 else result
        for made, value in zip(self.outputs, results, strict=True):
            array = np.asarray(value)
            if array.dtype != made.dtype or array.shape != made.shape:
                self.reason = f"{self.name} returned {array.dtype} {array.shape}, not {made.dtype} {made.shape}"
                return False
            made[...] = array
        return self.is_quick or self._may_be_quick(thread_time_ns() - begin)

    cdef bint _may_be_quick(self, int64_t spent) except -1:
        """Note the time of a call; return False once enough of them were slow, and none quick."""
        self.is_quick = spent <= SLOW
        self.calls += 1
        self.spent += spent
        if not self.is_quick and self.calls >= FEWEST and self.spent > ENOUGH:
            self.reason = f"{self.name} takes {1e-6 * spent:.1f} ms, and is better called in a thread"
            return False
        return True


cdef bint leave_call(Run run, const Instruction* each, const Value* inputs, Value* outputs, Work* work) except -1:
    """Leave the call of an operation's kernel as work; return False if the program has no kernel for the operation.

    Raises
    ------
    Refusal
        If the shapes of the results depend on values of this iteration.
    """
    cdef object computation = run.program.source_of(each).computation
    cdef int64_t size = 0
    cdef Call call
    cdef int k
    if computation.kernel is None:
        return False
    call = Call()
    call.name, call.kernel = computation.name, computation.kernel.bound_to(np)
    call.inputs = [box(inputs[k], type_of(run, each.inputs[k])) for k in range(each.num_inputs)]
    known = [each_input if run.registers[each.inputs[k]].is_known else None for k, each_input in enumerate(call.inputs)]
    shapes = computation.kernel.output_shapes([array.shape for array in call.inputs], known)
    if shapes is None:
        raise Refusal(f"{computation.name}: the shape that {computation.type} returns depends on a value that changes")
    call.outputs = [_new_output(run, each, k, shapes[k], &outputs[k]) for k in range(each.num_outputs)]
    for array in (*call.inputs, *call.outputs):
        size += PyArray_NBYTES(<ndarray>array)
    keep(work, <PyObject*>call)
    work.arguments[0] = <uint64_t><PyObject*>call
    leave(work, _make_call, QUICK if size < LARGE else LONG_STEP, 1)
    run.calls.append(call)
    return True


cdef object _new_output(Run run, const Instruction* each, int k, tuple shape, Value* place):
    """Return a new array for an output of a kernel."""
    cdef cnp.npy_intp dims[cnp.NPY_MAXDIMS]
    cdef int d
    for d in range(len(shape)):
        dims[d] = shape[d]
    new_array(&run.held, type_of(run, each.outputs[k]), len(shape), dims, place)
    return <object>pointer(place[0])


cdef void _make_call(const void* arguments, int part, int parts) noexcept nogil:
    with gil:
        if not _is_made(<Call><void*>(<const uint64_t*>arguments)[0]):
            decline(arguments)


cdef bint _is_made(Call call) noexcept:
    """Return True after a call without an error; errors are raised by the step machine, which calls the kernel anew."""
    try:
        return call.run()
    except Exception as error:
        call.reason = f"{call.name} raised {type(error).__name__}"
    except BaseException:  # of a signal's handler: raised again on the main thread
        _thread.interrupt_main()
    return False


cdef str reason_of_calls(Run run):
    """Return why a call of a run has made the run give up, or None."""
    cdef Call call
    for call in run.calls:
        if call.reason is not None:
            return call.reason
    return None


cdef tuple names_of_calls(Run run):
    """Return the names of the operations whose kernels a run calls."""
    return tuple([(<Call>call).name for call in run.calls])
