"""Dynamic programmes over scores: the recursion of CTC, beam search, and k-means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .program import Arrays, Program, Sizes

NEVER = -1e9  # logarithm of a probability that counts as zero

# ---- the forward recursion of CTC, over labels with blanks between them


def draw_ctc(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw logits of shape (length, batch, classes), and labels that stand between blanks, class 0."""
    batch, length, labels, classes = (sizes[key] for key in ("batch", "length", "labels", "classes"))
    places = np.zeros((batch, 2 * labels + 1), np.int32)
    places[:, 1::2] = random.integers(1, classes, (batch, labels))
    return {"logits": random.standard_normal((length, batch, classes), np.float32), "places": places}


def may_skip(tg: Any, places: Any) -> Any:
    """Return 0 for places that may follow the place two before, and `NEVER` for the others."""
    same = tg.equal(places[:, 2:], places[:, :-2])
    blocked = tg.concat([tg.ones_like(places[:, :2]), tg.cast(same, "int32")], 1)
    return tg.cast(blocked, "float32") * NEVER


def first_alpha(tg: Any, row: Any) -> Any:
    """Return the scores after the first row: the first two places alone are possible."""
    return tg.concat([row[:, :2], tg.fill(tg.shape(row[:, 2:]), NEVER)], 1)


def emissions(tg: Any, logits: Any, places: Any) -> Any:
    """Return the logarithm of each place's probability in each row, of shape (length, batch, places)."""
    scores = logits - tg.reduce_logsumexp(logits, axis=2, keepdims=True)
    repeated = tg.tile(places[None], [logits.shape[0], 1, 1])
    return tg.gather(scores, repeated, batch_dims=2)


def ended(tg: Any, alpha: Any) -> list[Any]:
    """Return the loss, and the scores of the last row."""
    return [-tg.reduce_mean(tg.reduce_logsumexp(alpha[:, -2:], axis=1)), alpha]


def ctc_stack(tg: Any, logits: Any, places: Any) -> list[Any]:
    """Rows by slices; the three ways to a place are stacked."""
    rows, skip = emissions(tg, logits, places), may_skip(tg, places)
    length = logits.shape[0]

    def body(t: Any, alpha: Any) -> tuple[Any, ...]:
        never = tg.fill(tg.shape(alpha[:, :1]), NEVER)
        one = tg.concat([never, alpha[:, :-1]], 1)
        two = tg.concat([never, never, alpha[:, :-2]], 1) + skip
        return t + 1, tg.reduce_logsumexp(tg.stack([alpha, one, two]), axis=0) + rows[t]

    _, alpha = tg.while_loop(lambda t, alpha: t < length, body, [1, first_alpha(tg, rows[0])])
    return ended(tg, alpha)


def ctc_concat(tg: Any, logits: Any, places: Any) -> list[Any]:
    """Rows in a TensorArray; windows into one array with two places in front."""
    scores, skip = emissions(tg, logits, places), may_skip(tg, places)
    length = logits.shape[0]
    rows = tg.TensorArray("float32", length, clear_after_read=False).unstack(scores)

    def body(t: Any, alpha: Any) -> tuple[Any, ...]:
        longer = tg.concat([tg.fill(tg.shape(alpha[:, :2]), NEVER), alpha], 1)
        one, two = longer[:, 1:-1], longer[:, :-2] + skip
        most = tg.maximum(tg.maximum(alpha, one), two)
        total = tg.exp(alpha - most) + tg.exp(one - most) + tg.exp(two - most)
        return t + 1, most + tg.log(total) + rows.read(t)

    _, alpha = tg.while_loop(lambda t, alpha: t < length, body, [1, first_alpha(tg, rows.read(0))])
    return ended(tg, alpha)


def ctc_masks(tg: Any, logits: Any, places: Any) -> list[Any]:
    """Rows by gather; rolled places, hidden by masks."""
    rows, skip = emissions(tg, logits, places), may_skip(tg, places)
    length = logits.shape[0]
    front = (tg.range(places.shape[1]) < 1)[None]

    def body(t: Any, alpha: Any) -> tuple[Any, ...]:
        one = tg.where(front, NEVER, tg.roll(alpha, 1, axis=1))
        two = tg.roll(alpha, 2, axis=1) + skip
        alpha = tg.logaddexp(tg.logaddexp(alpha, one), two)
        return t + 1, alpha + tg.gather(rows, t)

    _, alpha = tg.while_loop(lambda t, alpha: t < length, body, [1, first_alpha(tg, rows[0])])
    return ended(tg, alpha)


def jax_ctc(jax: Any, bounded: bool, logits: Any, places: Any) -> list[Any]:
    """Run the recursion with JAX."""
    jnp = jax.numpy
    scores = jax.nn.log_softmax(logits)
    rows = jnp.take_along_axis(scores, jnp.broadcast_to(places, (len(logits), *places.shape)), axis=2)
    skip = jnp.pad((places[:, 2:] == places[:, :-2]).astype(jnp.float32), ((0, 0), (2, 0)), constant_values=1.0) * NEVER

    def body(alpha: Any, row: Any) -> tuple[Any, None]:
        longer = jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=NEVER)
        ways = jnp.stack([alpha, longer[:, 1:-1], longer[:, :-2] + skip])
        return jax.nn.logsumexp(ways, axis=0) + row, None

    first = jnp.full_like(rows[0], NEVER).at[:, :2].set(rows[0, :, :2])
    alpha, _ = jax.lax.scan(body, first, rows[1:])
    return [-jnp.mean(jax.nn.logsumexp(alpha[:, -2:], axis=1)), alpha]


# ---- beam search, with a recurrent model of the next token


def draw_beam(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw first states of shape (batch, beams, units), and the model's weights; beam 0 alone starts alive.

    Places of shape (length,) have the length of the search.
    """
    batch, beams, units, tokens = (sizes[key] for key in ("batch", "beams", "units", "tokens"))
    return {
        "start": random.standard_normal((batch, beams, units), np.float32),
        "vectors": random.standard_normal((tokens, units), np.float32),
        "of_state": random.standard_normal((units, units), np.float32) / np.float32(np.sqrt(units)),
        "of_output": random.standard_normal((units, tokens), np.float32),
        "places": np.arange(sizes["length"], dtype=np.int32),
    }


def beam_choice(tg: Any, h: Any, scores: Any, of_output: Any) -> tuple[Any, Any, Any]:
    """Return the scores of the best extensions of each row's beams, the beams they extend, and their tokens."""
    beams, tokens = scores.shape[1], of_output.shape[1]
    logits = tg.tensordot(h, of_output, 1)
    total = scores[:, :, None] + logits - tg.reduce_logsumexp(logits, axis=2, keepdims=True)
    best, where = tg.top_k(tg.reshape(total, [-1, beams * tokens]), beams)
    return best, where // tokens, where % tokens


def first_scores(tg: Any, start: Any) -> Any:
    """Return scores with which beam 0 of each row alone is alive."""
    zeros = tg.zeros_like(start[:, :, 0])
    return zeros + tg.constant([0.0] + [NEVER] * (start.shape[1] - 1))


def beam_gather(tg: Any, start: Any, vectors: Any, of_state: Any, of_output: Any, places: Any) -> list[Any]:
    """States by batched gather; histories in one array, written by a mask."""
    length, beams = places.shape[0], start.shape[1]

    def body(t: Any, h: Any, scores: Any, token: Any, texts: Any) -> tuple[Any, ...]:
        h = tg.tanh(tg.tensordot(h, of_state, 1) + tg.gather(vectors, token))
        scores, parents, token = beam_choice(tg, h, scores, of_output)
        texts = tg.where(tg.equal(places, t)[None, None], token[:, :, None], tg.gather(texts, parents, batch_dims=1))
        return t + 1, tg.gather(h, parents, batch_dims=1), scores, token, texts

    first = tg.zeros_like(start[:, :, 0], dtype="int32")
    texts = tg.zeros_like(first)[:, :, None] + tg.zeros([1, beams, length], "int32")
    loop = [0, start, first_scores(tg, start), first, texts]
    _, _, scores, _, texts = tg.while_loop(lambda t, *_: t < length, body, loop)
    return [scores, texts]


def beam_tensor_array(tg: Any, start: Any, vectors: Any, of_state: Any, of_output: Any, places: Any) -> list[Any]:
    """States by a flat gather; parents and tokens in TensorArrays, through which a second loop goes back."""
    length, beams, units = places.shape[0], start.shape[1], start.shape[2]
    front = tg.range(tg.shape(start)[0])[:, None] * beams

    def flat(values: Any, parents: Any, width: list[int]) -> Any:
        return tg.gather(tg.reshape(values, [-1, *width]), front + parents)

    def body(t: Any, h: Any, scores: Any, token: Any, kept: Any, said: Any) -> tuple[Any, ...]:
        h = tg.tanh(tg.tensordot(h, of_state, 1) + tg.gather(vectors, token))
        scores, parents, token = beam_choice(tg, h, scores, of_output)
        return t + 1, flat(h, parents, [units]), scores, token, kept.write(t, parents), said.write(t, token)

    def back(t: Any, beam: Any, texts: Any) -> tuple[Any, ...]:
        return t - 1, flat(kept.read(t), beam, []), texts.write(t, flat(said.read(t), beam, []))

    def array() -> Any:
        return tg.TensorArray("int32", length)

    first = tg.zeros_like(start[:, :, 0], dtype="int32")
    loop = [0, start, first_scores(tg, start), first, array(), array()]
    _, _, scores, _, kept, said = tg.while_loop(lambda t, *_: t < length, body, loop)
    beam = first + tg.range(beams)
    texts = tg.while_loop(lambda t, *_: t >= 0, back, [length - 1, beam, array()])[2].stack()
    return [scores, tg.transpose(texts, [1, 2, 0])]


def beam_masks(tg: Any, start: Any, vectors: Any, of_state: Any, of_output: Any, places: Any) -> list[Any]:
    """Parents as masks that are multiplied with states and histories; the last token is concatenated."""
    length, beams = places.shape[0], start.shape[1]

    def body(t: Any, h: Any, scores: Any, token: Any, texts: Any) -> tuple[Any, ...]:
        h = tg.tanh(tg.tensordot(h, of_state, 1) + tg.gather(vectors, token))
        scores, parents, token = beam_choice(tg, h, scores, of_output)
        mask = tg.one_hot(parents, beams)
        texts = tg.concat([(mask @ texts)[:, :, 1:], tg.cast(token, "float32")[:, :, None]], 2)
        return t + 1, mask @ h, scores, token, texts

    first = tg.zeros_like(start[:, :, 0], dtype="int32")
    texts = tg.zeros_like(start[:, :, :1]) + tg.zeros([1, beams, length])
    loop = [0, start, first_scores(tg, start), first, texts]
    _, _, scores, _, texts = tg.while_loop(lambda t, *_: t < length, body, loop)
    return [scores, tg.cast(texts, "int32")]


def jax_beam(
    jax: Any, bounded: bool, start: Any, vectors: Any, of_state: Any, of_output: Any, places: Any
) -> list[Any]:
    """Search with JAX."""
    jnp, (batch, beams, _), tokens = jax.numpy, start.shape, len(vectors)

    def body(state: Any, t: Any) -> tuple[Any, None]:
        h, scores, token, texts = state
        h = jnp.tanh(h @ of_state + vectors[token])
        total = scores[:, :, None] + jax.nn.log_softmax(h @ of_output)
        scores, best = jax.lax.top_k(total.reshape(batch, beams * tokens), beams)
        parents, token = best // tokens, best % tokens
        texts = jnp.take_along_axis(texts, parents[:, :, None], 1).at[:, :, t].set(token)
        return (jnp.take_along_axis(h, parents[:, :, None], 1), scores, token, texts), None

    scores = jnp.zeros((batch, beams)).at[:, 1:].set(NEVER)
    texts = jnp.zeros((batch, beams, len(places)), jnp.int32)
    state = start, scores, jnp.zeros((batch, beams), jnp.int32), texts
    (_, scores, _, texts), _ = jax.lax.scan(body, state, places)
    return [scores, texts]


# ---- k-means, until no centre moves far

STILL, MOST_MEANS = 1e-3, 20


def draw_means(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw points around as many places as there are centres, and first centres."""
    batch, units, centres = sizes["batch"], sizes["units"], sizes["centres"]
    places = 2.0 * random.standard_normal((centres, units))
    points = places[random.integers(centres, size=batch)] + random.standard_normal((batch, units))
    start = places + 0.7 * random.standard_normal((centres, units))
    return {"points": points.astype(np.float32), "start": start.astype(np.float32)}


def nearest(tg: Any, points: Any, centres: Any) -> Any:
    """Return the number of each point's nearest centre, by all differences."""
    return tg.argmin(tg.reduce_sum(tg.square(points[:, None, :] - centres[None]), axis=2), axis=1, output_type="int32")


def nearest_by_product(tg: Any, points: Any, centres: Any) -> Any:
    """Return the same by a product."""
    lengths = tg.reduce_sum(tg.square(centres), axis=1)
    return tg.argmin(lengths - 2.0 * tg.matmul(points, centres, transpose_b=True), axis=1, output_type="int32")


def means_by_segments(tg: Any, points: Any, near: Any, count: int) -> tuple[Any, Any]:
    """Return sums and numbers of the points of each centre, by segments."""
    ones = tg.ones_like(points[:, :1])
    return tg.unsorted_segment_sum(points, near, count), tg.unsorted_segment_sum(ones, near, count)


def means_by_masks(tg: Any, points: Any, near: Any, count: int) -> tuple[Any, Any]:
    """Return both by products with masks."""
    mask = tg.one_hot(near, count)
    return tg.matmul(mask, points, transpose_a=True), tg.reduce_sum(mask, axis=0)[:, None]


def means_by_stack(tg: Any, points: Any, near: Any, count: int) -> tuple[Any, Any]:
    """Return both centre by centre, stacked."""
    masks = [tg.cast(tg.equal(near, k), "float32")[:, None] for k in range(count)]
    sums = tg.stack([tg.reduce_sum(mask * points, axis=0) for mask in masks])
    return sums, tg.stack([tg.reduce_sum(mask, axis=0) for mask in masks])


def k_means(choose: Callable[..., Any], add_up: Callable[..., Any], tg: Any, points: Any, start: Any) -> list[Any]:
    """Move centres until they are still."""

    def body(centres: Any, moved: Any, n: Any) -> tuple[Any, ...]:
        sums, counts = add_up(tg, points, choose(tg, points, centres), start.shape[0])
        new = tg.where(counts > 0.0, sums / tg.maximum(counts, 1.0), centres)
        return new, tg.reduce_max(tg.abs(new - centres)), n + 1

    def going_on(centres: Any, moved: Any, n: Any) -> Any:
        return tg.logical_and(moved > STILL, n < MOST_MEANS)

    centres, _, n = tg.while_loop(going_on, body, [start, 1.0, 0])
    return [centres, n]


def jax_means(jax: Any, bounded: bool, points: Any, start: Any) -> list[Any]:
    """Move centres with JAX."""
    jnp = jax.numpy

    def body(state: Any) -> tuple[Any, ...]:
        centres, _, n = state
        near = jnp.argmin(jnp.sum(jnp.square(points[:, None] - centres), axis=2), axis=1)
        sums = jax.ops.segment_sum(points, near, len(start))
        counts = jax.ops.segment_sum(jnp.ones_like(points[:, :1]), near, len(start))
        new = jnp.where(counts > 0.0, sums / jnp.maximum(counts, 1.0), centres)
        return new, jnp.max(jnp.abs(new - centres)), n + 1

    def going_on(state: Any) -> Any:
        return (state[1] > STILL) & (state[2] < MOST_MEANS)

    centres, _, n = jax.lax.while_loop(going_on, body, (start, jnp.float32(1.0), jnp.int32(0)))
    return [centres, n]


DECODING = {
    "ctc": Program(
        draw=draw_ctc,
        spellings={"slices_stack": ctc_stack, "tensor_array_concat": ctc_concat, "gather_masks": ctc_masks},
        jax=jax_ctc,
        sizes={"batch": 16, "length": 100, "labels": 20, "classes": 30},
        small={"batch": 2, "length": 8, "labels": 2, "classes": 4},
        batch={"logits": 1, "places": 0},
        trained=("logits",),
    ),
    "beam_search": Program(
        draw=draw_beam,
        spellings={"gather_masks": beam_gather, "tensor_array": beam_tensor_array, "concat_masks": beam_masks},
        jax=jax_beam,
        sizes={"batch": 8, "beams": 4, "units": 32, "tokens": 50, "length": 30},
        small={"batch": 2, "beams": 2, "units": 3, "tokens": 4, "length": 5},
        batch={"start": 0},
    ),
    "k_means": Program(
        draw=draw_means,
        spellings={
            "segments": partial(k_means, nearest, means_by_segments),
            "masks": partial(k_means, nearest_by_product, means_by_masks),
            "stack": partial(k_means, nearest, means_by_stack),
        },
        jax=jax_means,
        sizes={"batch": 512, "units": 8, "centres": 8},
        small={"batch": 16, "units": 2, "centres": 2},
        batch={"points": 0},
    ),
}
