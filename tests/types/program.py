"""A program of a user, in whose types mypy believes: read by test_types.py, never run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

import numpy as np
import tagloom as tg
from tagloom import nn

Array = np.ndarray[Any, Any]


@dataclass
class State:
    mean: tg.Tensor
    count: tg.Tensor


class Pair(NamedTuple):
    left: tg.Tensor
    right: tg.Tensor


# ---- functions


@tg.function
def scaled(x: tg.Tensor | Array, factor: float = 2.0) -> tg.Tensor:
    return tg.multiply(x, factor)


@tg.function(static_argnames="deep", max_traces=4)
def split(x: tg.Tensor | Array, *, deep: bool = False) -> tuple[tg.Tensor, tg.Tensor]:
    assert_type(scaled(x) + 1.0, tg.Tensor)  # in a graph a call gives tensors
    low, high = halves(x)
    return low, high


@tg.function
def halves(x: tg.Tensor | Array) -> tuple[tg.Tensor, tg.Tensor]:
    return scaled(x, 0.5), scaled(x, 1.5)


@tg.function
def named(x: Array) -> dict[str, tg.Tensor]:
    return {"x": tg.constant(x)}


@tg.function
def listed(x: Array) -> list[tg.Tensor]:
    return [tg.constant(x)]


class Model:
    @tg.function
    def predict(self, x: Array) -> tg.Tensor:
        return tg.constant(x)


async def calls(x: Array, model: Model) -> None:
    assert_type(await scaled(x), Array)
    assert_type(scaled.sync(x, factor=3.0), Array)
    assert_type(await split(x, deep=True), tuple[Array, Array])
    assert_type(split.sync(x), tuple[Array, Array])
    assert_type(await named(x), dict[str, Array])
    assert_type(await listed(x), list[Array])
    assert_type(await model.predict(x), Array)
    assert_type(model.predict.sync(x), Array)
    step = await scaled.step(x)
    assert_type(await step(x), Array)
    concrete = scaled.concrete(x)
    print(concrete)
    async for value in scaled.stream("y", x):
        print(value)
    value, _ = await tg.value_and_grad(scaled)(x)
    assert_type(value, Array)
    tg.grad(scaled).sync(x, factor=1.0)
    await scaled("a")  # expect: arg-type
    scaled.sync(x, facotr=3.0)  # expect: call-arg
    split.sync(x, True)  # expect: call-arg
    model.predict.sync()  # expect: call-arg
    tg.grad(scaled).sync()  # expect: call-arg


# ---- sessions


def run(session: tg.SyncSession, x: tg.Tensor, v: tg.Variable, op: tg.Operation, s: tg.SparseTensor) -> None:
    assert_type(session.run(x), Array)
    assert_type(session.run(v, {x: [1.0]}, timeout=1.0), Array)
    assert_type(session.run(op), None)
    assert_type(session.run(s), tg.SparseTensorValue)
    assert_type(session.run((x, op)), tuple[Array, None])
    assert_type(session.run((x, s, v)), tuple[Array, tg.SparseTensorValue, Array])
    assert_type(session.run((x, x, x, x)), tuple[Array, ...])
    assert_type(session.run([x, x]), list[Array])
    assert_type(session.run([x, v]), list[Array])
    assert_type(session.run({"x": x, "v": v}), dict[str, Array])
    assert_type(session.make_step((x, op), feeds=[v])([1.0]), tuple[Array, None])
    assert_type(session.make_step([x])(), list[Array])
    loss, _ = session.run([x, op])
    print(float(loss), session.run(Pair(x, x)).left, session.run("x:0").shape)
    session.run(x, timeuot=1.0)  # expect: call-overload
    print(session.run(op).shape)  # expect: attr-defined


async def run_async(session: tg.Session, x: tg.Tensor, op: tg.Operation, several: Sequence[tg.Tensor]) -> None:
    assert_type(await session.run(x), Array)
    assert_type(await session.run((x, op)), tuple[Array, None])
    assert_type(await session.run([x, x], watch=[]), list[Array])
    assert_type(await session.run({"x": x}), dict[str, Array])
    assert_type(await session.run(list(several)), list[Array])
    step = session.make_step(x, feeds=[x])
    assert_type(step, tg.Step[Array])
    assert_type(await step(1.0), Array)
    assert_type(await session.make_step((x, op))(), tuple[Array, None])


# ---- loops and branches


def loops(x: tg.Tensor, v: tg.Variable, a: tg.TensorArray, pair: Pair, state: State) -> None:
    assert_type(tg.while_loop(lambda i: i < 3, lambda i: i + 1, 0), tg.Tensor)
    assert_type(tg.while_loop(lambda i: i < 3, lambda i: (i + 1,), (v,), name="count"), tg.Tensor)
    end = tg.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x), maximum_iterations=9)
    assert_type(end, tuple[tg.Tensor, tg.Tensor])
    written = tg.while_loop(lambda i, b: i < 3, lambda i, b: (i + 1, b.write(i, x)), (0, a))
    assert_type(written, tuple[tg.Tensor, tg.TensorArray])
    both = tg.while_loop(lambda i, y, b: i < 3, lambda i, y, b: (i + 1, y, b.write(i, y)), (0, x, a))
    assert_type(both, tuple[tg.Tensor, tg.Tensor, tg.TensorArray])
    three = tg.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, y, z), (0, x, 1.0))
    assert_type(three, tuple[tg.Tensor, tg.Tensor, tg.Tensor])
    assert_type(tg.while_loop(lambda p: p.left < 3, lambda p: p, pair), Pair)
    assert_type(tg.while_loop(lambda s: s.count < 3, lambda s: State(s.mean, s.count + 1), state), State)
    assert_type(tg.while_loop(lambda d: d["x"] < 3, lambda d: {"x": d["x"] + 1}, {"x": x}), dict[str, tg.Tensor])


def branches(x: tg.Tensor, v: tg.Variable, pair: Pair, state: State, op: tg.Operation) -> None:
    assert_type(tg.cond(x > 0, lambda: x, lambda: 0.0), tg.Tensor)
    assert_type(tg.cond(x > 0, lambda: op, lambda: op), tg.Tensor)
    assert_type(tg.cond(x > 0, lambda: (x, 1), lambda: (v, 2)), tuple[tg.Tensor, tg.Tensor])
    assert_type(tg.cond(x > 0, lambda: {"y": x}, lambda: {"y": x}), dict[str, tg.Tensor])
    assert_type(tg.cond(x > 0, lambda: pair, lambda: pair), Pair)
    assert_type(tg.cond(x > 0, lambda: state, lambda: state), State)
    assert_type(tg.smart_cond(True, lambda: x, lambda: v), tg.Tensor)
    assert_type(tg.switch_case(x, [lambda: x, lambda: 2.0]), tg.Tensor)
    assert_type(tg.switch_case(x, {3: lambda: (x, x)}, default=lambda: (x, x)), tuple[tg.Tensor, tg.Tensor])
    assert_type(tg.case([(x > 0, lambda: x)], default=lambda: 0.0), tg.Tensor)


def folds(x: tg.Tensor, pair: Pair) -> None:
    assert_type(tg.map_fn(lambda row: row * 2.0, x), tg.Tensor)
    assert_type(tg.map_fn(lambda row: (row, row), x, dtype=("float32", "float32")), tuple[tg.Tensor, tg.Tensor])
    assert_type(tg.map_fn(lambda row: {"y": row}, x, dtype={"y": "float32"}), dict[str, tg.Tensor])
    assert_type(tg.foldl(lambda total, row: total + row, x, 0.0), tg.Tensor)
    assert_type(tg.foldr(lambda total, row: total + row, x), tg.Tensor)
    assert_type(tg.scan(lambda total, row: total + row, x, 0.0, reverse=True), tg.Tensor)
    assert_type(tg.scan(lambda p, row: Pair(p.left + row, p.right), x, pair), Pair)


# ---- gradients and layers


def gradients(x: tg.Tensor, v: tg.Variable, y: tg.Tensor, state: State) -> None:
    assert_type(tg.gradients(y, x), list[tg.Tensor])
    assert_type(tg.gradients(y, [x, v], unconnected_gradients="zero"), list[tg.Tensor])
    assert_type(tg.gradients(y, tg.trainable_variables()), list[tg.Tensor])
    assert_type(tg.gradients(y, (x, v)), tuple[tg.Tensor, tg.Tensor])
    assert_type(tg.gradients(y, {"x": x}), dict[str, tg.Tensor])
    assert_type(tg.gradients(y, state), State)
    assert_type(tg.jacobian(y, x), tg.Tensor)
    assert_type(tg.jacobian(y, [x, v]), list[tg.Tensor])
    assert_type(tg.jacobian(y, (x, v)), tuple[tg.Tensor, tg.Tensor])
    assert_type(tg.jvp(y, x, [1.0]), tg.Tensor)
    assert_type(tg.jvp((y, y), x, [1.0]), tuple[tg.Tensor, tg.Tensor])
    assert_type(tg.hessians(y, x), list[tg.Tensor])
    assert_type(tg.hessian_vector_product(y, x, [1.0]), list[tg.Tensor])


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Dense(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: tg.Tensor, training: bool = False) -> tuple[tg.Tensor, tg.Tensor]:
        y = self.dense(x)
        assert_type(y, tg.Tensor)
        return self.dropout(y, training=training), y


def layers(x: tg.Tensor) -> None:
    assert_type(Block(3)(x, training=True), tuple[tg.Tensor, tg.Tensor])
    assert_type(nn.Conv2D(3, 2)(x), tg.Tensor)
    assert_type(nn.MaxPooling2D(2)(x), tg.Tensor)
    assert_type(nn.LayerNorm()(x), tg.Tensor)
    output, state = nn.LSTMCell(4)(x, None)
    assert_type(output, tg.Tensor)
    assert_type(state, nn.LSTMStateTuple)
    Block(3)(x, trainig=True)  # expect: call-arg
    print(nn.LayerNormalisation)  # expect: attr-defined
