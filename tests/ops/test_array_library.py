"""Kernels with an array library as strict as CuPy: every sample in every dtype, whose memory is whose, who waits."""

import sys

import numpy as np
import pytest
from tagloom.base import dtypes
from tagloom.base.array_like import as_array
from tagloom.ir.apply import apply, constant
from tagloom.ir.graph import Graph
from tagloom.ir.own_kernels import KernelSource

from tests.ops.instances import Instance
from tests.ops.samples import DEFINITIONS, SAMPLES, WITHOUT_KERNEL
from tests.strict_array_library.kernels import compare, computed, is_for_device, on_device, run, variants
from tests.strict_array_library.library import CUPYX, WAITS, Array, Special, xp
from tests.support.cases import each

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")

DEVICE = [p for p in SAMPLES if is_for_device(*p.values)]


@pytest.fixture(autouse=True)
def special(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupyx", CUPYX)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", Special())


@each("definition, sample", DEVICE, by=lambda definition, _: definition.type)
def test_kernel_computes_with_the_library_it_is_given(definition, sample):
    for variant in variants(definition, sample):
        compare(definition, run(definition, variant, xp), run(definition, variant, np))


@pytest.mark.parametrize("type", ["LeftShift", "RightShift"])
def test_bits_that_are_shifted_out_are_gone(type):
    x, y = np.array([5, -5, 5, -5, 5, -5], np.int32), np.array([31, 31, 32, 32, 70, 70], np.int32)
    kernel = DEFINITIONS[type].kernel
    np.testing.assert_array_equal(kernel(xp, xp.asarray(x), xp.asarray(y)).get(), kernel(np, x, y))


@pytest.mark.parametrize(
    ("type", "inputs", "error"),
    [
        ("Pow", [np.int32([2, 3]), np.int32([1, -1])], ValueError),
        ("FloorDiv", [np.int32([2]), np.int32([0])], ZeroDivisionError),
        ("Gather", [np.float32([2]), np.int32([1])], IndexError),
    ],
)
def test_what_the_rules_refuse_is_refused(type, inputs, error):
    definition = DEFINITIONS[type]
    with pytest.raises(error):
        computed(definition, xp, on_device(definition, inputs, xp.asarray), definition.attrs)


# What makes the host wait for the device: bounds and divisors that are checked, sizes that values decide.
WAITING = {
    "AddToRows": {"int"},
    "BinNumbers": {"int"},
    "BooleanMask": {"mask"},
    "CheckNumerics": {"bool"},
    "Cholesky": {"linalg"},
    "DistinctRows": {"mask"},
    "DynamicPartition": {"int", "mask"},
    "DynamicStitch": {"int"},
    "Expm": {"int"},
    "FloorDiv": {"bool"},
    "FloorMod": {"bool"},
    "Gather": {"int"},
    "GatherGrad": {"int"},
    "GatherNd": {"int"},
    "GroupMax": {"mask"},
    "InvertPermutation": {"int"},
    "LastAtPlace": {"int"},
    "ListDiff": {"nonzero"},
    "MatrixInverse": {"linalg"},
    "MatrixSolve": {"linalg"},
    "MatrixTriangularSolve": {"linalg"},
    "NonZero": {"argwhere"},
    "Pow": {"bool"},
    "PseudoInverse": {"linalg"},
    "ReverseSequence": {"int"},
    "SampledProduct": {"int"},
    "ScatterNd": {"int"},
    "SegmentCount": {"bool", "int"},
    "SelfAdjointEig": {"linalg"},
    "SelfAdjointEigvals": {"linalg"},
    "SingularValues": {"linalg"},
    "SparseSoftmaxCrossEntropyWithLogits": {"bool"},
    "SparseTensorDenseMatMul": {"int"},
    "SparseToDense": {"int", "bool", "mask"},
    "Svd": {"linalg"},
    "TensorScatterMax": {"int", "nonzero"},
    "TensorScatterMin": {"int", "nonzero"},
    "TensorScatterUpdate": {"int"},
    "TruncateDiv": {"bool"},
    "TruncateMod": {"bool"},
    "Unique": {"nonzero"},
    "UnravelIndex": {"bool"},
    "UnsortedSegmentMax": {"int", "nonzero"},
    "UnsortedSegmentMin": {"int", "nonzero"},
    "UnsortedSegmentProd": {"int", "nonzero"},
    "UnsortedSegmentSum": {"int"},
}


def test_the_host_waits_only_where_it_must():
    found = {}
    for definition, sample in (p.values for p in DEVICE):
        WAITS.reasons.clear()
        for variant in variants(definition, sample):
            run(definition, variant, xp)
        if WAITS.reasons:
            found.setdefault(definition.type, set()).update(WAITS.reasons)
    assert found == WAITING


DRAWING = {
    "RandomUniform": ([np.int32([3, 2])], {"dtype": dtypes.float32}),
    "RandomStandardNormal": ([np.int32([3, 2])], {"dtype": dtypes.float16}),
    "TruncatedNormal": ([np.int32([3, 2])], {"dtype": dtypes.float64}),
    "RandomUniformInt": ([np.int32([9]), np.int64(2), np.int64(50)], {}),
    "Categorical": ([np.float32([[0, 1, 2], [3, 1, 0]]), np.int32(5)], {"dtype": dtypes.int32}),
    "RandomShuffle": ([np.arange(12.0).reshape(6, 2)], {}),
    "RandomGamma": ([np.int32([3]), np.float32([0.5, 4])], {}),
    "RandomPoisson": ([np.int32([3]), np.float32([0.5, 4])], {"dtype": dtypes.int64}),
    "RandomCandidates": (
        [np.float64([1, 2, 3])],
        {"distribution": "weights", "range_max": 3, "num_sampled": 2, "unique": True},
    ),
}


@pytest.mark.parametrize("type", DRAWING)
def test_the_same_numbers_are_drawn_for_a_gpu(type):
    definition, (inputs, attrs) = DEFINITIONS[type], DRAWING[type]
    attrs = {**attrs, "seed": 3}
    WAITS.reasons.clear()
    results = computed(definition, xp, [Instance(), *on_device(definition, [*inputs, []], xp.asarray)], attrs)
    assert not WAITS.reasons
    for drawn, wanted in zip(results, computed(definition, np, [Instance(), *inputs], attrs), strict=True):
        assert isinstance(drawn, Array)
        assert drawn.dtype == wanted.dtype
        np.testing.assert_array_equal(drawn.get(), wanted)


# Their inputs and outputs need not be the array library's: what they give is what they were given.
GPU = KernelSource("GPU")
PASSING = {"MaybeGet", "Print"}
PROGRAMS = {"Native"}  # which a pass makes, and tests/cuda runs
HOST = {
    "Assert",
    "BroadcastArgs",
    "CTCBeamSearch",
    "EditDistance",
    "Instance",
    "NoOp",
    "NonMaxSuppression",
    "SoftNonMaxSuppression",
    "PartialEnd",
    "PartialFeed",
    "PartialFetch",
    "PyFunction",
    "SameSizes",
    "Watch",
}
HOST |= {"BesselI", "BesselJ", "Dawsn", "FresnelCos", "FresnelSin", "IgammaSlope", "Spence", "ZetaSlope"}
HOST |= {"AsString", "DecodeBase64", "EncodeBase64", "ReduceJoin", "RegexFullMatch", "RegexReplace", "StringCase"}
HOST |= {"MatchingFiles", "ReadFile", "RestoreV2", "SaveV2", "WriteFile"}
HOST |= {"DecodeImage", "EncodeImage", "KeyFoldIn", "KeySplit"}
HOST |= {"StringLength", "StringSplit", "StringStrip", "StringToHashBucket", "StringToNumber", "Substr"}


def test_where_each_operation_runs_is_known():
    on = {
        where: {t for t, d in DEFINITIONS.items() if d.runs_on == where}
        for where in ("executor", "store", "host", "device")
    }
    assert set().union(*on.values()) == set(DEFINITIONS)
    assert on["executor"] == WITHOUT_KERNEL
    assert on["host"] == HOST
    assert on["device"] == {p.values[0].type for p in DEVICE} | set(DRAWING) | PASSING | PROGRAMS


def test_strings_and_bfloat16_stay_on_the_host():
    with Graph().as_default():
        words, rough = (
            constant(np.array(["a"], np.dtypes.StringDType())),
            constant(as_array([1], dtypes.bfloat16)),
        )
        assert GPU.place_of((words + words).op) == GPU.place_of((rough + rough).op) == "host"
        assert GPU.place_of(apply("Add", constant(1.5), 2).op) == "device"
        assert GPU.place_of(constant(1.5).op) == "executor"
