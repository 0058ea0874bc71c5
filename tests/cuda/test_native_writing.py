"""Kernels of native programs as text: what a loop becomes, where threads wait, and what can not be written."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.device_names import DeviceSpec
from tagloom.compile import DeviceTarget, Target, compile_until
from tagloom.ir.program import Program
from tagloom.kernels.native.cuda.generator import cuda_generator
from tagloom.kernels.native.cuda.inputs import host_inputs
from tagloom.kernels.native.cuda.reductions import lanes_for
from tagloom.kernels.native.cuda.values import NotWritten, Strided, Value, broadcast, row_strides, write_literal
from tagloom.kernels.native.cuda.writer import write_kernel
from tagloom.kernels.native.cuda.written import Given
from tagloom.kernels.native.program import Code, NativeProgram

from tests.cuda.loops import PROGRAMS, below
from tests.support.settings import ON

GENERATOR = cuda_generator(SimpleNamespace(RawModule=None))
CUDA = Target(ON, (DeviceTarget(DeviceSpec(), backend=lambda settings: None, generator=GENERATOR),))


def native_programs(program, target=CUDA):
    """Return the native programs of a step."""
    with tg.Graph().as_default() as graph:
        fetches, feeds = program()
    form = compile_until("straight", Program(graph, list(feeds), [t for t in fetches if t is not None]), target)
    found = [op.attrs["program"] for op in form.graph.root.walk() if "program" in op.attrs]
    return [NativeProgram.from_attribute(each) for each in found]


def written(program, **shapes):
    """Return the kernel of the only loop of a program, given arrays of shapes by the names of its inputs."""
    (native,) = native_programs(program)
    names = {r: native.registers[r] for r in native.inputs}
    given = {r: Given("array", shapes.get(name, ()), dtype) for r, (name, dtype) in names.items()}
    return write_kernel(native, given)


def tanh_loop():
    a, w = tg.placeholder("float32", [2, 3], "a"), tg.placeholder("float32", [3, 3], "w")
    return [tg.while_loop(below(5), lambda i, x: (i + 1, tg.tanh(x @ w) + a), [0, a])[1]], [a, w]


def test_golden_loop_with_a_product(golden):
    golden("cuda_native", written(tanh_loop, a=(2, 3), w=(3, 3)).code)


def test_a_loop_of_numbers_has_no_waiting_in_it():
    kernel = written(lambda: ([tg.while_loop(below(9), lambda i: i * 2 + 1, [0])], []))
    assert kernel.code.count("__syncthreads") == 1  # where a launch begins
    assert kernel.threads == 32


def test_threads_wait_where_they_see_elements_of_others_alone():
    """Two moves of whole arrays and three elementwise operations need none; each product needs two."""

    def elements():
        x = tg.placeholder("float32", [40], "x")
        return [tg.while_loop(below(9), lambda i, y: (i + 1, tg.floor(tg.tan(y)) + x), [0, x])[1]], [x]

    def waits(kernel):
        body = kernel.code[kernel.code.index("case 1:") :]
        return sum(text.count("__syncthreads") for text in re.split(r"case \d+:", body))

    assert waits(written(elements, x=(40,))) < waits(written(tanh_loop, a=(2, 3), w=(3, 3)))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_all_loops_are_programs(program):
    natives = native_programs(program)
    assert natives
    assert all(native.registers[native.inputs[k]][1] is not None for native in natives for k in host_inputs(native))


def test_instructions_without_a_form():
    without = {Code.GATHER, Code.SCATTER, Code.STACK, Code.UNSTACK, Code.NEW, Code.PUSH_AT}
    assert {code for code in Code if not GENERATOR.has_code(code)} == without


def test_on_a_cpu_programs_are_those_of_kernels_in_c():
    cpu = Target(ON, (DeviceTarget(DeviceSpec()),))
    limited = Target(ON, (DeviceTarget(DeviceSpec(), 1 << 20, lambda settings: None, GENERATOR),))
    assert native_programs(tanh_loop, cpu)
    assert not native_programs(tanh_loop, limited)


@pytest.mark.parametrize(
    ("rows", "columns", "are_neighbours", "lanes"),
    [
        (1024, 16, True, 16),  # a row, of which 64 are summed at a time
        (1024, 1000, True, 32),  # a warp, though there are rows for all threads
        (1024, 1000, False, 1),  # whose neighbours are in other rows
        (16, 1024, False, 64),  # all 1024 threads
        (3, 300, True, 64),  # of 256
        (5, 1, True, 1),
    ],
)
def test_how_many_threads_sum_a_row(rows, columns, are_neighbours, lanes):
    assert lanes_for(rows, columns, are_neighbours) == lanes


def test_what_is_too_large_is_not_written():
    with pytest.raises(NotWritten, match="has 1000000 elements"):
        written(tanh_loop, a=(1000, 1000), w=(1000, 1000))
    with pytest.raises(NotWritten, match="multiplications"):
        written(tanh_loop, a=(200, 300), w=(300, 300))
    with pytest.raises(NotWritten, match="cannot be multiplied"):
        written(tanh_loop, a=(2, 3), w=(4, 3))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "((float)(0.10000000149011612))"),
        (np.float64("-inf"), "((double)(-infinity()))"),
        (np.float64("nan"), "((double)(infinity() - infinity()))"),
        (np.int64(-(2**63)), "((long long)(-9223372036854775807LL - 1))"),
        (np.uint8(200), "((unsigned char)(200ULL))"),
        (np.bool_(True), "((bool)(1))"),
    ],
)
def test_literals(value, text):
    assert write_literal(value) == text


@pytest.mark.parametrize(
    "view",
    [
        Strided((2, 3, 4), row_strides((2, 3, 4))),
        Strided((4, 3, 2), (1, 4, 12)),
        Strided((3, 2), (0, 1)),
        Strided((2, 5), (0, 0), "7"),
        Strided((1, 3, 1), (9, -2, 5), "6"),
        Strided((), (), "3"),
    ],
)
def test_where_elements_are(view):
    numbers = np.arange(100)
    offset = int(view.offset)
    wanted = np.lib.stride_tricks.as_strided(numbers[offset:], view.shape, [8 * s for s in view.strides]).ravel()
    text = view.index("i").replace("/", "//")
    assert [eval(text, {"i": i}) for i in range(wanted.size)] == list(wanted)
    assert view.is_plain == (offset == 0 and list(wanted) == list(range(wanted.size)))


def test_shapes_that_do_not_go_together():
    value = Value(np.dtype("f"), (3, 1), "x")
    assert broadcast(value, (2, 3, 4)).strides == (0, 1, 0)
    with pytest.raises(NotWritten):
        broadcast(value, (2, 4))
