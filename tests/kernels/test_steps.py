"""The table of steps: every row means what its case says, to the definition of Fused and to its C kernel."""

from itertools import product

import numpy as np
import pytest
from tagloom.ir.definition import definition_of
from tagloom.kernels.cuda.writing import Input, find_widths
from tagloom.kernels.steps import STEPS, StepKind, has_all_rows, stands_for_all_rows

from tests.kernels.calling import counting, got
from tests.kernels.step_cases import CASES, FLOATS, ROWS, fused, operands, program, wanted


def assert_close(found, expected, name):
    assert found.shape == expected.shape
    eps = 16 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=eps, atol=eps, err_msg=name)


def test_every_step_has_a_case():
    assert set(CASES) == set(STEPS)
    for name, step in STEPS.items():
        assert step.name == name
        assert step.arity in (None, len(CASES[name].widths))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", STEPS)
def test_the_meaning(name, dtype):
    step = STEPS[name]
    found = step.numpy(np, operands(name, dtype), CASES[name].columns, (ROWS,))
    assert found.dtype == (bool if step.kind is StepKind.COMPARE else dtype)
    assert_close(np.asarray(found, dtype), wanted(name, dtype), name)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.kind is StepKind.COMPARE])
def test_comparisons_of_integers_and_truth_values(name, dtype):
    x, y = (np.array(values).astype(dtype) for values in ([0, 1, 1, -1], [0, 0, 1, 1]))
    found = STEPS[name].numpy(np, [x, y], (), ())
    assert found.dtype == bool
    assert found.tolist() == [bool(CASES[name].wanted(a, b)) for a, b in zip(x, y, strict=True)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", STEPS)
def test_the_definition_and_the_c_kernel(name, dtype):
    attrs, inputs = fused(name, dtype)
    definition = definition_of("Fused")
    (meant,) = definition.kernel(np, *inputs, **{key: attrs[key] for key in definition.attrs})
    calls = []
    (found,) = got("Fused", [inputs], attrs, np.asarray, lambda plan: counting(plan, calls))
    assert calls == []  # the C kernel did not decline
    assert meant.dtype == found.dtype == dtype
    assert_close(meant, wanted(name, dtype), name)
    assert_close(found, meant, name)


@pytest.mark.parametrize("name", STEPS)
def test_rows_fit_by_one_rule(name):
    """Of operands of all widths, with all rows or one for all: the C kernel declines what the rule refuses."""
    columns, count, accepted = CASES[name].columns, len(CASES[name].widths), 0
    choices = [(0, False), (1, True), (1, False), (4, True), (4, False), (3, True)]
    for chosen in product(choices if count < 3 else choices[1:5], repeat=count):
        widths, has_rows = zip(*chosen, strict=True)
        attrs = program(name, widths, columns, "float32", has_rows)
        inputs = [Input(*each) for each in chosen] + [Input(0, False)] * len(attrs["constants"])
        try:
            attrs["last_dims"] = (find_widths(attrs["steps"], inputs)[-1],)
        except ValueError:
            attrs["last_dims"] = None
        fits = attrs["last_dims"] is not None
        attrs["last_dims"] = attrs["last_dims"] or (1,)
        shapes = [((ROWS, w) if rows else (w,)) if w else () for w, rows in chosen]
        calls = []
        found = got(
            "Fused",
            [[np.ones(shape, np.float32) for shape in shapes]],
            attrs,
            np.asarray,
            lambda plan, calls=calls: counting(plan, calls),
        )
        assert (calls == []) == fits, (chosen, found)
        if fits:
            assert found[0].shape == (ROWS, *attrs["last_dims"])
        accepted += fits
    assert accepted


@pytest.mark.parametrize(
    ("dims", "batch_dims", "all_rows", "one_for_all"),
    [
        ((), (3,), False, True),
        ((4,), (), True, True),
        ((4,), (3,), False, True),
        ((1, 4), (3,), False, True),
        ((1, 4), (1,), True, True),
        ((3, 4), (3,), True, False),
        ((None, 4), (None,), True, False),
        ((None, 4), (3,), False, False),
        ((1, 3, 4), (3,), False, False),
    ],
)
def test_which_dimensions_take_part(dims, batch_dims, all_rows, one_for_all):
    assert has_all_rows(dims, batch_dims) == all_rows
    assert stands_for_all_rows(dims, batch_dims) == one_for_all


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "negative", "square"])
def test_short_loops_round_as_numpy_does(name, dtype):
    """Of any number of elements, of one number in the place of each operand, and of what is no ordinary number."""
    rng, operation = np.random.default_rng(0), getattr(np, name)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny / 8, np.finfo(dtype).max], dtype)
    for width in range(1, 40):
        shape = 2, ROWS, width
        both = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), 10 * rng.random(shape))
        arrays = tuple(both.astype(dtype))
        number = np.asarray(arrays[0].flat[0])
        for operands_ in [arrays, (arrays[0], number), (number, arrays[1])] if operation.nin == 2 else [arrays[:1]]:
            widths = [width if each.ndim else 0 for each in operands_]
            attrs = program(name, widths, (), dtype, [each.ndim > 0 for each in operands_])
            attrs["last_dims"] = (width,)
            (found,) = got("Fused", [list(operands_)], attrs, np.asarray)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(found, operation(*operands_), strict=True)
                assert (np.signbit(found) == np.signbit(operation(*operands_)))[~np.isnan(found)].all()
