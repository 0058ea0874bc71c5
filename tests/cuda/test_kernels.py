"""The CUDA C of kernels, compiled for this machine: what the definitions give, from the sources that a GPU gets."""

import numpy as np
import pytest
from tagloom.base.errors import GraphError
from tagloom.ir.definition import definition_of
from tagloom.kernels.cuda import launching
from tagloom.kernels.cuda.launching import Grid
from tagloom.kernels.cuda.registry import find_compiled, registered_types
from tagloom.kernels.steps import STEPS

from tests.cuda.cases import PROGRAMS, REALS, Case, adam, cases, layer_norm, lstm, row_cases
from tests.cuda.host import RawModule, compiler, library, xp
from tests.cuda.steps import any_steps, every_step
from tests.ops.samples import SAMPLES
from tests.strict_array_library.kernels import compare, run, run_compiled, variants
from tests.strict_array_library.library import WAITS

pytestmark = pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler")
SIZES = [(3, 5), (2, 300)]


@pytest.fixture(params=[False, True], ids=["forward", "backward"])
def order(request, monkeypatch):
    """Let threads take their turns in both orders: what they do between two meetings must not depend on it."""
    monkeypatch.setattr(RawModule, "backward", request.param)


@pytest.mark.sampled(every=16)
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_fused_operations(program, dtype, order):
    for batch, units in SIZES:
        for case in cases(program, dtype, batch, units):
            case.check(xp)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7,), (2, 3, 17), (300, 2), (2, 300)])
def test_operations_on_rows(dtype, shape, order):
    for case in row_cases(dtype, shape, np.random.default_rng(1)):
        case.check(xp)


SAMPLED = [p for p in SAMPLES if p.values[0].type in registered_types()]


@pytest.mark.parametrize(("definition", "sample"), SAMPLED)
def test_samples(definition, sample):
    """Samples in every dtype, of those that kernels have."""
    found = [(run_compiled(definition, variant, xp), variant) for variant in variants(definition, sample)]
    found = [(results, variant) for results, variant in found if results]
    assert len(found) >= 3
    for results, variant in found:
        compare(definition, results, run(definition, variant, np), ulps=16)


@pytest.mark.parametrize("dtype", REALS)
def test_every_step(dtype):
    case = every_step(dtype)
    assert {name for name, *_ in case.attrs["steps"]} == set(STEPS)
    case.check(xp)


@pytest.mark.parametrize("seed", range(12))
def test_any_steps(seed, order):
    any_steps(np.random.default_rng(seed), REALS[seed % 2]).check(xp)


def test_special_values_are_numpys():
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -2.5])
    x, y = (np.ascontiguousarray(z) for z in np.meshgrid(odd, odd))
    names = ["maximum", "minimum", "logaddexp", "power", "less", "greater_equal", "not_equal"]
    steps = [(name, (0, 1), ()) for name in names] + [(name, (0,), ()) for name in ("sign", "sigmoid", "max", "min")]
    chosen = [("where", (2 + names.index(name), 0, 1), ()) for name in names[4:]]
    results = [*range(2, 6), *range(9, 16)]
    attrs = {
        "num": len(results),
        "steps": (*steps, *chosen),
        "constants": (),
        "results": tuple(results),
        "batch_dims": (7,),
        "has_rows": (True, True),
        "last_dims": (),
    }
    Case("Fused", attrs, [x, y]).check(xp)
    for type in ("Softmax", "LogSoftmax"):
        Case(type, {"axis": -1}, [x]).check(xp)


@pytest.mark.parametrize("program", [lstm, layer_norm])
def test_rows_whose_number_is_not_known(program):
    for rows in (0, 1, 4):
        for case in cases(program, "float32", None, 5, rows):
            before = len(RawModule.launched)
            case.check(xp)
            assert len(RawModule.launched) == before + (rows > 0)


def test_threads_go_on_where_there_are_more_elements(monkeypatch, order):
    monkeypatch.setattr(launching, "MOST_BLOCKS", 2)
    for program in (lstm, layer_norm):
        for case in cases(program, "float32", 70, 33):
            case.check(xp)
    for case in row_cases("float64", (500, 3), np.random.default_rng(2)):
        case.check(xp)


def test_wide_rows_have_more_threads(order):
    for case in (*cases(layer_norm, "float32", 2, 2100), *row_cases("float64", (2, 5000), np.random.default_rng(5))):
        case.check(xp)


@pytest.mark.parametrize("program", [lstm, layer_norm])
def test_more_elements_than_32_bits_count(program, monkeypatch):
    monkeypatch.setattr(launching, "_index_type", lambda elements: "size_t")
    for case in cases(program, "float32", 3, 5):
        case.check(xp)


def test_arrays_that_are_no_rows_in_memory():
    for case in [*cases(lstm, "float64", 4, 6), *row_cases("float64", (4, 6), np.random.default_rng(3))]:
        case.inputs = [np.asfortranarray(x) if x.ndim == 2 else np.repeat(x, 2)[::2] for x in case.inputs]
        case.check(xp)


def test_numbers_come_as_they_are_or_as_arrays():
    for case in cases(adam, "float32", 3, 4):
        assert any(x.ndim == 0 for x in case.inputs)
        case.check(xp)
        case.inputs = [x[()] if x.ndim == 0 else x for x in case.inputs]
        case.check(xp)


def test_updates_of_variables_of_any_shape_are_one_source():
    before = library.cache_info().misses
    for shape in ((3, 4), (5, 6), (1, 1)):
        for case in cases(adam, "float32", *shape):
            case.check(xp)
    assert library.cache_info().misses - before <= len(cases(adam, "float32", 3, 4))


def test_what_a_kernel_was_not_made_for_is_left_to_the_definition():
    case, *_ = cases(lstm, "float32", 3, 5)
    left = []
    for i, x in enumerate(case.inputs):
        inputs = [*case.inputs[:i], np.zeros((2, *x.shape), x.dtype), *case.inputs[i + 1 :]]
        Case("Fused", case.attrs, inputs).run(xp, lambda *arrays: left.append(arrays) or xp.zeros(()))
    x = np.zeros((3, 4))
    for inputs, axis in (([x], 0), ([x[:0]], -1), ([x[:, :0]], -1), ([x[0, 0]], -1), ([np.zeros((1, 1 << 17))], -1)):
        inputs = list(map(np.asarray, inputs))
        Case("Softmax", {"axis": axis}, inputs).run(xp, lambda *arrays: left.append(arrays) or xp.zeros(()))
    assert len(left) == len(case.inputs) + 5


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_are_checked_and_the_host_waits_once(label):
    definition = definition_of("SparseSoftmaxCrossEntropyWithLogits")
    logits = xp.asarray(np.zeros((2, 3)))
    kernel = find_compiled(xp, definition.type, {}, [logits.dtype], lambda *given: definition.kernel(xp, *given))
    WAITS.reasons.clear()
    kernel(xp.asarray(np.int32([0, 2])), logits)
    assert WAITS.reasons == ["int"]
    with pytest.raises(IndexError, match="labels have to lie in 0 to 2"):
        kernel(xp.asarray(np.int32([0, label])), logits)


def test_what_can_not_be_compiled_says_what_to_try():
    with pytest.raises(GraphError, match="cannot be compiled") as caught:
        launching.find_function(xp, "KERNEL wrong(Index n) { n = }", "wrong", np.dtype("f"), 1, Grid((1,), (256, 1)))
    assert "expected" in str(caught.value.got)
    assert "native=False" in caught.value.hint


def test_only_operations_that_there_are_and_dtypes_that_kernels_have():
    assert all(definition_of(type).runs_on == "device" for type in registered_types())
    half = np.dtype(np.float16)
    assert find_compiled(xp, "Softmax", {"axis": -1}, [half], None) is None
    assert find_compiled(np, "Softmax", {"axis": -1}, [np.dtype("f")], None) is None
