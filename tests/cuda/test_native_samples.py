"""Each operation that kernels of native programs know, on its samples in every dtype: what NumPy gives."""

import warnings

import numpy as np
import pytest
from tagloom.ir.definition import Ufunc
from tagloom.kernels.native.cuda.emitting import can_emit
from tagloom.kernels.native.cuda.inputs import host_inputs
from tagloom.kernels.native.cuda.kernel import NativeKernel
from tagloom.kernels.native.cuda.values import NotWritten
from tagloom.kernels.native.cuda.writer import write_kernel
from tagloom.kernels.native.cuda.written import Given
from tagloom.kernels.native.program import Code, Computation, Instruction, NativeProgram

from tests.cuda.host import compiler, xp
from tests.ops.samples import DEFINITIONS
from tests.strict_array_library.kernels import is_for_device, run, variants

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="compiler() found no C++ compiler"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning"),
]


def computation(definition, attrs):
    ufunc = definition.kernel.name if isinstance(definition.kernel, Ufunc) else None
    return Computation(definition.type, definition.type, {**definition.attrs, **attrs}, ufunc)


def flat(inputs):
    return [np.asarray(a) for x in inputs for a in (x if isinstance(x, list) else [x])]


def written_samples(definition):
    """Return computations, inputs and what NumPy gives, of samples in all dtypes that are written."""
    numeric = [each for each in definition.samples if is_for_device(definition, each)]
    for sample in (other for each in numeric for other in variants(definition, each)):
        inputs, wanted = flat(sample.inputs), run(definition, sample, np)
        if isinstance(wanted, type):
            continue
        wanted = [np.asarray(each) for each in wanted]
        found = computation(definition, sample.attrs)
        if can_emit(found, [each.dtype for each in (*inputs, *wanted)]):
            yield found, inputs, wanted


class Sequence:
    """Operations one after the other, as a program; their results are moved to where results are."""

    def __init__(self):
        self.registers, self.inputs, self.instructions, self.values = [], [], [], []

    def add(self, each, inputs, wanted):
        given = [self.register(value) for value in inputs]
        self.inputs += given
        self.values += inputs
        made, results = ([self.register(value) for value in wanted] for _ in range(2))
        self.instructions.append(Instruction(Code.COMPUTE, tuple(given), tuple(made), computation=each))
        self.instructions.append(Instruction(Code.MOVE, tuple(made), tuple(results)))
        return results

    def register(self, value):
        self.registers.append(("", value.dtype))
        return len(self.registers) - 1

    def program(self, results):
        return NativeProgram(
            "samples", tuple(self.registers), tuple(self.inputs), tuple(results), {}, tuple(self.instructions)
        )

    def refusal(self, results):
        """Return why it is not written, None if it is."""
        program = self.program(results)
        hosts = host_inputs(program)
        pairs = enumerate(zip(self.inputs, self.values, strict=True))
        given = {r: Given("array", v.shape, v.dtype, v if k in hosts else None) for k, (r, v) in pairs}
        try:
            write_kernel(program, given)
        except NotWritten as reason:
            return str(reason)
        return None

    def run(self, results):
        """Return what the kernel leaves in registers."""
        kernel = NativeKernel(xp, self.program(results), lambda *_: None)
        run = kernel(*(self.given(kernel, k, value) for k, value in enumerate(self.values)))
        assert run is not None, kernel.reason
        assert not run.goes_on(run.state.get())
        ok, *found = run.results(run.state.get(), [], lambda function, *args: function(*args))
        assert ok
        return [each.get() if isinstance(each, xp.ndarray) else each for each in found]

    def given(self, kernel, k, value):
        if k in kernel.on_host:
            return value
        return xp.asarray(value) if value.ndim or k % 2 else value[()]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    WRITTEN = [name for name, each in DEFINITIONS.items() if any(True for _ in written_samples(each))]


def test_most_operations_are_written():
    assert {"Add", "Cast", "Concat", "Fused", "Gather", "MatMul", "Reshape", "StridedSlice", "SumTo"} <= {*WRITTEN}
    assert len(WRITTEN) > 70


# Samples that are left to the step machine, and why.
LEFT = {
    "Fused": "has constants of another dtype",
    "Gather": "gathers in batches",
    "MatMul": "is of batches of matrices",
    "Mean": "reduces nothing",
}


@pytest.mark.sampled(every=16)
@pytest.mark.parametrize("type", WRITTEN)
def test_what_numpy_gives(type):
    sequence, results, wanted, left = Sequence(), [], [], set()
    for sample in written_samples(DEFINITIONS[type]):
        alone = Sequence()
        if reason := alone.refusal(alone.add(*sample)):
            left.add(reason)
        else:
            results += sequence.add(*sample)
            wanted += sample[-1]
    assert all(LEFT[type] in reason for reason in left)
    assert bool(left) == (type in LEFT)
    for found, expected in zip(sequence.run(results), wanted, strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        eps = 16 * np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0
        np.testing.assert_allclose(found, expected, rtol=eps, atol=eps)
