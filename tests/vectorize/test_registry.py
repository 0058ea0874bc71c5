"""Every operation for many examples at once: the results and gradients of the samples, one after the other."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError
from tagloom.ir.apply import build, constant
from tagloom.ir.rules.vectorizing import Vectorize
from tagloom.vectorize.function import vectorize
from tagloom.vectorize.walk import RULES

from tests.ops.evaluation import run_kernel
from tests.ops.samples import DEFINITIONS, SAMPLES, flat, same
from tests.support.cases import each

EXAMPLES = 3
# Hand-made control flow, of which gradients exist but no functions are made, has no rule.
PRIMITIVES = {"Enter", "Exit", "Merge", "NextIteration", "Switch", "SwitchN"}
# Differentiable, with a rule of the walk in place of one of the definition; see the tests beside this file.
RULED = [p for p in SAMPLES if p.values[0].has(Vectorize)]


def test_every_differentiable_operation_has_a_rule():
    missing = {d.type for d in DEFINITIONS.values() if d.is_differentiable and not d.has(Vectorize)}
    assert missing - set(RULES) - PRIMITIVES == {"ReadVariable"}  # a variable is the same for all examples


def test_rules_of_the_walk_are_of_declared_types():
    assert not set(RULES) - set(DEFINITIONS)


def scaled(array, i):
    return (array * (1 + i / 8)).astype(array.dtype) if array.dtype.kind in "fc" else array


def rolled(array, i):
    return np.roll(array, i, axis=0) if array.dtype.kind in "iub" and array.ndim else scaled(array, i)


def kept(array, i):
    return array


def examples_of(definition, sample, batched):
    """Return different inputs for each example, with results of equal shapes."""
    arrays, attrs = flat(sample.inputs), {**definition.attrs, **sample.attrs}
    for vary in (rolled, scaled, kept):
        found = [[vary(a, i) if b else a for a, b in zip(arrays, batched, strict=True)] for i in range(EXAMPLES)]
        try:
            with np.errstate(all="ignore"):
                results = [[r.shape for r in run_kernel(definition, each, attrs)] for each in found]
        except Exception:  # these inputs are not valid: the next ones are closer to the sample
            continue
        if all(shapes == results[0] for shapes in results):
            return found
    raise AssertionError("the sample itself fails")


def choices(number):
    """Return which inputs differ between examples: all, and each one alone."""
    return {(True,) * number, *(tuple(i == k for i in range(number)) for k in range(number))} - {()}


class Vectorized:
    """A sample's operation for all examples at once, and for one after the other."""

    def __init__(self, definition, sample, batched):
        self.definition = definition
        self.attrs = {**definition.attrs, **sample.attrs}
        self.batched = batched
        self.rows = examples_of(definition, sample, batched)
        self.stacked = [
            constant(np.stack([row[i] for row in self.rows]) if b else self.rows[0][i]) for i, b in enumerate(batched)
        ]
        self.single = [[constant(a) for a in row] for row in self.rows]

    def operation(self, inputs):
        return build(self.definition.type, list(inputs), **self.attrs).outputs

    def at_once(self, then=lambda inputs, outputs: outputs):
        """Build the operation for all examples, and what `then` builds of its inputs and outputs."""

        def build_one(region, params):
            slices = iter(params)
            with tg.ir.scopes.inside(region):
                inputs = [next(slices) if b else x for x, b in zip(self.stacked, self.batched, strict=True)]
                return then(inputs, self.operation(inputs))

        mapped = [x for x, b in zip(self.stacked, self.batched, strict=True) if b]
        return vectorize(build_one, mapped, constant(np.int32(EXAMPLES)), "example")

    def at_once_or_none(self):
        """Build the operation for all examples; None if an input, such as a shape, has to be the same for all."""
        try:
            return self.at_once()
        except GraphError as error:
            if "differs between the examples" in str(error):
                return None
            raise


@each("definition, sample", RULED, by=lambda definition, _: definition.type)
def test_examples_at_once_are_those_one_after_the_other(definition, sample):
    number, done = len(flat(sample.inputs)), 0
    for batched in sorted(choices(number)):
        with tg.Graph().as_default() as graph:
            case = Vectorized(definition, sample, batched)
            made = case.at_once_or_none()
            if made is None:
                continue
            outputs, differ = made
            wanted = [case.operation(inputs) for inputs in case.single]
        done += 1
        with tg.SyncSession(graph) as session:
            found, rows = session.run([outputs, wanted])
        for i, (value, differs) in enumerate(zip(found, differ, strict=True)):
            stacked = np.stack([row[i] for row in rows])
            same(value, stacked if differs else stacked[0])
            if differs:
                assert outputs[i].shape.includes(tg.Shape(stacked.shape))
    assert done or not number


SMOOTH = [
    p
    for p in RULED
    if p.values[0].is_differentiable
    and p.values[1].differentiable
    and any(a.dtype.kind in "fc" for a in flat(p.values[1].inputs))
    and p.values[0].type != "PreventGradient"
]


@pytest.mark.sampled(every=8)
@each("definition, sample", SMOOTH, by=lambda definition, _: definition.type)
def test_gradients_of_examples_at_once_are_those_of_each(definition, sample):
    for batched in sorted(choices(len(flat(sample.inputs)))):
        check_gradients(definition, sample, batched)


def check_gradients(definition, sample, batched):
    with tg.Graph().as_default() as graph:
        case = Vectorized(definition, sample, batched)
        moved = [
            i for i, (x, b) in enumerate(zip(case.stacked, batched, strict=True)) if b and x.dtype.is_differentiable
        ]
        made = case.at_once_or_none()
        if made is None:
            return
        outputs, _ = made
        smooth = [i for i, y in enumerate(outputs) if y.dtype.is_differentiable]
        if not moved or not smooth:
            return

        def gradients(inputs, results):
            ys = [weigh(results[i]) for i in smooth]
            found = tg.gradients(ys, [inputs[i] for i in moved], unconnected_gradients="zero")
            return [tg.convert_to_tensor(g) for g in found]

        of_batch = gradients(case.stacked, outputs)
        in_batch, _ = case.at_once(gradients)
        wanted = [gradients(inputs, case.operation(inputs)) for inputs in case.single]
    with tg.SyncSession(graph) as session:
        outside, inside, rows = session.run([of_batch, in_batch, wanted])
    for i in range(len(moved)):
        stacked = np.stack([row[i] for row in rows])
        for found in (outside[i], inside[i]):
            np.testing.assert_allclose(np.broadcast_to(found, stacked.shape), stacked, rtol=1e-5, atol=1e-8)


def weigh(y):
    """Return a sum of the elements with slopes that differ, whatever dimensions of examples are in front."""
    magnitudes = tg.abs(y)
    return tg.reduce_sum(magnitudes * magnitudes * magnitudes)
