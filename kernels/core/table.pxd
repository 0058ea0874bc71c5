"""The dense tables of a Plan: nodes, edges in CSR order, and a template for the iterations of each frame.

See docs/design/0003-step-machine.md.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from numpy cimport npy_intp

from tagloom.kernels.core.values cimport Counters, Value


cpdef enum Kind:  # the only list of kinds: Python imports this enum
    KERNEL = 0
    SWITCH = 1
    SWITCH_N = 2
    MERGE = 3
    ENTER = 4
    EXIT = 5
    NEXT_ITERATION = 6
    LOOP_COND = 7
    CONTROL_TRIGGER = 8
    IDENTITY = 9
    CONST = 10
    FEED = 11
    FETCH = 12
    SERIES_PUSH = 13
    SERIES_EXIT = 14
    TRIP_COUNT = 15
    SERIES_READ = 16
    SEND = 17
    RECV = 18


cdef enum NodeFlag:
    INVARIANT = 1  # a constant Enter
    STATEFUL = 2  # the kernel takes the instance as first argument
    AT_ONCE = 4  # taken from the stack, before the ready queue: everything but a live KERNEL
    LAST = 8  # a SERIES_READ, the only reader of its slot
    DEAD_SILENT = 16  # a SEND without a message when dead; its RECV, which then waits for its leader only; a SWITCH
                      # which sends nothing to its output 0 when it chooses the other output
    SWAPPABLE = 32  # a SERIES_PUSH of a loop whose saved values may leave the device's memory
    HOST_BACKED = 64  # SERIES_PUSH: saved values may leave if they are rows already in host memory
    DETACHED = 128  # a KERNEL which only computes: any thread may call its Python kernel


cdef struct Type:
    PyObject* descr  # numpy.dtype, borrowed from CompiledPlan.dtypes; NULL for handles and series
    int32_t number  # NumPy type number, -1 without descr
    uint32_t itemsize  # bytes of an element, 0 without descr
    uint8_t size  # bytes of an element if unboxed on edges, else 0
    uint8_t is_signed  # a signed integer
    uint8_t any_library  # its arrays may be of another library than NumPy


cdef struct Pending:
    uint16_t waiting  # inputs to come, controls included; Merge: 2 for each control, 1 until a live input came
    uint16_t dead  # dead inputs so far; Merge: dead data inputs only, all of them once an Enter was dead


cdef struct Edge:
    uint32_t node  # consumer
    uint32_t place  # the consumer's position in Iteration.pending
    uint32_t slot  # where in Iteration.slots the value goes; unused on control edges
    uint8_t kind  # Kind of the consumer
    uint8_t flags  # NodeFlag of the consumer
    uint8_t from_enter  # whether the producer is an Enter (rule 11)


# Pointers to the operands, number of elements, strides in bytes, data. Called with the GIL held: it may set an error.
ctypedef void (*Loop)(char**, const npy_intp*, const npy_intp*, void*) noexcept nogil


cdef struct Node
cdef struct Table

# Does part `part` of `parts` of a kernel's work; accesses only the memory to which the arguments point, and the last
# of them.
ctypedef void (*Compute)(const void* arguments, int part, int parts) noexcept nogil

cdef enum:
    MOST_ARGUMENTS = 128
    LOST = MOST_ARGUMENTS - 5  # set by another thread once nobody waits for the work any more; 0 before
    QUEUE = MOST_ARGUMENTS - 4  # on a thread of a pool: address of the pointer to other work, NULL if none waits; or 0
    UNFINISHED = MOST_ARGUMENTS - 3  # borrowed from Work.kept: object for the kernel's next call, or 0
    DECLINED = MOST_ARGUMENTS - 2  # not 0: the inputs need the Python kernel, as found while computing
    RESULT = MOST_ARGUMENTS - 1  # the result, if unboxed


cdef struct Work:  # work left by a C kernel after making its outputs
    Compute compute  # NULL: nothing
    double cost  # expected nanoseconds on one core
    int parts  # most parts, then the chosen number; never chosen by timing, on which results must not depend
    PyObject* kept  # owned: an object whose memory the arguments point to, or NULL
    uint64_t arguments[MOST_ARGUMENTS]


# Node, its inputs, its outputs (EMPTY), work to be left (empty; or with the object kept by an earlier call).
# Returns 1 when the outputs are there, or will be in a later call; 0 with nothing done if the inputs want the Python kernel.
ctypedef int (*Native)(const Table*, const Node*, Value*, Counters*, Value*, Work*) except -1

cdef enum:
    NUM_PARAMS = 4


cdef struct Node:
    uint8_t kind  # a Kind
    uint8_t flags  # NodeFlag bits
    uint16_t num_outputs
    uint32_t num_inputs  # data inputs; 1 for SERIES_EXIT and TRIP_COUNT, given by the end of their frame, and for
                         # RECV, the received value
    uint32_t frame  # whose iterations hold its inputs
    uint32_t slot  # its first input in Iteration.slots
    uint32_t place  # its position in Iteration.pending
    uint32_t input  # its first input in Table.input_types
    uint32_t output  # its first output in Table.output_types; output o has the edges from starts[output + o] on
    uint32_t control  # its control edges are controls[control] to controls[control_end]
    uint32_t control_end
    uint32_t child  # ENTER: the entered frame; SERIES_EXIT, TRIP_COUNT: the reported frame
    int32_t index  # CONST, FEED, FETCH, series, channel: which; EXIT, NEXT_ITERATION, constant ENTER: rank in its frame;
                   # root SWITCH: rank
    PyObject* kernel  # borrowed from CompiledPlan.kernels; NULL if not a KERNEL
    Loop loop  # NumPy inner loop, or NULL
    void* loop_data  # its last argument
    double loop_cost  # nanoseconds for an element, about
    bint loop_raises  # whether the loop may set an error, which needs the GIL
    Native native  # C kernel, or NULL
    double pace  # measured time of its work, in proportion to the estimate
    double python_pace  # nanoseconds of its Python kernel for a byte; a high guess until measured
    PyObject* elements  # borrowed from CompiledPlan.kernels: returns a result's elements beyond the inputs'; or NULL
    int64_t made_bytes  # of its outputs, -1 where their shapes are not known
    PyObject* name  # str, borrowed from the plan
    int64_t params[NUM_PARAMS]  # settings of the C kernel from the operation's attributes


cdef struct Link:
    Link* next  # next free block of a pool; first field of everything pooled


cdef struct LoopCounts:  # of the steps since the last step which ran alone
    int64_t runs  # live frame instances
    int64_t starts  # iterations started in them
    int64_t alive  # sum over `starts` of the iterations then alive, the new one included
    int64_t most  # largest number of iterations alive at a start
    int64_t held_back  # iterations ready to start while the window was full
    int64_t launches  # asynchronous instances started in them, inner loops included
    int64_t awaited  # sum over `launches` of the asynchronous instances then in flight, itself included
    int64_t queued  # sum over `starts` of the kernels then ready
    int64_t blocked_on_memory  # iterations ready to start without enough memory


cdef struct FrameType:
    uint64_t name_hash  # of its static name
    uint32_t parent  # frame around it; the root's own is 0
    uint32_t rank  # position among the parent's children
    uint32_t num_children  # frames directly inside it
    uint32_t window  # most iterations alive at once, >= 1
    uint32_t num_enters  # Enter nodes into this frame
    uint32_t num_invariants  # constant ones among them
    uint32_t num_nexts  # NextIteration nodes
    uint32_t num_exits  # Exit nodes
    uint32_t num_series
    uint32_t num_nodes  # length of Iteration.pending
    uint32_t num_slots  # length of Iteration.slots
    Pending* template  # pending counts of a new iteration, from which they are copied; owned by the Arena
    uint32_t* exits  # node of each Exit by rank; owned by the Arena
    uint32_t* finals  # SERIES_EXIT and TRIP_COUNT nodes; owned by the Arena
    uint32_t num_finals
    bint backward  # reads values saved by another loop
    LoopCounts counts
    int64_t* last  # by rank: how often this NextIteration was its iteration's last; owned by the Arena
    Link* free_frames  # pool of Frame blocks, freed with the CompiledPlan
    Link* free_iterations  # pool of Iteration blocks; all slots EMPTY


cdef struct Table:  # every array is owned by the Arena of the CompiledPlan
    uint32_t num_nodes
    uint32_t num_frames
    uint32_t num_feeds
    uint32_t num_fetches
    uint32_t num_switches  # Switch and SwitchN nodes of the root frame
    uint32_t most_inputs  # of any node
    uint32_t most_outputs  # of any node
    uint32_t num_constants
    Node* nodes
    uint32_t* starts  # CSR offsets into `edges`, for each output, and the end
    Edge* edges  # data edges
    Edge* controls  # control edges
    Type* types
    uint16_t* input_types  # index into `types` for each data input of each node
    uint16_t* output_types  # index into `types` for each output of each node
    Value* constants  # owned: one reference each, dropped by CompiledPlan
    uint16_t* feed_types  # index into `types`
    uint16_t* fetch_types  # index into `types`
    FrameType* frames
    double at_once  # nanoseconds below which a kernel does its work at once, instead of leaving it as work
    bint reuse  # whether a result may be written into an input held only by its instance
    uint32_t* roots  # nodes without inputs to wait for
    uint32_t num_roots


cdef int describe_type(Type* type, object dtype) except -1


cdef inline Type* input_type(const Table* table, const Node* node, uint32_t i) noexcept nogil:
    """Return the element type of data input `i` of a node."""
    return &table.types[table.input_types[node.input + i]]


cdef inline Type* output_type(const Table* table, const Node* node, uint32_t i) noexcept nogil:
    """Return the element type of output `i` of a node."""
    return &table.types[table.output_types[node.output + i]]


cdef enum:
    STRING = 2056  # NumPy's type number of strings, above the numbers of users' types


cdef inline bint is_floating(const Type* type) noexcept nogil:
    """Return True if elements are floating or complex: NumPy's own, or of a user's type such as bfloat16."""
    return 11 <= type.number <= 16 or type.number == 23 or 256 <= type.number < STRING
