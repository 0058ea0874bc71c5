"""Programs of fused operations that nobody would write: every step there is, and any steps."""

import numpy as np
from tagloom.kernels.steps import STEPS, StepKind

from tests.cuda.cases import Case


def _named(kind, arity):
    return [name for name, step in STEPS.items() if step.kind is kind and step.arity == arity]


UNARY, BINARY = (_named(StepKind.ELEMENTWISE, arity) for arity in (1, 2))
COMPARISONS = _named(StepKind.COMPARE, 2)
REDUCTIONS = _named(StepKind.REDUCE, 1)
ANYWHERE = ["add", "subtract", "multiply", "maximum", "minimum"]  # of numbers of any sign and size
ORDERS = ["greater", "greater_equal", "less", "less_equal"]  # which rounding changes less than equality


class Writing:
    """Steps while they are written.

    Parameters
    ----------
    widths : list of int
        Of the inputs, 0 for one number.
    """

    def __init__(self, widths):
        self.widths = list(widths)
        self.steps = []

    def add(self, name, operands, width, columns=()):
        self.steps.append((name, tuple(operands), columns))
        self.widths.append(width)
        return len(self.widths) - 1

    def case(self, inputs, has_rows, constants, results, batch_dims):
        attrs = {
            "num": len(results),
            "steps": tuple(self.steps),
            "constants": tuple(constants),
            "batch_dims": batch_dims,
            "results": tuple(results),
            "has_rows": tuple(has_rows),
            "last_dims": tuple(self.widths[i] for i in results),
        }
        return Case("Fused", attrs, inputs)


def every_step(dtype):
    """Return a case that has each step once at least."""
    rng = np.random.default_rng(4)
    x, row = (np.asarray(rng.uniform(0.2, 2, shape), dtype) for shape in ((3, 4), (4,)))
    write = Writing([4, 4, 0])
    results = [write.add(name, [0], 4) for name in UNARY]
    results += [write.add(name, [0, 1], 4) for name in BINARY]
    results += [write.add("where", [write.add(name, [0, 2], 4), 0, 1], 4) for name in COMPARISONS]
    columns = [write.add(name, [results[0]], 1) for name in REDUCTIONS]
    results += [write.add("broadcast", [columns[0]], 3, (0, 3)), write.add("slice", [0], 2, (1, 3))]
    results += [write.add("concat", [0, *columns, results[-1]], 10), *columns]
    return write.case([x, row], [True, False], [np.asarray(0.9, dtype)], results, (3,))


def any_steps(rng, dtype, count=14):
    """Return a case of random steps."""
    batch_dims = [(4,), (2, 3), ()][rng.integers(3)]
    shapes = [((*batch_dims, 5), True), ((*batch_dims, 1), True), ((5,), False), ((), False), ((*batch_dims, 3), True)]
    inputs = [np.asarray(rng.standard_normal(shape), dtype) for shape, _ in shapes]
    write = Writing([5, 1, 5, 0, 3, 0])
    made = [write.add("add", [0, 2], 5), write.add("multiply", [0, 1], 5)]
    full = [0, 1, 4, *made]  # registers that have all rows
    while len(write.steps) < count:
        full.append(_any_step(rng, write, full))
    results = sorted({*map(int, rng.choice(full[3:], 4)), full[-1]})
    constants = [np.asarray(0.5, dtype)]
    return write.case(inputs, [whole for _, whole in shapes], constants, results, batch_dims)


def _any_step(rng, write, full):
    x = int(rng.choice(full))
    width = write.widths[x]
    kind = rng.choice(["unary", "binary", "reduce", "broadcast", "slice", "concat", "where"])
    if kind == "unary":
        return write.add(str(rng.choice(["tanh", "sigmoid", "sin", "negative"])), [x], width)
    if kind == "reduce":
        return write.add(str(rng.choice(REDUCTIONS)), [x], 1)
    if kind == "broadcast":
        column = x if width == 1 else write.add("max", [x], 1)
        return write.add("broadcast", [column], 5, (0, 5))
    if kind == "slice":
        start = int(rng.integers(width))
        stop = int(rng.integers(start, width)) + 1
        return write.add("slice", [x], stop - start, (start, stop))
    if kind == "concat":
        parts = [x, *map(int, rng.choice(full, 2))]
        return write.add("concat", parts, sum(write.widths[i] for i in parts))
    fitting = [i for i in (*full, 3, 5) if write.widths[i] in (0, 1, width)]
    other = int(rng.choice(fitting))
    if kind == "binary":
        return write.add(str(rng.choice(ANYWHERE)), [x, other], width)
    mask = write.add(str(rng.choice(ORDERS)), [x, other], width)
    return write.add("where", [mask, x, other], width)
