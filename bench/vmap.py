"""Functions of a single example computed for many at once: solves of an ODE, gradients, a Hessian, a Jacobian.

Beside `vectorized_map` the same function in `map_fn` with batches of 64 elements, and element by element. The Hessian
and the Jacobian, which have no elements, take all rows at once or one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step

SOLVES, EXAMPLES, PARAMETERS, LENGTH = 64, 256, 16, 100
BATCH, ALL = 64, 0  # elements at once
WIDTHS = (16, 32, 1)
SHARED = ("where", "minimum", "maximum", "sqrt", "abs", "stack", "tanh", "reshape")  # functions with one name in both
END, TOLERANCE = np.float32(2.0), np.float32(1e-4)
_RANDOM = np.random.default_rng(5)

STARTS = np.stack([np.linspace(0.5, 2.0, SOLVES), np.linspace(-1.0, 1.0, SOLVES)], 1).astype(np.float32)
WEIGHTS = [(_RANDOM.standard_normal(shape) / 4).astype(np.float32) for shape in pairwise(WIDTHS)]
INPUTS = _RANDOM.standard_normal((EXAMPLES, WIDTHS[0])).astype(np.float32)
TARGETS = _RANDOM.standard_normal(EXAMPLES).astype(np.float32)
POINT = np.linspace(0.1, 0.9, PARAMETERS).astype(np.float32)
MIXING = (_RANDOM.standard_normal((PARAMETERS, PARAMETERS)) / 3).astype(np.float32)
SERIES = (_RANDOM.standard_normal((LENGTH, PARAMETERS)) / 4).astype(np.float32)


def _controlled(ops: Any, h: Any, error: Any) -> tuple[Any, Any]:
    """Return whether a step is accepted, and the size of the next one."""
    factor = 0.9 * ops.sqrt(TOLERANCE / ops.maximum(error, np.float32(1e-10)))
    return error < TOLERANCE, h * ops.minimum(np.float32(2.0), ops.maximum(np.float32(0.2), factor))


def solve_scalars(ops: Any, start: Any) -> Any:
    """Solve the equation of van der Pol by Heun's method with steps of their own size, the state in two scalars."""

    def slope(y: Any, z: Any) -> tuple[Any, Any]:
        return z, (1.0 - y * y) * z * 2.0 - y

    def advance(t: Any, y: Any, z: Any, h: Any) -> tuple[Any, ...]:
        h = ops.minimum(h, END - t)
        a, b = slope(y, z)
        c, d = slope(y + h * a, z + h * b)
        error = h * ops.maximum(ops.abs(c - a), ops.abs(d - b)) * 0.5
        accepted, wanted = _controlled(ops, h, error)
        y, z = (
            ops.where(accepted, y + h * (a + c) * 0.5, y),
            ops.where(accepted, z + h * (b + d) * 0.5, z),
        )
        return ops.where(accepted, t + h, t), y, z, wanted

    zero = start[0] * 0.0
    return ops.loop(lambda t, *_: t < END - 1e-6, advance, (zero, start[0], start[1], zero + 0.1))[1:3]


def solve_vector(ops: Any, start: Any) -> Any:
    """Solve the same equation, the state in a vector."""

    def slope(y: Any) -> Any:
        return ops.stack([y[1], (1.0 - y[0] * y[0]) * y[1] * 2.0 - y[0]])

    def advance(t: Any, y: Any, h: Any) -> tuple[Any, ...]:
        h = ops.minimum(h, END - t)
        a = slope(y)
        b = slope(y + h * a)
        accepted, wanted = _controlled(ops, h, h * ops.max(ops.abs(b - a)) * 0.5)
        return ops.where(accepted, t + h, t), ops.where(accepted, y + h * (a + b) * 0.5, y), wanted

    zero = start[0] * 0.0
    return ops.loop(lambda t, *_: t < END - 1e-6, advance, (zero, start, zero + 0.1))[1:2]


def loss(ops: Any, weights: list[Any], x: Any, target: Any) -> Any:
    """Return the squared error of a small network for an example."""
    hidden = ops.tanh(ops.reshape(x, (1, WIDTHS[0])) @ weights[0])
    return ops.sum(((hidden @ weights[1])[0, 0] - target) ** 2.0)


def energy(ops: Any, x: Any) -> Any:
    """Return a number that a loop computes from all parameters."""
    step = lambda i, y: (i + 1, ops.tanh(ops.reshape(ops.reshape(y, (1, PARAMETERS)) @ MIXING, (PARAMETERS,)) + x))  # noqa: E731
    return ops.sum(ops.loop(lambda i, y: i < 20, step, (0, x))[1] ** 2.0)


def recurrence(ops: Any, state: Any, row: Any) -> Any:
    """Return the next state of a scan."""
    return ops.tanh(ops.reshape(ops.reshape(state, (1, PARAMETERS)) @ MIXING, (PARAMETERS,)) + row)


def _tagloom_ops() -> Any:
    import tagloom as tg

    return SimpleNamespace(
        **{name: getattr(tg, name) for name in SHARED}, max=tg.reduce_max, sum=tg.reduce_sum, loop=tg.while_loop
    )


def _tagloom_work(case: Case, batch_size: int | None) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """Build the work of a case; return its feeds, what is fetched, and the values fed."""
    import tagloom as tg

    ops, work = _tagloom_ops(), case["work"]

    def over(function: Callable[[Any], Any], elements: Any, dtype: Any) -> Any:
        if batch_size == ALL:
            return tg.vectorized_map(function, elements)
        return tg.map_fn(function, elements, dtype=dtype, batch_size=batch_size)

    if work.startswith("ode"):
        starts = tg.placeholder("float32", STARTS.shape)
        solve = solve_scalars if work == "ode_scalars" else solve_vector
        dtypes = ("float32", "float32") if work == "ode_scalars" else ("float32",)
        return [starts], list(over(lambda s: tuple(solve(ops, s)), starts, dtypes)), [STARTS]
    if work == "example_gradients":
        weights = [tg.placeholder("float32", w.shape) for w in WEIGHTS]
        x, t = tg.placeholder("float32", INPUTS.shape), tg.placeholder("float32", TARGETS.shape)

        def gradient(example: Any) -> Any:
            return tuple(tg.gradients(loss(ops, weights, *example), weights))

        return [*weights, x, t], list(over(gradient, (x, t), ("float32", "float32"))), [*WEIGHTS, INPUTS, TARGETS]
    x = tg.placeholder("float32", POINT.shape)
    if work == "hessian":
        return [x], tg.hessians(energy(ops, x), [x], vectorized=batch_size is not None), [POINT]
    rows = tg.placeholder("float32", SERIES.shape)
    states = tg.scan(partial(recurrence, ops), rows, initializer=x)
    return [x, rows], [tg.jacobian(states[-1], x, vectorized=batch_size is not None)], [POINT, SERIES]


async def _tagloom(case: Case, stack: AsyncExitStack, batch_size: int | None) -> Step:
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        feeds, fetches, values = _tagloom_work(case, batch_size)
    session = await stack.enter_async_context(tg.Session(graph))
    step = session.make_step(fetches, feeds)
    return lambda: step(*values)


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Compute all examples at once."""
    return await _tagloom(case, stack, ALL)


async def map_fn(case: Case, stack: AsyncExitStack) -> Step:
    """Compute a batch of examples after the other, in a loop in the graph."""
    return await _tagloom(case, stack, BATCH)


async def map_fn_singly(case: Case, stack: AsyncExitStack) -> Step:
    """Compute an example after the other, in a loop in the graph."""
    return await _tagloom(case, stack, None)


def jax(case: Case, stack: AsyncExitStack) -> Step:
    """Compute all examples at once by `jax.vmap`, compiled."""
    import jax
    import jax.numpy as jnp

    def loop(predicate: Any, body: Any, variables: Any) -> Any:
        return jax.lax.while_loop(lambda v: predicate(*v), lambda v: body(*v), variables)

    def fixed(predicate: Any, body: Any, variables: Any) -> Any:
        # JAX differentiates loops of a known length only.
        return jax.lax.fori_loop(0, 20, lambda i, v: body(*v), variables)

    ops = SimpleNamespace(**{name: getattr(jnp, name) for name in SHARED}, max=jnp.max, sum=jnp.sum, loop=loop)
    work = case["work"]
    if work.startswith("ode"):
        solve = solve_scalars if work == "ode_scalars" else solve_vector
        function, arguments = jax.vmap(lambda s: tuple(solve(ops, s))), [STARTS]
    elif work == "example_gradients":
        gradient = jax.grad(lambda weights, x, t: loss(ops, weights, x, t))
        mapped = jax.vmap(gradient, in_axes=(None, 0, 0))
        function, arguments = lambda a, b, x, t: mapped([a, b], x, t), [*WEIGHTS, INPUTS, TARGETS]
    elif work == "hessian":
        ops.loop = fixed
        function, arguments = lambda x: [jax.hessian(lambda x: energy(ops, x))(x)], [POINT]
    else:

        def last(x: Any, rows: Any) -> Any:
            return jax.lax.scan(lambda a, e: (recurrence(ops, a, e),) * 2, x, rows)[1][-1]

        function, arguments = lambda x, rows: [jax.jacrev(last)(x, rows)], [POINT, SERIES]
    compiled = jax.jit(function)
    return lambda: [np.asarray(v) for v in compiled(*arguments)]


EXPERIMENT = Experiment(
    name="vmap",
    cases=tuple(
        {"work": work} for work in ("ode_scalars", "ode_vector", "example_gradients", "hessian", "scan_jacobian")
    ),
    engines={"tagloom": tagloom, "map_fn": map_fn, "map_fn_singly": map_fn_singly, "jax": jax},
    metric="milliseconds_per_step",
    time_unit=1e3,
    tolerance=2e-3,
)
