"""Fused operations as text: a cell of an LSTM is the kernel that one would write by hand."""

import re

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.cuda.launching import read_source
from tagloom.kernels.cuda.registry import find_compiled
from tagloom.kernels.cuda.writing import Input, is_flat, write_fused
from tagloom.kernels.steps import STEPS, RowLoop, StepKind

from tests.cuda.cases import fused
from tests.cuda.host import xp
from tests.kernels.step_cases import CASES
from tests.kernels.step_cases import fused as fused_step


def test_a_cell_of_an_lstm(golden):
    with tg.Graph().as_default():
        z, c = tg.placeholder("float32", [64, 2048]), tg.placeholder("float32", [64, 512])
        i, f, g, o = tg.split(z, 4, axis=1)
        new = tg.sigmoid(f) * c + tg.sigmoid(i) * tg.tanh(g)
        (case,) = fused([tg.sigmoid(o) * tg.tanh(new), new], np.random.default_rng(0))
    inputs = [Input(x.shape[-1], has_rows=True) for x in case.inputs]
    golden("cuda_lstm", write_fused(case.attrs["steps"], inputs, case.attrs["results"]))


@pytest.mark.parametrize("name", STEPS)
def test_every_step_is_written(name):
    """With or without a compiler; `test_every_step` of test_kernels.py compiles all steps and runs them."""
    attrs, arrays = fused_step(name, "float32")
    inputs = [Input(x.shape[-1] if x.ndim else 0, rows) for x, rows in zip(arrays, attrs["has_rows"], strict=True)]
    inputs += [Input(0, False, is_value=True)] * len(attrs["constants"])
    text = write_fused(attrs["steps"], inputs, attrs["results"])
    step = STEPS[name]
    if step.kind is StepKind.MOVE:
        assert step.cuda is None
        assert text.count("y0[") == len(CASES[name].widths)
    elif isinstance(step.cuda, RowLoop):
        assert f"over_row<{step.cuda.join}>" in text
    else:
        operators = [part for part in re.split(r"\{\d*\}", step.cuda) if part.strip()]
        assert operators
        assert all(part in text for part in operators)


def test_a_step_that_is_not_in_the_table_is_left_alone():
    attrs = {"steps": [("cbrt", (0,), ())], "constants": (), "results": (1,), "has_rows": (True,), "batch_dims": (2,)}
    assert find_compiled(xp, "Fused", attrs, [np.dtype("f")], None) is None


def test_rows_do_not_matter_where_all_has_one_width():
    add = [("add", (0, 1), ())]
    whole, row, column, number = Input(4, True), Input(4, False), Input(1, True), Input(0, False, True)
    assert is_flat(add, [whole, whole])
    assert is_flat(add, [number, whole])
    assert not any(is_flat(add, [whole, other]) for other in (row, column))
    assert not is_flat([("sum", (0,), ())], [whole])


def test_a_long_chain_is_written():
    steps = [("add", (i, 0), ()) for i in range(3000)]
    assert write_fused(steps, [Input(4, True)], [3000]).count("\n") > 3000


def test_files_are_installed_with_the_package():
    assert all(read_source(name).startswith("//") for name in ("prelude.cu", "rows.cu"))
