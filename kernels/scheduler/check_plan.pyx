"""Check the properties of a plan on which the step machine relies, before tables are built.

These are properties of tables, not of programs: the passes of the compiler check programs and explain their
errors to users. Here a violation is a bug of the compiler, and would otherwise be a wild pointer.
"""

from tagloom.kernels.core.table import Kind

_SINGLE_INPUT = (Kind.ENTER, Kind.EXIT, Kind.NEXT_ITERATION, Kind.LOOP_COND, Kind.IDENTITY, Kind.FETCH, Kind.SEND)
_FIXED_INPUTS = {
    **dict.fromkeys(_SINGLE_INPUT, (1,)),
    **dict.fromkeys((Kind.SWITCH, Kind.SWITCH_N, Kind.SERIES_READ), (2,)),
    **dict.fromkeys((Kind.CONST, Kind.FEED, Kind.CONTROL_TRIGGER, Kind.RECV), (0,)),
    Kind.SERIES_PUSH: (1, 2),
}
_ONE_OUTPUT = (
    Kind.ENTER, Kind.EXIT, Kind.NEXT_ITERATION, Kind.LOOP_COND, Kind.IDENTITY, Kind.CONST, Kind.FEED,
    Kind.SERIES_PUSH, Kind.SERIES_EXIT, Kind.TRIP_COUNT, Kind.SERIES_READ, Kind.RECV,
)
_FINALS = (Kind.SERIES_EXIT, Kind.TRIP_COUNT)
_LOOP_ONLY = (Kind.EXIT, Kind.NEXT_ITERATION, Kind.SERIES_PUSH, *_FINALS)
_MOST = (1 << 15) - 1


def check(plan):
    """Raise an error for a plan that the tables cannot hold.

    Raises
    ------
    ValueError
        Naming the node or frame and its fault.
    """
    _check_frames(plan)
    for i in range(len(plan.nodes)):
        _check_node(plan, i)
    _check_edges(plan)


def _require(condition, who, what):
    if not condition:
        raise ValueError(f"{who}: {what}")


def _check_frames(plan):
    _require(plan.frames and plan.frames[0].parent == -1, "plan", "frame 0 is not a root")
    enters = [0] * len(plan.frames)
    for node in plan.nodes:
        if node.kind == Kind.ENTER:
            _require(0 < node.child < len(plan.frames), node.name, "leads to no frame")
            enters[node.child] += 1
    for f in range(1, len(plan.frames)):
        frame = plan.frames[f]
        _require(0 <= frame.parent < len(plan.frames) and frame.parent != f, frame.name, "has no parent frame")
        _require(frame.parallel_iterations >= 1, frame.name, "parallel_iterations must be a positive integer")
        _require(frame.num_enters == enters[f] > 0, frame.name, f"has {enters[f]} Enters, says {frame.num_enters}")
        for i in frame.finals:
            node = plan.nodes[i]
            _require(node.kind in _FINALS and node.frame == f, node.name, "is not a final of this frame")


def _check_node(plan, i):
    node = plan.nodes[i]
    _require(0 <= node.frame < len(plan.frames), node.name, "is in no frame")
    _require(node.num_inputs <= _MOST and node.num_controls <= _MOST // 2, node.name, "has too many inputs")
    _require(len(plan.data_edges[i]) == len(node.outputs), node.name, "has edges for other outputs than its own")
    _require(node.num_inputs in _FIXED_INPUTS.get(node.kind, (node.num_inputs,)), node.name, "has a wrong input count")
    _require(node.num_inputs >= 1 or node.kind != Kind.MERGE, node.name, "must have inputs")
    _check_outputs(plan, node)
    _check_place(plan, i, node)


def _check_outputs(plan, node):
    count = len(node.outputs)
    _require(count == 1 or node.kind not in _ONE_OUTPUT, node.name, "must have one output")
    _require(count == 2 or node.kind != Kind.SWITCH, node.name, "must have two outputs")
    _require(count >= 1 or node.kind != Kind.SWITCH_N, node.name, "must have outputs")
    _require(1 <= count <= 2 or node.kind != Kind.MERGE, node.name, "must have one or two outputs")
    _require(count == 0 or node.kind not in (Kind.FETCH, Kind.CONTROL_TRIGGER, Kind.SEND), node.name, "must have no output")


def _check_place(plan, i, node):
    frame = plan.frames[node.frame]
    root = node.frame == 0
    _require(node.num_inputs + node.num_controls > 0 or root, node.name, "has no inputs but is not in the root frame")
    _require(not root or node.kind not in _LOOP_ONLY, node.name, "must be in a loop")
    _require(node.kind not in _FINALS or i in frame.finals, node.name, "is missing among the finals of its frame")
    if node.kind == Kind.ENTER:
        _require(plan.frames[node.child].parent == node.frame, node.name, "does not lead to a child of its frame")
    if node.kind in (Kind.SERIES_PUSH, Kind.SERIES_EXIT):
        _require(0 <= node.index < frame.num_series, node.name, "names no series of its frame")
    if node.kind == Kind.FEED:
        _require(0 <= node.index < plan.num_feeds, node.name, "names no feed")
    if node.kind == Kind.FETCH:
        _require(0 <= node.index < plan.num_fetches, node.name, "names no fetch")
    if node.kind in (Kind.SEND, Kind.RECV):
        _require(node.index >= 0, node.name, "names no channel")


def out_frame(plan, node):
    """Return the frame in which the outputs of a node are delivered."""
    if node.kind == Kind.ENTER:
        return node.child
    if node.kind == Kind.EXIT or node.kind in _FINALS:
        return plan.frames[node.frame].parent
    return node.frame


def _check_edges(plan):
    seen = [set() for _ in plan.nodes]
    controls = [0] * len(plan.nodes)
    for i, node in enumerate(plan.nodes):
        frame = out_frame(plan, node)
        for dtype, output in zip(node.outputs, plan.data_edges[i], strict=True):
            for consumer, index in output:
                _check_data_edge(node, plan.nodes[consumer], index, dtype, frame, seen[consumer])
        for consumer in plan.control_edges[i]:
            controls[consumer] += 1
            _require(plan.nodes[consumer].frame == frame, plan.nodes[consumer].name, "has inputs from different frames")
    for node, inputs, count in zip(plan.nodes, seen, controls, strict=True):
        _require(len(inputs) == node.num_inputs, node.name, f"waits for {node.num_inputs} inputs, {len(inputs)} come")
        _require(count == node.num_controls, node.name, f"waits for {node.num_controls} controls, {count} come")


def _check_data_edge(producer, consumer, index, dtype, frame, seen):
    _require(consumer.frame == frame, consumer.name, "has inputs from different frames")
    _require(0 <= index < consumer.num_inputs and index not in seen, consumer.name, f"input {index} comes twice")
    seen.add(index)
    if consumer.kind == Kind.LOOP_COND or (consumer.kind == Kind.SWITCH and index == 1):
        _require(dtype == bool, consumer.name, f"its predicate is {dtype}, not bool")
    if index == 1 and consumer.kind in (Kind.SWITCH_N, Kind.SERIES_PUSH, Kind.SERIES_READ):
        _require(dtype is not None and dtype.kind in "iu", consumer.name, f"its index is {dtype}, not an integer")
