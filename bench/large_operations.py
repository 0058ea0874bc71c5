"""Every registered operation at many elements: what `loop_lag` runs to see whether any of them holds the event loop.

What works element by element is scaled up from the samples of its definition. Others have a call here or in another of
the modules `large_*`, a program in `large_programs`, or a reason why their size does not matter. An operation with
neither is an error, so that a new one is not forgotten.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from .experiment import BenchError
from .large_images import IMAGES
from .large_linalg import LINALG
from .large_programs import (
    PROGRAMS,
    ROW,
    Build,
    Program,
    call,
    flags,
    floats,
    numbers,
    rows,
    sizes,
    stacked,
    strings,
)
from .large_random import RANDOM
from .large_sparse import SPARSE
from .large_special import SPECIAL, SPECIAL_ELEMENTWISE
from .large_strings import STRINGS


def scaled(type: str, n: int) -> Program:
    """Return a program of an operation that works element by element: its first sample, again and again."""
    from tagloom.ir.definition import definition_of

    sample = definition_of(type).samples[0]
    return call(type, *[np.resize(np.asarray(each), n) for each in sample.inputs], **sample.attrs)


def bfloats(n: int) -> np.ndarray:
    """Return such numbers in bfloat16."""
    import ml_dtypes

    return floats(n, dtype=ml_dtypes.bfloat16)


# Also other ways through the same operations: other dtypes, strides, axes.
CALLS: dict[str, Build] = {
    "Abs": lambda n: call("Abs", floats(n)),
    "Add: bfloat16": lambda n: call("Add", bfloats(n), bfloats(n)),
    "Add: int64": lambda n: call("Add", numbers(n, dtype=np.int64), numbers(n, dtype=np.int64)),
    "Add: rows and columns": lambda n: call("Add", floats(ROW), floats(n // ROW, 1)),
    "Add: strided": lambda n: call("Add", floats(2 * n)[::2], floats(n)),
    "AddAlongAxis": lambda n: call(
        "AddAlongAxis", rows(n), numbers(n // ROW, ROW, below=ROW), sizes(n // ROW, ROW), axis=1
    ),
    "AddN": lambda n: call("AddN", [floats(n), floats(n), floats(n)]),
    "AddToRows": lambda n: call(
        "AddToRows", rows(n), numbers(n // ROW, 1, below=n // ROW), rows(n), sizes(n // ROW, ROW)
    ),
    "AddToSlice": lambda n: call(
        "AddToSlice", rows(n), sizes(n // ROW, ROW), rows(n), [], spec=(slice(None), slice(None, None, -1))
    ),
    "All": lambda n: call("All", flags(n), axis=None),
    "Any": lambda n: call("Any", ~flags(n // ROW, ROW), axis=(0,)),
    "ArgMax": lambda n: call("ArgMax", rows(n), axis=1),
    "ArgMin": lambda n: call("ArgMin", rows(n), axis=0),
    "ArgSort": lambda n: call("ArgSort", rows(n)),
    "ArgSort: downwards": lambda n: call("ArgSort", floats(n), descending=True),
    "BinNumbers": lambda n: call("BinNumbers", numbers(n), np.int32(5)),
    "Bitcast": lambda n: call("Bitcast", floats(n), dtype="int32"),
    "BooleanMask": lambda n: call("BooleanMask", floats(n), flags(n)),
    "BooleanMask: rows": lambda n: call("BooleanMask", rows(n), flags(n // ROW)),
    "BroadcastArgs": lambda n: call("BroadcastArgs", sizes(n, 1), sizes(n)),
    "BroadcastTo": lambda n: call("BroadcastTo", floats(ROW), sizes(n // ROW, ROW)),
    "BroadcastTo: columns": lambda n: call("BroadcastTo", floats(n // ROW, 1), sizes(n // ROW, ROW)),
    "Cast: to bool": lambda n: call("Cast", floats(n), dtype="bool"),
    "Cast: to float16": lambda n: call("Cast", floats(n), dtype="float16"),
    "Cast: to float64": lambda n: call("Cast", floats(n), dtype="float64"),
    "CheckNumerics": lambda n: call("CheckNumerics", floats(n), message=""),
    "Complex": lambda n: call("Complex", floats(n), floats(n), dtype="complex64"),
    "Concat": lambda n: call("Concat", stacked(n), axis=0),
    "Concat: columns": lambda n: call("Concat", [rows(n // 2), rows(n // 2)], axis=1),
    "Cumprod": lambda n: call("Cumprod", rows(n)),
    "Cumsum": lambda n: call("Cumsum", rows(n)),
    "Cumsum: float16": lambda n: call("Cumsum", rows(n, np.float16), axis=1),
    "Cumsum: reverse": lambda n: call("Cumsum", rows(n), axis=1, reverse=True),
    "CumulativeExpSum": lambda n: call("CumulativeExpSum", rows(n), rows(n), rows(n), axis=1),
    "CumulativeLogsumexp": lambda n: call("CumulativeLogsumexp", rows(n), axis=1),
    "CustomGradient": lambda n: call("CustomGradient", [floats(n)], dtypes=("float32",), num=1, gradient=lambda g: [g]),
    "DynamicPartition": lambda n: call("DynamicPartition", rows(n), numbers(n // ROW, below=4), num=4),
    "DynamicStitch": lambda n: call("DynamicStitch", [np.arange(n // ROW, dtype=np.int32)], [rows(n)]),
    "DynamicStitchGrad": lambda n: call("DynamicStitchGrad", rows(n), [np.arange(n // ROW, dtype=np.int32)], num=1),
    "EnsureShape": lambda n: call("EnsureShape", floats(n), shape=None),
    "Equal: of strings": lambda n: call("Equal", *[strings(n)] * 2),
    "Exp: float16": lambda n: call("Exp", floats(n, dtype=np.float16)),
    "ExpandDims": lambda n: call("ExpandDims", floats(n), axis=0),
    "Fill": lambda n: call("Fill", sizes(n // ROW, ROW), np.float32(1)),
    "Gather": lambda n: call("Gather", rows(n), numbers(n // ROW, below=n // ROW)),
    "Gather: columns": lambda n: call("Gather", rows(n), numbers(ROW, below=ROW), axis=1),
    "Gather: elements": lambda n: call("Gather", floats(n), numbers(n, below=n)),
    "GatherGrad": lambda n: call("GatherGrad", rows(n), numbers(n // ROW, below=n // ROW), sizes(n // ROW, ROW)),
    "GatherNd": lambda n: call("GatherNd", rows(n), numbers(n // ROW, 1, below=n // ROW)),
    "GatherNd: elements": lambda n: call("GatherNd", floats(n), numbers(n, 1, below=n)),
    "HistogramBins": lambda n: call("HistogramBins", floats(n), np.float32([0, 1]), np.int32(100)),
    "Identity": lambda n: call("Identity", floats(n)),
    "IdentityN": lambda n: call("IdentityN", [floats(n), floats(n)], dtypes=("float32", "float32")),
    "InvertPermutation": lambda n: call("InvertPermutation", np.arange(n)[::-1].copy()),
    "LeakyRelu": lambda n: call("LeakyRelu", floats(n)),
    "LinSpace": lambda n: call("LinSpace", np.float32(0), np.float32(1), np.int32(n)),
    "ListDiff": lambda n: call("ListDiff", numbers(n, below=n), numbers(n // 2, below=n)),
    "LogSoftmax": lambda n: call("LogSoftmax", rows(n)),
    "LogSumExp": lambda n: call("LogSumExp", rows(n), axis=(1,)),
    "MatMul": lambda n: call("MatMul", floats(n // ROW, ROW), floats(ROW, 100)),
    "MatMul: int32": lambda n: call("MatMul", numbers(n // 10000, 100), numbers(100, n // 10000)),
    "MatMul: of one": lambda n: call("MatMul", floats(1, n), floats(n, 1)),
    "MatMulAdd": lambda n: call("MatMulAdd", floats(n // ROW, ROW), floats(ROW, 100), floats(n // ROW, 100)),
    "Max": lambda n: call("Max", rows(n), axis=(1,)),
    "Mean": lambda n: call("Mean", floats(n), axis=None),
    "Min": lambda n: call("Min", rows(n), axis=(0,)),
    "MirrorPad": lambda n: call("MirrorPad", rows(n), sizes(1, 1, 2, 2).reshape(2, 2), mode="reflect"),
    "MirrorPadGrad": lambda n: call("MirrorPadGrad", rows(n), sizes(1, 1, 2, 2).reshape(2, 2), mode="reflect"),
    "NonZero": lambda n: call("NonZero", flags(n)),
    "NthElement": lambda n: call("NthElement", rows(n), np.int32(ROW // 2)),
    "NthElement: of one row": lambda n: call("NthElement", floats(n), np.int32(n // 2)),
    "OneHot": lambda n: call("OneHot", numbers(n // ROW, below=ROW), np.int32(ROW), np.float32(1), np.float32(0)),
    "OneHot: from front": lambda n: call(
        "OneHot", numbers(n // ROW, below=ROW), np.int32(ROW), np.float32(1), np.float32(0), axis=0
    ),
    "Pad": lambda n: call("Pad", rows(n), sizes(1, 1, 2, 2).reshape(2, 2), np.float32(0)),
    "PlaceholderWithDefault": lambda n: call("PlaceholderWithDefault", floats(n), shape=None),
    "Pow: floating": lambda n: call("Pow", floats(n), floats(n)),
    "Pow: int64": lambda n: call("Pow", numbers(n, dtype=np.int64), numbers(n, dtype=np.int64)),
    "PreventGradient": lambda n: call("PreventGradient", floats(n), message=""),
    "Prod": lambda n: call("Prod", rows(n), axis=(1,)),
    "ProdOthers": lambda n: call("ProdOthers", rows(n), axis=1),
    "Range": lambda n: call("Range", np.int64(0), np.int64(n), np.int64(1)),
    "Rank": lambda n: call("Rank", floats(n)),
    "RepeatIndices": lambda n: call("RepeatIndices", numbers(n // 3)),
    "RepeatIndices: of one": lambda n: call("RepeatIndices", sizes(n)),
    "Reshape": lambda n: call("Reshape", floats(n), sizes(ROW, -1)),
    "Reverse": lambda n: call("Reverse", rows(n), axis=(0, 1)),
    "ReverseSequence": lambda n: call("ReverseSequence", rows(n), numbers(n // ROW, below=ROW), seq_axis=1),
    "Roll": lambda n: call("Roll", rows(n), sizes(3, 5), axis=(0, 1)),
    "ScatterNd": lambda n: call("ScatterNd", numbers(n // ROW, 1, below=n // ROW), rows(n), sizes(n // ROW, ROW)),
    "ScatterNd: elements": lambda n: call("ScatterNd", numbers(n, 1, below=n), floats(n), sizes(n)),
    "SearchSorted": lambda n: call("SearchSorted", np.sort(floats(n)), floats(n)),
    "SegmentCount": lambda n: call("SegmentCount", np.sort(numbers(n)), np.int32(-1)),
    "SegmentPlaces": lambda n: call("SegmentPlaces", numbers(n, below=100)),
    "SegmentProdOthers": lambda n: call("SegmentProdOthers", rows(n), numbers(n // ROW, below=100)),
    "Shape": lambda n: call("Shape", floats(n)),
    "Size": lambda n: call("Size", floats(n)),
    "Slice": lambda n: call("Slice", rows(n), sizes(0, 1), sizes(-1, ROW - 2)),
    "Softmax": lambda n: call("Softmax", rows(n)),
    "Softmax: float16": lambda n: call("Softmax", rows(n, np.float16)),
    "Softmax: of columns": lambda n: call("Softmax", rows(n), axis=0),
    "SoftmaxCrossEntropyWithLogits": lambda n: call("SoftmaxCrossEntropyWithLogits", rows(n), rows(n)),
    "Sort": lambda n: call("Sort", rows(n)),
    "Sort: of one row": lambda n: call("Sort", floats(n)),
    "SparseSoftmaxCrossEntropyWithLogits": lambda n: call(
        "SparseSoftmaxCrossEntropyWithLogits", numbers(n // ROW, below=ROW), rows(n)
    ),
    "Split": lambda n: call("Split", rows(n), num=4, axis=1),
    "SplitV": lambda n: call("SplitV", rows(n), sizes(ROW // 4, ROW - ROW // 4), num=2, axis=1),
    "Squeeze": lambda n: call("Squeeze", floats(1, n), axis=None),
    "Stack": lambda n: call("Stack", stacked(n)),
    "StopGradient": lambda n: call("StopGradient", floats(n)),
    "StridedSlice": lambda n: call("StridedSlice", rows(n), [], spec=(slice(None), slice(None, None, -1))),
    "StridedSliceGrad": lambda n: call(
        "StridedSliceGrad", sizes(n // ROW, ROW), rows(n), [], spec=(slice(None), slice(None, None, -1))
    ),
    "Sum": lambda n: call("Sum", floats(n), axis=None),
    "Sum: columns": lambda n: call("Sum", rows(n), axis=(0,)),
    "Sum: float16": lambda n: call("Sum", rows(n, np.float16), axis=(1,)),
    "SumTo": lambda n: call("SumTo", rows(n), sizes(ROW)),
    "TakeAlongAxis": lambda n: call("TakeAlongAxis", rows(n), numbers(n // ROW, ROW, below=ROW), axis=1),
    "TensorScatterMax": lambda n: call("TensorScatterMax", floats(n), numbers(n, 1, below=n), floats(n)),
    "TensorScatterMin": lambda n: call("TensorScatterMin", rows(n), numbers(n // ROW, 1, below=n // ROW), rows(n)),
    "TensorScatterUpdate": lambda n: call("TensorScatterUpdate", floats(n), numbers(n, 1, below=n), floats(n)),
    "Tile": lambda n: call("Tile", floats(ROW), sizes(n // ROW)),
    "Tile: elements": lambda n: call("Tile", floats(ROW, 1), sizes(1, n // ROW)),
    "TileGrad": lambda n: call("TileGrad", floats(n), sizes(n // ROW), sizes(ROW)),
    "TopK": lambda n: call("TopK", rows(n), np.int32(5)),
    "TopK: of one row": lambda n: call("TopK", floats(n), np.int32(n // 2)),
    "Permute": lambda n: call("Permute", rows(n), np.array([1, 0], np.int32)),
    "Transpose": lambda n: call("Transpose", rows(n)),
    "Transpose: of three": lambda n: call("Transpose", floats(100, n // 10000, 100), perm=(2, 0, 1)),
    "Unique": lambda n: call("Unique", numbers(n, below=n)),
    "UnravelIndex": lambda n: call("UnravelIndex", numbers(n, below=n), sizes(n // ROW, ROW)),
    "Unreduce": lambda n: call("Unreduce", floats(n // ROW), sizes(n // ROW, ROW), axis=(1,)),
    "UnsortedSegmentMax": lambda n: call("UnsortedSegmentMax", rows(n), numbers(n // ROW, below=100), np.int32(100)),
    "UnsortedSegmentMin": lambda n: call("UnsortedSegmentMin", floats(n), numbers(n, below=100), np.int32(100)),
    "UnsortedSegmentProd": lambda n: call("UnsortedSegmentProd", rows(n), numbers(n // ROW, below=9), np.int32(9)),
    "UnsortedSegmentSum": lambda n: call("UnsortedSegmentSum", rows(n), numbers(n // ROW, below=100), np.int32(100)),
    "Unstack": lambda n: call("Unstack", floats(10, n // 10), num=10),
    "Where: broadcast": lambda n: call("Where", flags(n // ROW, 1), rows(n), np.float32(0)),
}

ELEMENTWISE = (
    "Angle",
    "CheckedCondition",
    "Cast",
    "DivNoNan",
    "DivOrZero",
    "Elu",
    "Erf",
    "Erfc",
    "FloorDiv",
    "FloorMod",
    "Imag",
    "MulNoNan",
    "NextAfter",
    "Real",
    "Relu",
    "Relu6",
    "Rsqrt",
    "Selu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "SquaredDifference",
    "TruncateDiv",
    "TruncateMod",
    "Where",
    "Xlogy",
    *SPECIAL_ELEMENTWISE,
)

_MOVES = "hands its input on as it is"
_HANDLE = "makes or closes a handle"
WITHOUT: dict[str, str] = {
    **dict.fromkeys(("Switch", "SwitchN", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Send"), _MOVES),
    **dict.fromkeys(("SeriesPush", "SeriesRead", "SeriesExit", "SeriesReadSeries", "MaybeGet"), _MOVES),
    **dict.fromkeys(("Const", "Param", "Feed", "Placeholder"), "has a value that is there already"),
    **dict.fromkeys(("Cond", "While"), "becomes primitives"),
    "Native": "is run in slices",
    "BenchSeries": "is made for this",
    **dict.fromkeys(("NoOp", "ControlTrigger", "TripCount", "Instance", "PartialEnd", "SeriesEmpty"), "has no arrays"),
    **dict.fromkeys(("QueueHandle", "QueueClose", "QueueIsClosed", "QueueSize", "AccumulatorHandle"), _HANDLE),
    **dict.fromkeys(("AccumulatorNumAccumulated", "AccumulatorSetGlobalStep"), _HANDLE),
    **dict.fromkeys(("StageClear", "MapStageHandle", "MapStageSize", "MapStageClear"), _HANDLE),
    **dict.fromkeys(("BarrierHandle", "BarrierClose", "BarrierSize", "AsyncSourceHandle"), _HANDLE),
    **dict.fromkeys(("IteratorHandle", "IteratorReset", "ReaderHandle", "ReaderReset"), _HANDLE),
    **dict.fromkeys(("TableHandle", "TableInitialize", "TableSize"), _HANDLE),
    **dict.fromkeys(("ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted"), _HANDLE),
    "MatchingFiles": "gives names, of files that it looks for in a thread",
    **dict.fromkeys(("VariableHandle", "IsInitialized", "StackNew", "StackClose"), _HANDLE),
    **dict.fromkeys(("TensorArrayNew", "TensorArrayClose", "TensorArraySize"), _HANDLE),
    **dict.fromkeys(("TensorArrayReadBlock", "TensorArrayRowOf"), "gives views"),
    "QueueChoice": _HANDLE,
    "KeyFoldIn": "makes a key, of two numbers",
    "SameSizes": "compares shapes, of a few numbers each",
    **dict.fromkeys(("ToHost", "ToDevice", "IntoDevice"), "copies from or to a GPU, on a stream of it"),
    **dict.fromkeys(
        ("PartialFeed", "PartialFetch"), "is part of a run in parts, whose fetches are copied as others are"
    ),
}


def programs() -> dict[str, Build]:
    """Return what builds a program for each registered operation, by its type, and for other ways through some.

    Raises
    ------
    BenchError
        If an operation has none, and no reason why.
    """
    from tagloom.ir.definition import Ufunc, all_definitions

    found = {**PROGRAMS, **CALLS, **IMAGES, **LINALG, **RANDOM, **SPARSE, **SPECIAL, **STRINGS}
    types = {name.partition(":")[0] for name in found}
    missing = []
    for definition in sorted(all_definitions(), key=lambda each: each.type):
        type = definition.type
        if type in ELEMENTWISE or isinstance(definition.kernel, Ufunc):
            found.setdefault(type, partial(scaled, type))
        elif type not in types and type not in WITHOUT:
            missing.append(type)
    if missing:
        raise BenchError(f"{', '.join(missing)}: give each a call in bench/large_*.py, or a reason in WITHOUT")
    return dict(sorted(found.items()))
