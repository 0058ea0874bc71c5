"""Recurrent cells: a GRU over rows of unequal lengths, a tree-LSTM node by node, and attention over a cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .program import Arrays, Program, Sizes, masked


def matrix(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Draw a matrix that keeps the scale of its factor."""
    return random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))


# ---- a GRU, whose state stays where a row has ended


def draw_gru(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw inputs of shape (length, batch, units), lengths, and both weights; gates are reset, update, candidate."""
    batch, units, length = sizes["batch"], sizes["units"], sizes["length"]
    return {
        "x": random.standard_normal((length, batch, units), np.float32),
        "lengths": random.integers(1, length + 1, batch).astype(np.int32),
        "of_input": matrix(random, units, 3 * units),
        "of_state": matrix(random, units, 3 * units),
    }


def gates_by_slices(tg: Any, x: Any, h: Any, of_input: Any, of_state: Any) -> Any:
    """Two products, whose columns are taken by slices."""
    units = h.shape[1]
    a, b = x @ of_input, h @ of_state
    reset = tg.sigmoid(a[:, :units] + b[:, :units])
    update = tg.sigmoid(a[:, units : 2 * units] + b[:, units : 2 * units])
    candidate = tg.tanh(a[:, 2 * units :] + reset * b[:, 2 * units :])
    return update * h + (1.0 - update) * candidate


def gates_by_split(tg: Any, x: Any, h: Any, of_input: Any, of_state: Any) -> Any:
    """Two products that are split."""
    a, b = tg.split(x @ of_input, 3, axis=1), tg.split(h @ of_state, 3, axis=1)
    reset, update = tg.sigmoid(a[0] + b[0]), tg.sigmoid(a[1] + b[1])
    return update * h + (1.0 - update) * tg.tanh(a[2] + reset * b[2])


def gates_by_concat(tg: Any, x: Any, h: Any, of_input: Any, of_state: Any) -> Any:
    """Products with parts of the weights; both gates by one product of the joined input and state."""
    units = h.shape[1]
    joined = tg.concat([of_input[:, : 2 * units], of_state[:, : 2 * units]], 0)
    reset, update = tg.split(tg.sigmoid(tg.concat([x, h], 1) @ joined), 2, axis=1)
    candidate = tg.tanh(x @ of_input[:, 2 * units :] + reset * (h @ of_state[:, 2 * units :]))
    return update * h + (1.0 - update) * candidate


def gru_slices(gates: Callable[..., Any], tg: Any, x: Any, lengths: Any, of_input: Any, of_state: Any) -> list[Any]:
    """Inputs by slices; ended rows stay by ``where``."""

    def body(t: Any, h: Any) -> tuple[Any, ...]:
        return t + 1, tg.where((t < lengths)[:, None], gates(tg, x[t], h, of_input, of_state), h)

    _, h = tg.while_loop(lambda t, h: t < x.shape[0], body, [0, tg.zeros_like(x[0])])
    return [tg.reduce_mean(tg.square(h)), h]


def gru_tensor_array(
    gates: Callable[..., Any], tg: Any, x: Any, lengths: Any, of_input: Any, of_state: Any
) -> list[Any]:
    """Inputs and outputs in TensorArrays; each row's last output is taken at the end."""
    length = x.shape[0]
    rows = tg.TensorArray("float32", length).unstack(x)

    def body(t: Any, h: Any, outputs: Any) -> tuple[Any, ...]:
        h = gates(tg, rows.read(t), h, of_input, of_state)
        return t + 1, h, outputs.write(t, h)

    loop = [0, tg.zeros_like(x[0]), tg.TensorArray("float32", length)]
    outputs = tg.while_loop(lambda t, *_: t < length, body, loop)[2].stack()
    h = tg.gather_nd(outputs, tg.stack([lengths - 1, tg.range(tg.size(lengths))], axis=1))
    return [tg.reduce_mean(tg.square(h)), h]


def gru_masks(gates: Callable[..., Any], tg: Any, x: Any, lengths: Any, of_input: Any, of_state: Any) -> list[Any]:
    """Inputs by gather; ended rows stay by arithmetic, until the longest has ended."""

    def body(t: Any, h: Any) -> tuple[Any, ...]:
        going_on = tg.cast(t < lengths, "float32")[:, None]
        return t + 1, masked(going_on, gates(tg, tg.gather(x, t), h, of_input, of_state), h)

    _, h = tg.while_loop(lambda t, h: t < tg.reduce_max(lengths), body, [0, tg.zeros_like(x[0])])
    return [tg.reduce_mean(tg.square(h)), h]


def jax_gru(jax: Any, bounded: bool, x: Any, lengths: Any, of_input: Any, of_state: Any) -> list[Any]:
    """Run the GRU with JAX."""
    jnp = jax.numpy

    def body(h: Any, here: Any) -> tuple[Any, None]:
        t, x = here
        a, b = jnp.split(x @ of_input, 3, axis=1), jnp.split(h @ of_state, 3, axis=1)
        reset, update = jax.nn.sigmoid(a[0] + b[0]), jax.nn.sigmoid(a[1] + b[1])
        new = update * h + (1.0 - update) * jnp.tanh(a[2] + reset * b[2])
        return jnp.where((t < lengths)[:, None], new, h), None

    h, _ = jax.lax.scan(body, jnp.zeros_like(x[0]), (jnp.arange(x.shape[0]), x))
    return [jnp.mean(jnp.square(h)), h]


# ---- a tree-LSTM: an iteration for each node, which reads the states of its children


def draw_tree(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw a tree whose nodes stand behind their children, inputs of each node, and weights.

    Row 0 of the states stays zero, for children that a node does not have; node n has row n + 1.
    """
    batch, units, nodes = sizes["batch"], sizes["units"], sizes["nodes"]
    leaves = (nodes + 1) // 2
    pairs = np.arange(1, 2 * (nodes - leaves) + 1, dtype=np.int32).reshape(-1, 2)
    children = np.concatenate([np.zeros((leaves, 2), np.int32), pairs])
    return {
        "x": random.standard_normal((nodes, batch, units), np.float32),
        "children": children,
        "of_input": matrix(random, units, 5 * units),
        "of_states": matrix(random, 2 * units, 5 * units),
    }


def node(tg: Any, x: Any, left: Any, right: Any, weights: tuple[Any, Any]) -> Any:
    """Return the state of a node, (h, c) side by side, from the states of its children."""
    h_left, c_left = tg.split(left, 2, axis=1)
    h_right, c_right = tg.split(right, 2, axis=1)
    z = x @ weights[0] + tg.concat([h_left, h_right], 1) @ weights[1]
    i, f, g, o, u = tg.split(z, 5, axis=1)
    c = tg.sigmoid(f) * c_left + tg.sigmoid(g) * c_right + tg.sigmoid(i) * tg.tanh(u)
    return tg.concat([tg.sigmoid(o) * tg.tanh(c), c], 1)


def empty_state(tg: Any, x: Any) -> Any:
    """Return the state of a child that does not exist."""
    return tg.concat([tg.zeros_like(x[0]), tg.zeros_like(x[0])], 1)


def tree_tensor_array(tg: Any, x: Any, children: Any, of_input: Any, of_states: Any) -> list[Any]:
    """States in a TensorArray, read where the children are."""
    nodes = x.shape[0]

    def body(n: Any, states: Any) -> tuple[Any, ...]:
        left, right = states.read(children[n, 0]), states.read(children[n, 1])
        return n + 1, states.write(n + 1, node(tg, x[n], left, right, (of_input, of_states)))

    states = tg.TensorArray("float32", nodes + 1, clear_after_read=False).write(0, empty_state(tg, x))
    states = tg.while_loop(lambda n, states: n < nodes, body, [0, states])[1]
    root = states.read(nodes)
    return [tg.reduce_mean(tg.square(root)), root]


def tree_scatter(tg: Any, x: Any, children: Any, of_input: Any, of_states: Any) -> list[Any]:
    """States in one array, read by gather and updated by scatter."""
    nodes = x.shape[0]

    def body(n: Any, states: Any) -> tuple[Any, ...]:
        pair = tg.gather(children, n)
        left, right = tg.gather(states, pair[0]), tg.gather(states, pair[1])
        new = node(tg, tg.gather(x, n), left, right, (of_input, of_states))
        return n + 1, tg.tensor_scatter_update(states, tg.reshape(n + 1, [1, 1]), new[None])

    start = tg.zeros_like(tg.stack([empty_state(tg, x)] * (nodes + 1)))
    root = tg.while_loop(lambda n, states: n < nodes, body, [0, start])[1][nodes]
    return [tg.reduce_mean(tg.square(root)), root]


def tree_masks(tg: Any, x: Any, children: Any, of_input: Any, of_states: Any) -> list[Any]:
    """States in one array, read by slices and updated by a mask."""
    nodes = x.shape[0]
    rows = tg.range(nodes + 1)[:, None, None]

    def body(n: Any, states: Any) -> tuple[Any, ...]:
        left, right = states[children[n, 0]], states[children[n, 1]]
        new = node(tg, x[n], left, right, (of_input, of_states))
        return n + 1, tg.where(tg.equal(rows, n + 1), new[None], states)

    start = tg.zeros_like(tg.stack([empty_state(tg, x)] * (nodes + 1)))
    root = tg.while_loop(lambda n, states: n < nodes, body, [0, start])[1][nodes]
    return [tg.reduce_mean(tg.square(root)), root]


def jax_tree(jax: Any, bounded: bool, x: Any, children: Any, of_input: Any, of_states: Any) -> list[Any]:
    """Run the tree-LSTM with JAX."""
    jnp, nodes = jax.numpy, x.shape[0]

    def body(states: Any, here: Any) -> tuple[Any, None]:
        n, x, (left, right) = here
        h_left, c_left = jnp.split(states[left], 2, axis=1)
        h_right, c_right = jnp.split(states[right], 2, axis=1)
        z = x @ of_input + jnp.concatenate([h_left, h_right], 1) @ of_states
        i, f, g, o, u = jnp.split(z, 5, axis=1)
        sigmoid = jax.nn.sigmoid
        c = sigmoid(f) * c_left + sigmoid(g) * c_right + sigmoid(i) * jnp.tanh(u)
        return states.at[n + 1].set(jnp.concatenate([sigmoid(o) * jnp.tanh(c), c], 1)), None

    start = jnp.zeros((nodes + 1, x.shape[1], 2 * x.shape[2]))
    states, _ = jax.lax.scan(body, start, (jnp.arange(nodes), x, children))
    return [jnp.mean(jnp.square(states[nodes])), states[nodes]]


# ---- attention of each step over the states of all earlier steps


def draw_attention(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw inputs of shape (length, batch, units), and weights of the query and of the next state."""
    batch, units, length = sizes["batch"], sizes["units"], sizes["length"]
    return {
        "x": random.standard_normal((length, batch, units), np.float32),
        "of_query": matrix(random, units, units),
        "of_context": matrix(random, 2 * units, units),
    }


def attended(tg: Any, query: Any, cache: Any, hidden: Any) -> Any:
    """Return what a query reads from a cache of shape (batch, length, units); `hidden` is added to its scores."""
    scores = tg.reduce_sum(cache * query[:, None, :], axis=2) + hidden
    return tg.reduce_sum(tg.softmax(scores)[:, :, None] * cache, axis=1)


def attention_masks(tg: Any, x: Any, of_query: Any, of_context: Any) -> list[Any]:
    """A cache of full length, updated by a mask; later places are hidden by ``where``."""
    length = x.shape[0]
    places = tg.range(length)

    def body(t: Any, h: Any, cache: Any) -> tuple[Any, ...]:
        cache = tg.where(tg.equal(places, t)[None, :, None], h[:, None, :], cache)
        hidden = tg.where(places <= t, tg.zeros([length]), tg.fill([length], -1e9))
        context = attended(tg, h @ of_query, cache, hidden)
        return t + 1, tg.tanh(tg.concat([context, x[t]], 1) @ of_context), cache

    start = tg.zeros_like(tg.transpose(x, [1, 0, 2]))
    _, h, _ = tg.while_loop(lambda t, *_: t < length, body, [0, tg.zeros_like(x[0]), start])
    return [tg.reduce_mean(tg.square(h)), h]


def attention_scatter(tg: Any, x: Any, of_query: Any, of_context: Any) -> list[Any]:
    """A cache with time in front, updated by scatter; products of batches; later places hidden by arithmetic."""
    length = x.shape[0]
    rows = tg.TensorArray("float32", length).unstack(x)
    places = tg.cast(tg.range(length), "float32")

    def body(t: Any, h: Any, cache: Any) -> tuple[Any, ...]:
        cache = tg.tensor_scatter_update(cache, tg.reshape(t, [1, 1]), h[None])
        scores = tg.einsum("tbu,bu->bt", cache, h @ of_query)
        scores = scores - 1e9 * tg.relu(places - tg.cast(t, "float32"))
        context = tg.einsum("bt,tbu->bu", tg.softmax(scores), cache)
        return t + 1, tg.tanh(tg.concat([context, rows.read(t)], 1) @ of_context), cache

    _, h, _ = tg.while_loop(lambda t, *_: t < length, body, [0, tg.zeros_like(x[0]), tg.zeros_like(x)])
    return [tg.reduce_mean(tg.square(h)), h]


def attention_concat(tg: Any, x: Any, of_query: Any, of_context: Any) -> list[Any]:
    """A cache that grows by concat."""
    length, units = x.shape[0], x.shape[2]

    def body(t: Any, h: Any, cache: Any) -> tuple[Any, ...]:
        cache = tg.concat([cache, h[:, None, :]], 1)
        context = attended(tg, h @ of_query, cache, 0.0)
        return t + 1, tg.tanh(tg.concat([context, tg.gather(x, t)], 1) @ of_context), cache

    first = tg.zeros_like(x[0])
    shapes = [[], first.shape, [first.shape[0], None, units]]
    loop = [0, first, tg.zeros_like(first)[:, None, :][:, :0]]
    _, h, _ = tg.while_loop(lambda t, *_: t < length, body, loop, shape_invariants=shapes)
    return [tg.reduce_mean(tg.square(h)), h]


def jax_attention(jax: Any, bounded: bool, x: Any, of_query: Any, of_context: Any) -> list[Any]:
    """Run the attention with JAX."""
    jnp, (length, batch, units) = jax.numpy, x.shape

    def body(state: Any, here: Any) -> tuple[Any, None]:
        h, cache = state
        t, x = here
        cache = cache.at[:, t].set(h)
        scores = jnp.where(jnp.arange(length) <= t, jnp.einsum("btu,bu->bt", cache, h @ of_query), -1e9)
        context = jnp.einsum("bt,btu->bu", jax.nn.softmax(scores), cache)
        return (jnp.tanh(jnp.concatenate([context, x], 1) @ of_context), cache), None

    start = jnp.zeros((batch, units)), jnp.zeros((batch, length, units))
    (h, _), _ = jax.lax.scan(body, start, (jnp.arange(length), x))
    return [jnp.mean(jnp.square(h)), h]


CELLS = {
    "gru": Program(
        draw=draw_gru,
        spellings={
            "slices": partial(gru_slices, gates_by_slices),
            "tensor_array": partial(gru_tensor_array, gates_by_split),
            "concat_masks": partial(gru_masks, gates_by_concat),
        },
        jax=jax_gru,
        sizes={"batch": 16, "units": 64, "length": 100},
        small={"batch": 3, "units": 4, "length": 6},
        batch={"x": 1, "lengths": 0},
        trained=("of_input", "of_state"),
    ),
    "tree_lstm": Program(
        draw=draw_tree,
        spellings={"tensor_array": tree_tensor_array, "gather_scatter": tree_scatter, "slices_masks": tree_masks},
        jax=jax_tree,
        sizes={"batch": 8, "units": 32, "nodes": 63},
        small={"batch": 2, "units": 3, "nodes": 7},
        batch={"x": 1},
        trained=("of_input", "of_states"),
    ),
    "attention_cache": Program(
        draw=draw_attention,
        spellings={
            "slices_masks": attention_masks,
            "tensor_array_scatter": attention_scatter,
            "gather_concat": attention_concat,
        },
        jax=jax_attention,
        sizes={"batch": 8, "units": 32, "length": 64},
        small={"batch": 2, "units": 3, "length": 5},
        batch={"x": 1},
        trained=("of_query", "of_context"),
    ),
}
