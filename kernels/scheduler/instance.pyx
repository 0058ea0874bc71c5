"""Instance: identifies the operation, frame and iteration of a running kernel."""

from tagloom.base.tags import instance_name

from tagloom.kernels.scheduler.plan cimport CompiledPlan
from tagloom.kernels.scheduler.ready cimport Ready
from tagloom.kernels.scheduler.report cimport frame_path_of


cdef class Instance:
    """The instance of an operation for which a stateful kernel runs."""

    @property
    def tag(self):
        """The instance's name, ``node@frame/iteration``."""
        return instance_name(self.operation, self.path, self.iteration)

    def __repr__(self):
        return self.tag


cdef Instance instance_of(Ready ready, CompiledPlan compiled, object step):
    """Describe an instance to its kernel."""
    cdef Instance instance = Instance.__new__(Instance)
    instance.step = step
    instance.operation = compiled.plan.nodes[ready.node].name
    instance.frame_id = ready.iteration.frame.id
    instance.iteration = ready.iteration.number
    instance.path = frame_path_of(ready.iteration.frame, compiled)
    return instance
