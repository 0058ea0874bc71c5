"""Reports of frames and iterations to users; and the release of all frames at once."""

from libc.stdint cimport int64_t, uint32_t

from tagloom.kernels.core.frames cimport Frame, Iteration
from tagloom.kernels.core.values cimport Value
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan

cdef str frame_path_of(Frame* frame, CompiledPlan compiled)
cdef str tag_of(Iteration* it, uint32_t node, CompiledPlan compiled)
cdef list input_shapes(Machine* m, Iteration* it, uint32_t number)
cdef list fetched(Machine* m)
cdef dict switch_outcomes(Machine* m)
cdef list dump_lines(Machine* m, CompiledPlan compiled, list active)
cdef str text_of(Value value)
cdef int64_t count_iterations(Frame* frame) noexcept
cdef object held_bytes(Machine* m)
cdef int free_frames(Machine* m) except -1
