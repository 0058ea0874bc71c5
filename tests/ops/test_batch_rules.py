"""Batch rules: an operation emitted for many instances at once gives what each instance gives."""

from itertools import product

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.builder import Builder
from tagloom.ir.definition import all_definitions
from tagloom.ir.rules.batching import Batch
from tagloom.ops.support.shape_equality import BINARY, UNARY

from tests.support.cases import each

INSTANCES = 3


def flat(sample):
    """Return the inputs of a sample in one list."""
    return [array for each in sample.inputs for array in (each if isinstance(each, list) else [each])]


def cases():
    for definition in all_definitions():
        for number, sample in enumerate(definition.samples if definition.has(Batch) else ()):
            for varying in product([False, True], repeat=len(flat(sample))):
                if any(varying):
                    yield pytest.param(definition, sample, varying, id=f"{definition.type}-{number}-{varying}")


def instances(array):
    """Return other arrays of the same elements, so that indices stay indices."""
    return np.stack([np.roll(array, k) for k in range(INSTANCES)])


def built(definition, sample):
    """Return the operation of a sample on placeholders, which are its inputs."""
    with tg.Graph().as_default() as graph:
        inputs = [tg.placeholder(np.asarray(a).dtype.name, np.shape(a)) for a in flat(sample)]
        return Builder(graph.root, inputs[0].op).emit(definition.type, *inputs, **{**definition.attrs, **sample.attrs})


@each("definition, sample, varying", cases(), by=lambda definition, *_: definition.type)
def test_all_instances_at_once_are_each_of_them(definition, sample, varying):
    op = built(definition, sample)
    emit = definition.rule(Batch).rule(op, varying)
    if emit is None:
        return  # there is no way, as the next test allows in some cases
    arrays = [np.asarray(array) for array in flat(sample)]
    given = [instances(a) if v else a for a, v in zip(arrays, varying, strict=True)]
    with op.graph.as_default():
        batched = [tg.placeholder(a.dtype.name, a.shape) for a in given]
    outputs = emit(Builder(op.region, op), batched)
    with tg.SyncSession(op.graph) as session:
        found = session.run(outputs, dict(zip(batched, given, strict=True)))
        for k in range(INSTANCES):
            each = [g[k] if v else g for g, v in zip(given, varying, strict=True)]
            wanted = session.run(op.outputs, dict(zip(op.inputs, each, strict=True)))
            for one, other in zip(wanted, found, strict=True):
                np.testing.assert_allclose(other[k], one, rtol=1e-12, atol=1e-12)


@each("definition", [d for d in all_definitions() if d.has(Batch)])
def test_each_rule_does_something(definition):
    own = [case.values[1:] for case in cases() if case.values[0] is definition]
    assert any(definition.rule(Batch).rule(built(definition, sample), varying) is not None for sample, varying in own)


def test_all_elementwise_operations_have_a_rule():
    rules = {definition.type for definition in all_definitions() if definition.has(Batch)}
    assert rules >= UNARY | BINARY | {"Where", "Cast", "Sum", "Mean", "Max", "Softmax", "Reshape", "Transpose"}
