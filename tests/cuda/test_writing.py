"""Fused operations as text: a cell of an LSTM is the kernel that one would write by hand."""

import numpy as np
import tagflow as tg
from tagflow.compile.fuse.rules import COMPARISONS, STEPS
from tagflow.ir.definition import Ufunc, definition_of
from tagflow.kernels.cuda.launching import source
from tagflow.kernels.cuda.registry import find_compiled
from tagflow.kernels.cuda.writing import KNOWN, Input, is_flat, write_fused

from tests.cuda.cases import fused
from tests.cuda.host import xp


def test_a_cell_of_an_lstm(golden):
    with tg.Graph().as_default():
        z, c = tg.placeholder("float32", [64, 2048]), tg.placeholder("float32", [64, 512])
        i, f, g, o = tg.split(z, 4, axis=1)
        new = tg.sigmoid(f) * c + tg.sigmoid(i) * tg.tanh(g)
        (case,) = fused([tg.sigmoid(o) * tg.tanh(new), new], np.random.default_rng(0))
    inputs = [Input(x.shape[-1], is_full=True) for x in case.inputs]
    golden("cuda_lstm", write_fused(case.attrs["steps"], inputs, case.attrs["results"]))


def test_all_that_fuses_can_be_written():
    kernels = [definition_of(type).kernel for type in {*STEPS, *COMPARISONS}]
    assert {kernel.name for kernel in kernels if isinstance(kernel, Ufunc)} <= KNOWN
    attrs = {"steps": [("cbrt", (0,), ())], "constants": (), "results": (1,), "full": (True,), "lead": (2,)}
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
    assert all(source(name).startswith("//") for name in ("prelude.cu", "rows.cu"))
