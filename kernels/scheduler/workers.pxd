"""Threads for the long kernels of all steps of some sessions, without Python."""

from libc.stdint cimport int64_t, uint32_t

from tagloom.kernels.core.table cimport Node, Work
from tagloom.kernels.core.values cimport Counters, Value
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.ready cimport Ready

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t "pthread_t":
        pass
    ctypedef struct pthread_mutex_t "pthread_mutex_t":
        pass
    ctypedef struct pthread_cond_t "pthread_cond_t":
        pass


cdef double PATIENCE  # seconds for which a drain waits for the workers before a yield to the event loop


cdef struct Task:  # a kernel's work on its way; all but `work` and `begin` is guarded by the pool's lock
    Task* next  # in the line of its session, then in the inbox
    Work work
    Inbox* inbox  # for the finished task
    int taken  # parts taken up by threads
    int left  # parts not finished
    int64_t begin  # nanoseconds, time of the hand-over
    int64_t spent  # nanoseconds of all its parts together
    void* offload  # its OffloadedWork, borrowed


cdef struct Inbox:  # finished tasks of a step; guarded by the pool's lock
    Task* done
    int descriptor  # written to at the next arrival if not negative, and then set to -1
    bint waiting  # a thread waits for the next arrival
    pthread_cond_t arrival


cdef struct Line:  # the work of a session; guarded by the pool's lock
    Task* first  # tasks with parts not taken by a thread
    Task* last
    Line* next  # in the ring of lines with such tasks


cdef struct Pool:
    pthread_mutex_t lock
    pthread_cond_t offer  # there is work to take, or the pool closes
    Line* first  # the line with the next turn; NULL where no work waits, read by works under way
    Line* last
    int busy  # threads at work
    int offered  # parts not taken by a thread
    int num_threads  # threads begun
    int* cores  # core of each thread at its last part; -1 before
    bint awake  # a thread looks for work without sleeping
    bint closing


cdef class OffloadedWork:
    """An instance whose work is on its way, and the arrays read and written by the work."""

    cdef Task task
    cdef Ready ready  # iteration NULL once the step has failed
    cdef list kept  # objects used by the work: the plan, the inputs, memory for it alone
    cdef Value* outputs  # owned, `num_outputs` of them
    cdef uint32_t num_outputs
    cdef Counters* live
    cdef bint lost  # the step is gone, and a thread is still at the work


cdef OffloadedWork new_offloaded_work(Machine* m, Ready ready, const Node* node, Work* work, object compiled)
cdef int unpack(Machine* m, OffloadedWork offload) except -1


cdef class WorkerThreads:
    cdef object __weakref__
    cdef Pool* pool
    cdef pthread_t* threads
    cdef int* cores  # the pool's
    cdef readonly int count  # threads wanted
    cdef readonly int started  # threads that run
    cdef bint refused  # the system gave no threads, or they were closed
    cdef int num_inboxes  # of steps under way, of all sessions

    cdef bint start(self) except -1


cdef class Workers:
    cdef WorkerThreads threads
    cdef Pool* pool  # theirs
    cdef readonly int count  # threads wanted
    cdef readonly double nanoseconds  # least cost of work for the threads
    cdef Line line  # tasks handed over by the session's steps
    cdef Inbox orphans  # tasks of steps already gone
    cdef int vain  # waits to come without a look at the inbox before sleeping
    cdef bint is_stranded  # the threads with the session's work are in another process
    cdef set lost  # OffloadedWorks of steps already gone, with a thread still at work

    cdef int open_inbox(self, Inbox* inbox) except -1
    cdef int close_inbox(self, Inbox* inbox, set offloaded) except -1
    cdef bint _take_back(self, Task* task) noexcept nogil
    cdef Py_ssize_t _release_orphans(self) except -1
    cdef bint want(self, const Work* work, double nanoseconds, bint is_last) except -1
    cdef void submit(self, OffloadedWork offload, Inbox* inbox) noexcept
    cdef Task* collect(self, Inbox* inbox, double seconds) noexcept
    cdef void watch(self, Inbox* inbox, int64_t time) noexcept
    cdef bint arm(self, Inbox* inbox, int descriptor) noexcept
