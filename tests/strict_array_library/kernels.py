"""Samples of operations in every dtype, run with an array library and compared with what NumPy gives."""

from dataclasses import replace
from functools import partial

import numpy as np
from tagloom.base import dtypes
from tagloom.base.errors import TagloomError
from tagloom.kernels.cuda.registry import find_compiled


def on_device(definition, arguments, asarray):
    """Return a sample's inputs in a flat list, those of the device made by `asarray`."""
    pairs = definition.signature.group(arguments, definition.type)
    return [np.asarray(value) if parameter.is_host else asarray(value) for parameter, value in pairs]


def computed(definition, xp, inputs, attrs):
    """Return what the kernel returns as a list."""
    wanted = {key: attrs[key] for key in definition.attrs}
    result = definition.kernel(xp, *inputs, **wanted)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def output_parameters(definition, count):
    """Return the parameter of each of so many outputs."""
    outputs = definition.signature.outputs
    return [outputs[min(i, len(outputs) - 1)] for i in range(count)]


def is_for_device(definition, sample):
    """Whether a GPU's array library can hold a sample: its kernel runs there, and nothing is a string."""
    flat = [a for x in sample.inputs for a in (x if isinstance(x, list) else [x])]
    return definition.runs_on == "device" and all(np.asarray(a).dtype.kind in "biufc" for a in flat)


def variants(definition, sample):
    """Yield the sample, and what it becomes when one type variable stands for another dtype."""
    yield sample
    for variable in sorted({p.type for p in definition.signature.inputs} & {"T", "I", "J"}):
        for dtype in dtypes.PORTABLE:
            if dtype in definition.signature.where.get(variable, dtypes.VALUES):
                yield replace(sample, inputs=list(recast(definition, sample, variable, dtype.numpy)))


def recast(definition, sample, variable, dtype):
    """Yield the sample's inputs, those of a type variable in another dtype."""
    for parameter, argument in zip(definition.signature.inputs, sample.inputs, strict=True):
        if parameter.type != variable:
            yield argument
        elif parameter.many:
            yield [np.asarray(a).astype(dtype) for a in argument]
        else:
            yield np.asarray(argument).astype(dtype)


def run(definition, sample, library):
    """Return the results, or the class of what is raised."""
    inputs = on_device(definition, sample.inputs, library.asarray)
    try:
        return computed(definition, library, inputs, {**definition.attrs, **sample.attrs})
    except (ValueError, IndexError, ZeroDivisionError, TagloomError) as error:
        return type(error)


def run_compiled(definition, sample, library):
    """Return the results of the kernel in CUDA C, None where there is none."""
    inputs = on_device(definition, sample.inputs, library.asarray)
    attrs = {**definition.attrs, **sample.attrs}
    plain = partial(computed, definition, library, attrs=attrs)
    kernel = find_compiled(library, definition.type, attrs, [inputs[-1].dtype], lambda *given: plain(given))
    if kernel is None:
        return None
    result = kernel(*inputs)
    return result if isinstance(result, list) else [result]


def _dtype(operand):
    return np.asarray(operand[0] if isinstance(operand, list) and operand else operand).dtype


def compare(definition, found, wanted, ulps=4, operands=()):
    """Fail unless the results are NumPy's, in the memory that the signature says, within so many roundings.

    Of operands that have fewer digits than the results, if they are given.
    """
    if isinstance(wanted, type) or isinstance(found, type):
        assert found is wanted
        return
    coarse = [np.finfo(d).eps for d in map(_dtype, operands) if d.kind in "fc"]
    for parameter, ours, theirs in zip(output_parameters(definition, len(wanted)), found, wanted, strict=True):
        assert hasattr(ours, "get") != parameter.is_host, parameter
        assert ours.dtype == np.asarray(theirs).dtype
        assert ours.shape == np.shape(theirs)
        eps = ulps * max([np.finfo(ours.dtype).eps, *coarse]) if ours.dtype.kind in "fc" else 0
        values = ours.get() if hasattr(ours, "get") else ours
        np.testing.assert_allclose(values, theirs, rtol=eps, atol=eps if ulps > 4 else 0)
