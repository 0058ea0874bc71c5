"""Variables, TensorArrays, stacks, series and sums of products hold what a strict array library made, where it is."""

import numpy as np
import pytest
from tagloom.base import dtypes
from tagloom.base.shapes import Shape
from tagloom.kernels.scheduler.series import Series
from tagloom.ops.state.stacks import StackStorage

from tests.ops.instances import Instance
from tests.ops.samples import DEFINITIONS
from tests.strict_array_library.kernels import computed
from tests.strict_array_library.library import WAITS, Array, xp

FLOW = np.float32(0)
ROWS = np.arange(6.0).reshape(3, 2)


def call(type, *inputs, context=True, **attrs):
    """Run a kernel for a device; return its result, or all of them."""
    definition = DEFINITIONS[type]
    given = [Instance(), *inputs] if context else inputs
    results = computed(definition, xp, given, {**definition.attrs, **attrs})
    return results[0] if len(results) == 1 else results


def equal(found, wanted):
    assert isinstance(found, Array)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.get(), wanted)


@pytest.fixture
def array():
    handle, flow = call("TensorArrayNew", np.int32(3), dtype=dtypes.float64)
    assert flow == FLOW
    return handle


def test_a_tensor_array_hands_out_rows_that_it_was_given(array):
    WAITS.reasons.clear()
    call("TensorArrayUnstack", array, xp.asarray(ROWS), FLOW)
    read = {"dtype": dtypes.float64}
    found = call("TensorArrayRead", array, np.int32(1), FLOW, **read)
    gradient, _ = call("TensorArrayGrad", array, FLOW)
    for _ in range(3):
        call("TensorArrayWrite", gradient, np.int32(1), found, FLOW)
    total = call("TensorArrayStack", gradient, FLOW, np.int32([3, 2]), **read)
    assert not WAITS.reasons
    equal(found, ROWS[1])
    equal(total, np.array([[0, 0], 3 * ROWS[1], [0, 0]]))


def test_a_tensor_array_is_split_joined_scattered_and_gathered(array):
    call("TensorArraySplit", array, xp.asarray(ROWS), np.int32([1, 0, 2]), FLOW)
    value, lengths = call("TensorArrayConcat", array, FLOW, dtype=dtypes.float64)
    equal(value, ROWS)
    np.testing.assert_array_equal(lengths, [1, 0, 2])
    other, _ = call("TensorArrayNew", np.int32(3), dtype=dtypes.float64)
    call("TensorArrayScatter", other, np.int32([2, 0]), xp.asarray(ROWS[:2]), FLOW)
    equal(call("TensorArrayGather", other, np.int32([0, 2]), FLOW, dtype=dtypes.float64), ROWS[[1, 0]])


def test_rows_are_cut_out_of_blocks(array):
    call("TensorArrayUnstack", array, xp.asarray(ROWS), FLOW, blocks=(2,))
    for index, last in ((0, 2), (1, 2), (2, 3)):
        block = call("TensorArrayReadBlock", array, np.int32(index), FLOW, dtype=dtypes.float64, count=2)
        equal(block, ROWS[last - len(block) : last])
        equal(call("TensorArrayRowOf", array, np.int32(index), FLOW, block, count=2), ROWS[index])


def test_scalars_and_nothing_are_stacked_on_the_device(array):
    scalars, _ = call("TensorArrayNew", np.int32(2), dtype=dtypes.float64)
    for i in range(2):
        call("TensorArrayWrite", scalars, np.int32(i), xp.asarray(np.float64(i)), FLOW)
    equal(call("TensorArrayStack", scalars, FLOW, dtype=dtypes.float64), np.array([0.0, 1.0]))
    none, _ = call("TensorArrayNew", np.int32(0), dtype=dtypes.float64, element_shape=Shape([4]))
    equal(call("TensorArrayStack", none, FLOW, dtype=dtypes.float64), np.zeros((0, 4)))


def test_a_stack_keeps_its_values():
    stack = StackStorage(dtypes.float64, -1, "stack")
    call("StackPush", stack, xp.asarray(ROWS), swap_memory=False)
    equal(call("StackPop", stack, elem_type=dtypes.float64), ROWS)


@pytest.fixture
def slot():
    slot = call("VariableHandle", shared_name="v", dtype=dtypes.float64)
    equal(call("AssignVariable", slot, xp.asarray(ROWS), shape=Shape([3, 2])), ROWS)
    return slot


def test_a_variable_is_updated_on_the_device(slot):
    WAITS.reasons.clear()
    before = slot.read()
    call("AssignAddVariable", slot, xp.asarray(ROWS))
    call("AssignSubVariable", slot, xp.asarray(np.ones((3, 2))))
    after = call("ReadVariable", slot, dtype=dtypes.float64)
    call("AssignVariable", slot, xp.asarray(ROWS), shape=Shape([3, 2]))
    assert not WAITS.reasons
    equal(before, ROWS)  # who has read keeps what was read
    equal(after, 2 * ROWS - 1)
    equal(slot.read(), ROWS)


ROWS_CHANGED = {
    "ScatterAdd": [5, 2, 9],
    "ScatterSub": [-3, 2, -3],
    "ScatterUpdate": [4, 2, 6],
    "ScatterMul": [4, 2, 18],
    "ScatterMax": [4, 2, 6],
    "ScatterMin": [1, 2, 3],
}
KINDS = [dtypes.as_dtype(name) for name in ("int8", "int32", "int64", "uint64", "float32", "complex64")]


@pytest.mark.parametrize(
    ("type", "kind"), [(t, d.name) for t in ROWS_CHANGED for d in KINDS if d in DEFINITIONS[t].signature.where["T"]]
)
def test_rows_of_a_variable_are_scattered(type, kind):
    wanted = ROWS_CHANGED[type]
    slot = call("VariableHandle", shared_name="v", dtype=dtypes.as_dtype(kind))
    call("AssignVariable", slot, xp.asarray(np.array([1, 2, 3]).astype(kind)))
    updates = xp.asarray(np.array([4, 6]).astype(kind))
    equal(call(type, slot, np.int32([0, 2]), updates), np.array(wanted).astype(kind))


@pytest.mark.parametrize("kind", ["int8", "int32", "uint64", "float16", "float32", "complex64"])
@pytest.mark.parametrize(
    ("type", "wanted"),
    [
        ("ScatterNdAdd", [[1, 12, 3], [4, 5, 6]]),
        ("ScatterNdSub", [[1, -8, 3], [4, 5, 6]]),
        ("ScatterNdUpdate", [[1, 3, 3], [4, 5, 6]]),
    ],
)
def test_elements_of_a_variable_are_scattered(type, wanted, kind):
    slot = call("VariableHandle", shared_name="v", dtype=dtypes.as_dtype(kind))
    call("AssignVariable", slot, xp.asarray(np.array([[1, 2, 3], [4, 5, 6]]).astype(kind)))
    updates = xp.asarray(np.array([7, 3]).astype(kind))
    equal(call(type, slot, np.int32([[0, 1], [0, 1]]), updates), np.array(wanted).astype(kind))


@pytest.mark.parametrize(("type", "wanted"), [("ScatterMul", [[9, 2], [0.75, 1]]), ("ScatterDiv", [[0.25, 2], [3, 4]])])
def test_a_row_that_comes_twice_is_changed_twice(type, wanted):
    slot = call("VariableHandle", shared_name="v", dtype=dtypes.float64)
    call("AssignVariable", slot, xp.asarray(np.array([[1.0, 2.0], [3.0, 4.0]])))
    indices, updates = (np.int32([0, 1, 0]), [[3, 2], [0.25, 0.25], [3, 0.5]])
    if type == "ScatterDiv":
        indices, updates = np.int32([0, 0]), [[2, 0.5], [2, 2]]
    equal(call(type, slot, indices, xp.asarray(np.array(updates, np.float64))), np.array(wanted, np.float64))


def test_a_number_goes_to_all_rows():
    slot = call("VariableHandle", shared_name="v", dtype=dtypes.float32)
    call("AssignVariable", slot, xp.asarray(np.float32([[1, 2], [3, 4]])))
    equal(call("ScatterMul", slot, np.int32([1, 1]), xp.asarray(np.float32(3))), np.float32([[1, 2], [27, 36]]))


def test_series_add_up_on_the_device():
    series = Series()
    for index in range(2):
        series.put(index, xp.asarray(ROWS + index))
    attrs = {"context": False, "dtype": dtypes.float64}
    shape = np.int32([3, 2])
    equal(call("SeriesSum", series, shape, **attrs), 2 * ROWS + 1)
    equal(call("SeriesConcat", series, shape, **attrs), np.concatenate([ROWS, ROWS + 1]))
    equal(call("SeriesReadOrZeros", series, np.int64(1), shape, **attrs), ROWS + 1)
    equal(call("SeriesReadOrZeros", series, np.int64(7), shape, **attrs), np.zeros((3, 2)))
    parts = call("SeriesSplit", xp.asarray(np.concatenate([ROWS, ROWS])), series, context=False)
    equal(call("SeriesAdd", series, parts, context=False).get(1), 2 * ROWS + 1)


def test_a_sum_of_products_is_added_up_on_the_device():
    a, b = xp.asarray(ROWS), xp.asarray(ROWS[:, :1])
    total = call("ProductSumBegin", xp.asarray(np.ones((2, 1))), context=False)
    for _ in range(2):
        total = call("ProductSumAdd", total, a, b, context=False)
    found = call("ProductSumEnd", total, context=False, dtype=dtypes.float64)
    equal(found, 1 + 2 * ROWS.T @ ROWS[:, :1])


COVERED = {
    "AssignAddVariable",
    "AssignSubVariable",
    "AssignVariable",
    "ProductSumAdd",
    "ProductSumBegin",
    "ProductSumEnd",
    "ReadVariable",
    "ScatterAdd",
    "ScatterDiv",
    "ScatterMax",
    "ScatterMin",
    "ScatterMul",
    "ScatterNdAdd",
    "ScatterNdSub",
    "ScatterNdUpdate",
    "ScatterSub",
    "ScatterUpdate",
    "SeriesAdd",
    "SeriesConcat",
    "SeriesReadOrZeros",
    "SeriesSplit",
    "SeriesSum",
    "StackPop",
    "StackPush",
    "TensorArrayConcat",
    "TensorArrayGather",
    "TensorArrayGrad",
    "TensorArrayNew",
    "TensorArrayRead",
    "TensorArrayReadBlock",
    "TensorArrayRowOf",
    "TensorArrayScatter",
    "TensorArraySplit",
    "TensorArrayStack",
    "TensorArrayUnstack",
    "TensorArrayWrite",
    "VariableHandle",
}

# These touch no array: they make, name, close, count, or hand on.
WITHOUT_ARRAYS = {
    "IsInitialized",
    "SeriesEmpty",
    "SeriesReadSeries",
    "SeriesSpread",
    "SeriesSumSeries",
    "StackClose",
    "StackNew",
    "TensorArrayClose",
    "TensorArraySize",
}

ELSEWHERE = {
    "GetSessionHandle",  # what it gives outlives the step: tests/runtime/test_session_handles.py
    # What is in these is the host's, whatever the device: tests/runtime/test_queues.py, test_staging.py,
    # tests/data/test_in_graphs.py and others.
    "AccumulatorApplyGradient",
    "AccumulatorApplyRows",
    "AccumulatorHandle",
    "AccumulatorNumAccumulated",
    "AccumulatorSetGlobalStep",
    "AccumulatorTakeGradient",
    "AccumulatorTakeRows",
    "AsyncSourceHandle",
    "BarrierClose",
    "BarrierHandle",
    "BarrierInsertMany",
    "BarrierSize",
    "BarrierTakeMany",
    "Dequeue",
    "DequeueMany",
    "Enqueue",
    "EnqueueMany",
    "MapStageClear",
    "MapStageGet",
    "MapStageHandle",
    "MapStagePeek",
    "MapStagePut",
    "MapStageSize",
    "IteratorGetNext",
    "IteratorHandle",
    "IteratorReset",
    "TableExport",
    "TableFind",
    "TableHandle",
    "TableInitialize",
    "TableInsert",
    "TableRemove",
    "TableSize",
    "QueueClose",
    "QueueChoice",
    "QueueHandle",
    "QueueIsClosed",
    "QueueSize",
    "StageClear",
    "StagePeek",
    "ReaderHandle",
    "ReaderNumRecordsProduced",
    "ReaderNumWorkUnitsCompleted",
    "ReaderRead",
    "ReaderReset",
}


def test_every_store_is_covered():
    assert {t for t, d in DEFINITIONS.items() if d.runs_on == "store"} == COVERED | WITHOUT_ARRAYS | ELSEWHERE
