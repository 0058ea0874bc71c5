"""A graph's meaning in thirty lines: call the kernels in order, walk back with the gradient functions."""

import importlib
import pkgutil

import numpy as np
import tagloom.ops
from tagloom.ir.apply import apply, as_typed
from tagloom.ir.definition import NotDifferentiable, all_definitions


def declare_all():
    """Import every module of operations and return their definitions."""
    for module in pkgutil.walk_packages(tagloom.ops.__path__, "tagloom.ops."):
        importlib.import_module(module.name)
    return [d for d in all_definitions() if not d.type.startswith("Test")]


def run_kernel(definition, arrays, attrs):
    """Call a kernel and return its results as a list of arrays."""
    wanted = {key: attrs[key] for key in definition.attrs}
    result = definition.kernel(np, *arrays, **wanted)
    return [np.asarray(r, r.dtype) for r in (result if isinstance(result, (list, tuple)) else [result])]


def evaluate(tensors, feeds):
    """Return the values of tensors of a graph without control flow; `feeds` maps tensors to arrays."""
    values = dict(feeds)

    def value(tensor):
        if tensor not in values:
            op = tensor.op
            made = (
                [op.attrs["value"]]
                if op.type == "Const"
                else run_kernel(op.definition, list(map(value, op.inputs)), op.attrs)
            )
            values.update(zip(op.outputs, made, strict=True))
        return values[tensor]

    return [value(t) for t in tensors]


def pull_back(outputs, cotangents, xs):
    """Return the cotangents of `xs` (None where nothing flows), built by the gradient functions."""
    found = {y: c for y, c in zip(outputs, cotangents, strict=True) if c is not None}
    for op in reversed(list(outputs[0].region.operations)):
        given = [found.get(y) for y in op.outputs]
        if all(g is None for g in given) or isinstance(op.definition.gradient, NotDifferentiable):
            continue
        for x, g in zip(op.inputs, op.definition.gradient(op, *given), strict=True):
            if g is not None:
                found[x] = as_typed(g) if x not in found else apply("Add", found[x], g)
    return [found.get(x) for x in xs]
