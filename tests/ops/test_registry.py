"""Every declared operation is whole: shapes, kernel, gradient or reason, samples, a documented public function."""

import importlib
import inspect
import pkgutil
import re

import numpy as np
import pytest
import tagloom.data
import tagloom.frontend
import tagloom.ops
from tagloom import compat
from tagloom.base import dtypes
from tagloom.base.shapes import Shape
from tagloom.ir.apply import constant
from tagloom.ir.definition import NotDifferentiable
from tagloom.ir.graph import Graph
from tagloom.ir.rules.ordering import ReturnsInput
from tagloom.ops.control.placeholders import placeholder
from tagloom.testing.differences import CENTRAL, numerical_gradients

from tests.ops.evaluation import evaluate, pull_back, run_kernel
from tests.ops.samples import DEFINITIONS, SAMPLES, WITHOUT_KERNEL, build, expectation, flat, same
from tests.support.cases import each
from tests.support.mentions import strings
from tests.support.tiers import choose

# Their results depend on what ran before them, or they have no value: tested in files of their own.
WITHOUT_SAMPLES = WITHOUT_KERNEL | {
    "EncodeImage",  # bytes that Pillow's version decides: test_image_files.py
    "NoOp",
    "Print",
    "Assert",
    "MaybeGet",
    "SeriesReadOrZeros",
    "SeriesReadSeries",
    # A series can not be fed: test_series.py
    "SeriesAdd",
    "SeriesConcat",
    "SeriesEmpty",
    "SeriesSplit",
    "SeriesSum",
    "SeriesSumSeries",
    "SeriesSpread",
    # A native program runs, or does not: tests/native
    "Native",
    # A sum of products neither: tests/compile/loops/test_weight_gradients.py
    "ProductSumAdd",
    "ProductSumBegin",
    "ProductSumEnd",
    "VariableHandle",
    "ReadVariable",
    "IsInitialized",
    "AssignVariable",
    "AssignAddVariable",
    "AssignSubVariable",
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
    "TensorArrayNew",
    "TensorArrayGrad",
    "TensorArrayRead",
    "TensorArrayWrite",
    "TensorArrayStack",
    "TensorArrayUnstack",
    "TensorArrayGather",
    "TensorArrayScatter",
    "TensorArrayConcat",
    "TensorArraySplit",
    "TensorArraySize",
    "TensorArrayClose",
    "TensorArrayReadBlock",
    "TensorArrayRowOf",
    "StackNew",
    "StackPush",
    "StackPop",
    "StackClose",
    "AccumulatorHandle",
    "AccumulatorApplyGradient",
    "AccumulatorTakeGradient",
    "AccumulatorNumAccumulated",
    "AccumulatorSetGlobalStep",
    "AccumulatorApplyRows",
    "AccumulatorTakeRows",
    "StagePeek",
    "StageClear",
    "MapStageHandle",
    "MapStagePut",
    "MapStageGet",
    "MapStagePeek",
    "MapStageSize",
    "MapStageClear",
    "BarrierHandle",
    "BarrierInsertMany",
    "BarrierTakeMany",
    "BarrierClose",
    "BarrierSize",
    "AsyncSourceHandle",
    "QueueChoice",
    "QueueHandle",
    "Enqueue",
    "EnqueueMany",
    "Dequeue",
    "DequeueMany",
    "QueueClose",
    "QueueSize",
    "QueueIsClosed",
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
    "MatchingFiles",
    "ReadFile",
    "ReaderHandle",
    "ReaderNumRecordsProduced",
    "ReaderNumWorkUnitsCompleted",
    "ReaderRead",
    "ReaderReset",
    "WriteFile",
    "RandomUniform",
    "RandomUniformInt",
    "RandomStandardNormal",
    "TruncatedNormal",
    "Categorical",
    "RandomShuffle",
    "RandomGamma",
    "RandomPoisson",
    "RandomCandidates",
    "Instance",
    "PyFunction",
    "GetSessionHandle",
    "SaveV2",
    "RestoreV2",
    "Watch",
    "PartialFeed",
    "PartialFetch",
    "PartialEnd",
}

# Gradients and lowering build these; users meet the operation they belong to.
INTERNAL = {
    "Feed",
    "ToHost",
    "ToDevice",
    "IntoDevice",
    "Const",
    "Param",
    "Cond",
    "While",
    "TripCount",
    "MaybeGet",
    "SeriesPush",
    "SeriesRead",
    "SeriesExit",
    "SeriesReadOrZeros",
    "SeriesReadSeries",
    "SeriesAdd",
    "SeriesConcat",
    "SeriesEmpty",
    "SeriesSplit",
    "SeriesSum",
    "SeriesSumSeries",
    "SeriesSpread",
    "Fused",
    "Native",
    "Instance",
    "MatMulAdd",
    "AddToRows",
    "AddToSlice",
    "ProductSumAdd",
    "ProductSumBegin",
    "ProductSumEnd",
    "AddAlongAxis",
    "TakeAlongAxis",
    "SegmentPlaces",
    "SegmentProdOthers",
    "CumulativeExpSum",
    "BesselI",
    "BesselJ",
    "IgammaSlope",
    "ZetaSlope",
    "AvgPoolGrad",
    "ConvBias",
    "ConvFilterBiasGrad",
    "ConvInputGradMasked",
    "CTCLossGrad",
    "DilationPlace",
    "DivOrZero",
    "ExtractPatchesGrad",
    "MaxPoolGrad",
    "MaxPoolPick",
    "PlacePick",
    "PlaceSum",
    "ResizeGrad",
    "DistinctRows",
    "DynamicStitchGrad",
    "GatherGrad",
    "MirrorPadGrad",
    "StridedSliceGrad",
    "TileGrad",
    "TensorArrayGrad",
    "TensorArrayReadBlock",
    "TensorArrayRowOf",
    "ProdOthers",
    "SampledProduct",
    "LastAtPlace",
    "SwitchN",
    "Watch",
    "PartialFeed",
    "PartialFetch",
    "PartialEnd",
    "Send",
    "Recv",
}

STEP = 1e-6


@each("definition", DEFINITIONS.values())
def test_definition_is_whole(definition):
    assert callable(definition.shape)
    assert (definition.kernel is None) == (definition.type in WITHOUT_KERNEL)
    if isinstance(definition.gradient, NotDifferentiable):
        assert len(definition.gradient.reason) > 8
    else:
        assert callable(definition.gradient)
    assert bool(definition.samples) != (definition.type in WITHOUT_SAMPLES)


def test_a_result_that_is_an_input_has_its_dtype():
    found = [definition for definition in DEFINITIONS.values() if definition.has(ReturnsInput)]
    assert found
    for definition in found:
        (output,) = definition.signature.outputs
        assert definition.signature.inputs[definition.rule(ReturnsInput).index].type == output.type
        assert definition.effects


def type_of(definition, *_):
    return definition.type


KNOWN = ("values", "ranks", "nothing")  # of the inputs, while the graph is built


def known_more_or_less(samples, ways=3):
    """Return the samples with some ways of `KNOWN` each, which take turns."""
    return [
        pytest.param(*p.values, known, id=f"{p.id}-{known}")
        for i, p in enumerate(samples)
        for known in (KNOWN * 2)[i % len(KNOWN) :][:ways]
    ]


@each("definition, sample", SAMPLES, by=type_of)
def test_kernel_gives_what_is_expected(definition, sample):
    results = run_kernel(definition, flat(sample.inputs), {**definition.attrs, **sample.attrs})
    for result, wanted in zip(results, expectation(sample), strict=True):
        same(result, wanted)


@each("definition, sample, known", known_more_or_less(SAMPLES), by=type_of)
def test_static_shape_and_dtype_hold(definition, sample, known):
    with Graph().as_default():
        op = build(definition, sample, MAKERS[known])
        results = evaluate(op.outputs, dict(zip(op.inputs, flat(sample.inputs), strict=True)))
    for tensor, result, wanted in zip(op.outputs, results, expectation(sample), strict=True):
        assert result.dtype == tensor.dtype.numpy
        assert tensor.shape.includes(Shape(result.shape)), (tensor.shape, result.shape)
        same(result, wanted)


def _open_rank(array):
    return placeholder(np.asarray(array).dtype, [None] * np.ndim(array))


MAKERS = {"values": constant, "ranks": _open_rank, "nothing": lambda array: placeholder(np.asarray(array).dtype)}


class Moved:
    """A sample's operation, and the inner product of its results with fixed cotangents, as a function of its inputs."""

    def __init__(self, definition, sample, make):
        self.random = np.random.default_rng(7)
        self.arrays = flat(sample.inputs)
        self.op = build(definition, sample, make)
        self.moved = [i for i, t in enumerate(self.op.inputs) if t.dtype.is_differentiable]
        self.xs = [self.op.inputs[i] for i in self.moved]
        self.outputs = [t for t in self.op.outputs if t.dtype.is_differentiable]

    def values(self, tensors, arrays=None):
        return evaluate(tensors, dict(zip(self.op.inputs, arrays or self.arrays, strict=True)))

    def cotangents(self, tensors):
        return [self._like(v) for v in self.values(tensors)]

    def _like(self, value):
        noise = self.random.standard_normal(value.shape)
        if value.dtype.kind == "c":
            noise = noise + 1j * self.random.standard_normal(value.shape)
        return np.asarray(noise, value.dtype)

    def slope(self, tensors, cotangents):
        """Differentiate Re<cotangents, tensors> by central differences, for each moved input."""

        def total(*arrays):
            values = self.values(tensors, arrays)
            return sum(np.sum(np.conj(c) * v).real for c, v in zip(cotangents, values, strict=True))

        slopes = numerical_gradients(total, self.arrays, step=STEP, stencil=CENTRAL)
        return [slopes[i] for i in self.moved]


DOUBLE = (np.dtype(np.float64), np.dtype(np.complex128))
SMOOTH = [
    p
    for p in SAMPLES
    if p.values[0].is_differentiable
    and p.values[1].differentiable
    and any(a.dtype.kind in "fc" for a in flat(p.values[1].inputs))
    and all(a.dtype in DOUBLE for a in flat(p.values[1].inputs) if a.dtype.kind in "fc")
]


@each("definition, sample, known", known_more_or_less(SMOOTH, ways=choose(thorough=3, default=1)), by=type_of)
def test_gradient_is_right_to_second_order(definition, sample, known):
    with Graph().as_default():
        moved = Moved(definition, sample, MAKERS[known])
        if not moved.outputs:
            return  # for these dtypes no result carries a gradient
        targets = moved.outputs
        for _ in range(2):
            cotangents = moved.cotangents(targets)
            wanted = moved.slope(targets, cotangents)
            pulled = pull_back(targets, [constant(c) for c in cotangents], moved.xs)
            compare(moved, pulled, wanted)
            targets = [t for t in pulled if t is not None]
            if not targets:
                return


def compare(moved, pulled, wanted):
    for x, tensor, slopes in zip(moved.xs, pulled, wanted, strict=True):
        if tensor is None:
            np.testing.assert_allclose(slopes, 0, atol=1e-7)
            continue
        assert tensor.dtype is x.dtype
        assert tensor.shape.is_compatible_with(Shape(slopes.shape))
        (value,) = moved.values([tensor])
        assert value.shape == slopes.shape
        np.testing.assert_allclose(value, slopes, rtol=2e-5, atol=2e-7 * max(1.0, np.abs(slopes).max(initial=0)))


HELPERS = {
    "arguments",
    "common",
    "families",
    "folding",
    "late_axes",
    "leaves",
    "literals",
    "loop_tracing",
    "weights",
    "windows",
}


def public_functions():
    """Yield every public function, and every method of a public class, of the operations and what stands on them."""
    for package in (tagloom.ops, tagloom.frontend, tagloom.data, compat):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.rpartition(".")[2] not in HELPERS and "vectorizing" not in info.name:
                yield from published(importlib.import_module(info.name))


def published(module):
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
            yield from members(name, value)


def members(name, value):
    if inspect.isfunction(value):
        yield name, value
    if inspect.isclass(value):
        methods = {k: f.__func__ if isinstance(f, staticmethod) else f for k, f in vars(value).items()}
        yield from ((f"{name}.{k}", f) for k, f in methods.items() if inspect.isfunction(f))


BUILDERS = {name: f for name, f in public_functions() if strings(f) & set(DEFINITIONS)}


def test_every_operation_has_a_public_function():
    mentioned = set().union(*map(strings, BUILDERS.values()))
    assert sorted(set(DEFINITIONS) - mentioned - INTERNAL) == []


@each("name", [n for n in BUILDERS if "._" not in n])
def test_public_function_is_documented(name):
    text = inspect.getdoc(BUILDERS[name]) or ""
    assert text.splitlines()[0].endswith("."), f"{name} has no one-sentence summary"
    silent = [p for p in inspect.signature(BUILDERS[name]).parameters if not re.search(rf"\b{p}\b", text)]
    assert set(silent) <= {"self", "name"}, f"{name} says nothing about {silent}"


def test_lists_of_exceptions_are_not_stale():
    for listed in (WITHOUT_KERNEL, WITHOUT_SAMPLES, INTERNAL):
        assert not listed - set(DEFINITIONS)


def test_dtypes_of_samples_are_taglooms():
    for definition in DEFINITIONS.values():
        for sample in definition.samples:
            assert all(dtypes.as_dtype(a.dtype) for a in flat(sample.inputs))
