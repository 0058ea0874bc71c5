"""Threads for the long kernels of all steps of some sessions, without Python.

A kernel too long for the event loop prepares its outputs and leaves the rest as a Work: a C function over plain memory,
perhaps in several parts. The threads take a part of each session in turn, and the parts of a session in the order of
their submission. Finished tasks go to the inbox of their step. The step looks there while draining, waits there for a
moment when idle, or is notified through a file descriptor watched by its event loop.

A step ending early takes back parts not taken up; its arrays stay until the threads are done with the others.

See docs/design/0006-cores.md and docs/design/0046-sessions-that-share.md.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.time cimport timespec
from posix.unistd cimport write

import logging

from tagloom.kernels.core.clock cimport nanoseconds
from tagloom.kernels.core.cost cimport correct
from tagloom.kernels.core.table cimport LOST, QUEUE, UNFINISHED, Node, Work
from tagloom.kernels.core.values cimport OBJECT, Value, drop, pointer, take
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.cores cimport (
    deadline_in, look_for, tagloom_ask_for_long_slices, tagloom_core, tagloom_leave, tagloom_note,
)
from tagloom.kernels.scheduler.ready cimport Ready

cdef extern from "Python.h":
    void Py_CLEAR(PyObject*)

cdef extern from "<pthread.h>" nogil:
    int pthread_create(pthread_t*, void*, void* (*)(void*) noexcept nogil, void*)
    int pthread_join(pthread_t, void**)
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, void*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_cond_broadcast(pthread_cond_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*)

PATIENCE = 2e-4
cdef int64_t AWAKE = 100000  # nanoseconds for which a thread looks for more work before sleeping
cdef int64_t SETTLED = 10000000  # least nanoseconds of a thread on a core between two moves
cdef int LONE = 10  # how many times as long a kernel must take while nothing else can go on
cdef int IN_VAIN = 100  # waits without a look at the inbox, after a look in vain

_logger = logging.getLogger("tagloom")


def ask_for_long_slices():
    """Allow the event loop's thread to preempt the calling thread as soon as it wakes up."""
    tagloom_ask_for_long_slices()


@cython.no_gc_clear  # a thread may be at work on the objects in `kept`
cdef class OffloadedWork:
    """An instance whose work is on its way, and the arrays read and written by the work."""

    def __dealloc__(self):
        for o in range(self.num_outputs):
            drop(self.live, &self.outputs[o])
        free(self.outputs)


cdef OffloadedWork new_offloaded_work(Machine* m, Ready ready, const Node* node, Work* work, object compiled):
    """Return the OffloadedWork of an instance, which owns the objects of the work and, from now on, the outputs."""
    cdef OffloadedWork offload = OffloadedWork()
    cdef uint32_t i
    offload.ready, offload.live = ready, m.live
    offload.task.work = work[0]
    offload.kept = [compiled]
    if work.kept != NULL:
        offload.kept.append(<object>work.kept)
        Py_CLEAR(work.kept)
    for i in range(node.num_inputs):
        if ready.iteration.slots[node.slot + i].form == OBJECT:
            offload.kept.append(<object>pointer(ready.iteration.slots[node.slot + i]))
    offload.outputs = <Value*>calloc(node.num_outputs, sizeof(Value))
    if offload.outputs == NULL:
        raise MemoryError()
    offload.num_outputs = node.num_outputs
    for i in range(node.num_outputs):
        offload.outputs[i] = take(&m.outputs[i])
    return offload


cdef int unpack(Machine* m, OffloadedWork offload) except -1:
    """Move the outputs made by a worker to the machine; note how well the cost was estimated."""
    cdef Node* node = &m.table.nodes[offload.ready.node]
    cdef uint32_t o
    for o in range(offload.num_outputs):
        m.outputs[o] = take(&offload.outputs[o])
    correct(node, &offload.task.work, offload.task.spent)
    return 0


cdef class WorkerThreads:
    """Threads shared by sessions; they start with the first work.

    Parameters
    ----------
    count : int
        Number of threads, at least 1.
    """

    def __cinit__(self, int count):
        if count < 1:
            raise ValueError(f"wanted at least 1 thread, got {count}")
        self.count = count
        self.threads = <pthread_t*>calloc(count, sizeof(pthread_t))
        self.pool = <Pool*>calloc(1, sizeof(Pool))
        self.cores = <int*>calloc(count, sizeof(int))
        if self.threads == NULL or self.pool == NULL or self.cores == NULL:
            raise MemoryError()
        self.pool.cores = self.cores
        pthread_mutex_init(&self.pool.lock, NULL)
        pthread_cond_init(&self.pool.offer, NULL)

    def __dealloc__(self):
        if self.pool != NULL:
            self.close()
            pthread_cond_destroy(&self.pool.offer)
            pthread_mutex_destroy(&self.pool.lock)
        free(self.pool)
        free(self.cores)
        free(self.threads)

    @property
    def busy(self):
        """Number of threads at work."""
        return self.pool.busy

    def close(self):
        """End the threads after their present parts; parts not taken up stay where they are."""
        cdef int i, started = self.started
        self.started, self.refused = 0, True
        with nogil:
            pthread_mutex_lock(&self.pool.lock)
            self.pool.closing = True
            pthread_cond_broadcast(&self.pool.offer)
            pthread_mutex_unlock(&self.pool.lock)
            for i in range(started):
                pthread_join(self.threads[i], NULL)

    def begin_anew(self):
        """Reset to no threads and no work, in a process forked from the owner of the threads.

        The threads start again with the first work. The lock is made anew, as a thread of the parent may hold it.
        """
        pthread_mutex_init(&self.pool.lock, NULL)
        pthread_cond_init(&self.pool.offer, NULL)
        self.pool.first = self.pool.last = NULL
        self.pool.busy = self.pool.offered = self.pool.num_threads = 0
        self.pool.awake = False
        self.started = self.num_inboxes = 0

    cdef bint start(self) except -1:
        """Start the threads unless they run; return True if there are any."""
        if self.started or self.refused:
            return self.started != 0
        while self.started < self.count:
            if pthread_create(&self.threads[self.started], NULL, _serve, self.pool) != 0:
                break
            self.started += 1
        self.refused = self.started == 0
        if self.refused:
            _logger.warning("the system gives no threads: all kernels run on the event loop")
        return self.started != 0


@cython.no_gc  # else a collection could free a task at work in a thread; nothing referred to here refers back
cdef class Workers:
    """A session's part of the threads: its line of work, and the work left by its steps.

    Parameters
    ----------
    threads : WorkerThreads
    seconds : float
        Least expected time of a kernel for the threads.
    """

    def __cinit__(self, WorkerThreads threads not None, double seconds):
        self.threads, self.pool, self.count = threads, threads.pool, threads.count
        self.nanoseconds = 1e9 * seconds
        self.lost = set()
        _open(&self.orphans)

    def __dealloc__(self):
        """Wait for the orphans, whose arrays end with this object. No step is left, so nothing else is in line."""
        if self.pool == NULL:
            return
        while self._release_orphans() > 0:
            with nogil:
                pthread_mutex_lock(&self.pool.lock)
                while self.orphans.done == NULL:
                    self.orphans.waiting = True
                    pthread_cond_wait(&self.orphans.arrival, &self.pool.lock)
                self.orphans.waiting = False
                pthread_mutex_unlock(&self.pool.lock)
        pthread_cond_destroy(&self.orphans.arrival)

    @property
    def started(self):
        """Number of running threads."""
        return self.threads.started

    @property
    def busy(self):
        """Number of threads at work, for whichever session."""
        return self.threads.busy

    @property
    def orphaned(self):
        """Number of kernels at work for steps already gone; the arrays of finished kernels are released."""
        return self._release_orphans()

    cdef Py_ssize_t _release_orphans(self) except -1:
        """Release the arrays of ended orphans; return the number of orphans still at work."""
        cdef Task* task = self.collect(&self.orphans, 0)
        while task != NULL:
            offload = <OffloadedWork>task.offload
            task = task.next
            self.lost.discard(offload)
        return len(self.lost)

    def notify(self, int descriptor):
        """Ask for a write to a descriptor when the next orphan ends; return False, doing nothing, if there is none."""
        while self.orphaned > 0:
            if self.arm(&self.orphans, descriptor):
                return True
        return False

    def strand(self):
        """Forget the session's work, in a process forked from the owner of the threads; none is done here."""
        self.is_stranded = True
        self.line.first = self.line.last = NULL
        _open(&self.orphans)
        self.lost.clear()

    cdef int open_inbox(self, Inbox* inbox) except -1:
        """Prepare the inbox of a step."""
        _open(inbox)
        self.threads.num_inboxes += 1
        return 0

    cdef int close_inbox(self, Inbox* inbox, set offloaded) except -1:
        """Take back OffloadedWork not taken up by a thread; work under way becomes an orphan."""
        cdef list pending = list(offloaded)
        cdef Py_ssize_t i
        if self.is_stranded:
            return 0  # the threads with the work are the parent's
        self.threads.num_inboxes -= 1
        pthread_mutex_lock(&self.pool.lock)  # no object is made while locked: a collection might come back here
        inbox.descriptor = -1
        inbox.done = NULL
        for i in range(len(pending)):
            (<OffloadedWork>pending[i]).lost = self._take_back(&(<OffloadedWork>pending[i]).task)
        pthread_mutex_unlock(&self.pool.lock)
        pthread_cond_destroy(&inbox.arrival)
        for offload in pending:
            if (<OffloadedWork>offload).lost:
                self.lost.add(offload)
        return 0

    cdef bint _take_back(self, Task* task) noexcept nogil:
        """Take the parts not taken by a thread out of the line; return True if parts are left at threads, whose task
        is then an orphan.
        """
        cdef Task** place = &self.line.first
        cdef Task* before = NULL
        task.inbox = &self.orphans
        tagloom_note(&task.work.arguments[LOST])
        if task.taken == task.work.parts:
            return task.left != 0
        while place[0] != task:
            before = place[0]
            place = &before.next
        place[0] = task.next
        if self.line.last == task:
            self.line.last = before
        if self.line.first == NULL:
            _leave_ring(self.pool, &self.line)
        self.pool.offered -= task.work.parts - task.taken
        task.left -= task.work.parts - task.taken
        task.work.parts = task.taken
        return task.left != 0

    cdef void submit(self, OffloadedWork offload, Inbox* inbox) noexcept:
        """Hand over to the threads an OffloadedWork, which must stay alive until collected."""
        cdef Task* task = &offload.task
        cdef bint seen  # by an awake thread
        task.offload = <void*>offload
        task.inbox = inbox
        task.next = NULL
        task.taken = 0
        task.left = task.work.parts
        task.begin = nanoseconds()
        task.spent = 0
        task.work.arguments[QUEUE] = <uint64_t>&self.pool.first
        pthread_mutex_lock(&self.pool.lock)
        self.pool.offered += task.left
        seen = self.pool.awake and self.pool.first == NULL
        if self.line.last == NULL:
            self.line.first = task
            _join_ring(self.pool, &self.line)
        else:
            self.line.last.next = task
        self.line.last = task
        if not seen:
            pthread_cond_signal(&self.pool.offer)
        pthread_mutex_unlock(&self.pool.lock)

    cdef bint want(self, const Work* work, double nanoseconds, bint is_last) except -1:
        """Return True if work of an expected time is worth handing over; the threads run then.

        Where nothing else of its step can go on (`is_last`) and no other step is under way, waking up a thread takes as
        long as many a kernel. So the drain does works of a single part, and works which can be left unfinished.
        """
        cdef bint is_alone = is_last and self.threads.num_inboxes <= 1
        cdef bint is_lone = is_alone and (work.parts == 1 or work.arguments[UNFINISHED] != 0)
        if self.is_stranded or nanoseconds < self.nanoseconds * (LONE if is_lone else 1):
            return False
        return self.threads.start()

    cdef Task* collect(self, Inbox* inbox, double seconds) noexcept:
        """Return the finished tasks, in a list; wait for the first for some time."""
        cdef timespec end
        cdef Task* done
        if seconds > 0 and self.pool.busy + self.pool.offered < self.count:  # there may be a free core
            self.watch(inbox, <int64_t>(1e9 * seconds))
        pthread_mutex_lock(&self.pool.lock)
        if inbox.done == NULL and seconds > 0:
            with nogil:
                deadline_in(seconds, &end)
                inbox.waiting = True
                while inbox.done == NULL and pthread_cond_timedwait(&inbox.arrival, &self.pool.lock, &end) == 0:
                    pass
                inbox.waiting = False
                done = inbox.done
                inbox.done = NULL
                pthread_mutex_unlock(&self.pool.lock)  # before the interpreter's, which other threads may hold
            return done
        done = inbox.done
        inbox.done = NULL
        pthread_mutex_unlock(&self.pool.lock)
        return done

    cdef void watch(self, Inbox* inbox, int64_t time) noexcept:
        """Look at an inbox for some time before sleeping; after a look in vain, not for the next times."""
        if self.vain > 0:
            self.vain -= 1
            return
        with nogil:
            look_for(<void**>&inbox.done, time, False)
        if inbox.done == NULL and time > AWAKE:
            self.vain = IN_VAIN

    cdef bint arm(self, Inbox* inbox, int descriptor) noexcept:
        """Ask for a write to a descriptor at the next arrival; return False, with nothing asked, if a task has arrived
        already.
        """
        cdef bint empty
        pthread_mutex_lock(&self.pool.lock)
        empty = inbox.done == NULL
        inbox.descriptor = descriptor if empty else -1
        pthread_mutex_unlock(&self.pool.lock)
        return empty


cdef inline void _keep_apart(Pool* pool, int number, int64_t now, int64_t* moved) noexcept nogil:
    """Move a thread off a core where another thread ran last.

    Linux leaves threads with common sleep and wake-up times on the same core for many steps, though others are idle.
    """
    cdef int core = tagloom_core(), i
    pool.cores[number] = core
    for i in range(pool.num_threads):
        if i != number and pool.cores[i] == core and core >= 0 and now - moved[0] > SETTLED:
            pool.cores[number] = -1
            tagloom_leave(pool.cores, pool.num_threads)
            pool.cores[number] = tagloom_core()
            moved[0] = now
            return


cdef void* _serve(void* argument) noexcept nogil:
    """Do parts of tasks until the pool closes."""
    cdef Pool* pool = <Pool*>argument
    cdef Task* task
    cdef int part, parts, number
    cdef int64_t begin, moved = 0
    tagloom_ask_for_long_slices()
    pthread_mutex_lock(&pool.lock)
    number = pool.num_threads
    pool.num_threads += 1
    pool.cores[number] = -1
    while True:
        if pool.first == NULL and not pool.awake:  # one thread looks a while before sleeping: waking up takes longer
            pool.awake = True
            pthread_mutex_unlock(&pool.lock)
            look_for(<void**>&pool.first, AWAKE, True)
            pthread_mutex_lock(&pool.lock)
            pool.awake = False
        while pool.first == NULL and not pool.closing:
            pthread_cond_wait(&pool.offer, &pool.lock)
        if pool.closing:
            break
        task = pool.first.first
        part, parts = task.taken, task.work.parts
        task.taken += 1
        pool.offered -= 1
        pool.busy += 1
        _rotate(pool, task.taken == parts)
        if pool.first != NULL:  # the next thread wakes up while this thread is on its core, and so takes another core
            pthread_cond_signal(&pool.offer)
        pthread_mutex_unlock(&pool.lock)
        begin = nanoseconds()
        _keep_apart(pool, number, begin, &moved)
        task.work.compute(task.work.arguments, part, parts)
        begin = nanoseconds() - begin
        pthread_mutex_lock(&pool.lock)
        pool.busy -= 1
        if part == 0 or task.work.arguments[UNFINISHED] == 0:  # else a helper, which mostly waits
            task.spent += begin
        task.left -= 1
        if task.left == 0:
            _arrive(task)
    pthread_mutex_unlock(&pool.lock)
    return NULL


cdef inline int _open(Inbox* inbox) except -1:
    """Make an empty inbox."""
    inbox.done, inbox.descriptor, inbox.waiting = NULL, -1, False
    if pthread_cond_init(&inbox.arrival, NULL):
        raise MemoryError()
    return 0


cdef inline void _join_ring(Pool* pool, Line* line) noexcept nogil:
    """Add a line with new work at the end of the ring of sessions."""
    line.next = NULL
    if pool.last == NULL:
        pool.first = line
    else:
        pool.last.next = line
    pool.last = line


cdef inline void _leave_ring(Pool* pool, Line* line) noexcept nogil:
    """Take out a line without work."""
    cdef Line** place = &pool.first
    cdef Line* before = NULL
    while place[0] != line:
        before = place[0]
        place = &before.next
    place[0] = line.next
    if pool.last == line:
        pool.last = before


cdef inline void _rotate(Pool* pool, bint is_taken) noexcept nogil:
    """Move on to the next session; the first task of this session leaves its line if all its parts are taken."""
    cdef Line* line = pool.first
    if is_taken:
        line.first = line.first.next
        if line.first == NULL:
            line.last = NULL
    if line.first != NULL and pool.last == line:
        return  # no other session has work
    _leave_ring(pool, line)
    if line.first != NULL:
        _join_ring(pool, line)


cdef inline void _arrive(Task* task) noexcept nogil:
    """Put a finished task into its inbox and notify the step waiting there."""
    cdef Inbox* inbox = task.inbox
    cdef int64_t one = 1
    task.next = inbox.done
    inbox.done = task
    if inbox.waiting:
        pthread_cond_signal(&inbox.arrival)
    if inbox.descriptor >= 0:
        write(inbox.descriptor, &one, sizeof(one))  # has room: written to only once for each `arm`
        inbox.descriptor = -1
