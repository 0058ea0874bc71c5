"""Filters and samplers: Hamiltonian Monte Carlo, a particle filter with resampling, and a Kalman filter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .program import Arrays, Program, Sizes, masked

# ---- Hamiltonian Monte Carlo, many chains at a time

LEAPS, LEAP = 5, 0.15


def draw_hmc(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw first positions, momenta and uniform numbers for each sample, and a precision matrix."""
    batch, units, length = sizes["batch"], sizes["units"], sizes["length"]
    factor = random.standard_normal((units, units)) / np.sqrt(units)
    return {
        "start": random.standard_normal((batch, units), np.float32),
        "momenta": random.standard_normal((length, batch, units), np.float32),
        "uniform": random.uniform(0.001, 1.0, (length, batch)).astype(np.float32),
        "precision": (factor @ factor.T + np.eye(units)).astype(np.float32),
    }


def energy(ops: Any, precision: Any, q: Any) -> Any:
    """Return the potential energy of each chain."""
    return 0.5 * ops.sum((q @ precision) * q, axis=1) + 0.05 * ops.sum(ops.square(q) * ops.square(q), axis=1)


class Numbers:
    """tagloom's functions by the names of ``jax.numpy``, so that both engines share formulas."""

    def __init__(self, tg: Any) -> None:
        self.sum, self.square = tg.reduce_sum, tg.square


def leapfrog(tg: Any, precision: Any, q: Any, p: Any) -> tuple[Any, Any]:
    """Follow the momenta for `LEAPS` leaps, in a loop of its own."""

    def force(q: Any) -> Any:
        return -tg.gradients(energy(Numbers(tg), precision, q), [q])[0]

    def leap(k: Any, q: Any, p: Any) -> tuple[Any, ...]:
        p = p + 0.5 * LEAP * force(q)
        q = q + LEAP * p
        return k + 1, q, p + 0.5 * LEAP * force(q)

    _, q, p = tg.while_loop(lambda k, *_: k < LEAPS, leap, [0, q, p])
    return q, p


def chance(tg: Any, precision: Any, old: Any, p: Any, new: Any, moved: Any) -> Any:
    """Return the probability with which each chain accepts its new position."""
    ops = Numbers(tg)
    before = energy(ops, precision, old) + 0.5 * tg.reduce_sum(tg.square(p), axis=1)
    after = energy(ops, precision, new) + 0.5 * tg.reduce_sum(tg.square(moved), axis=1)
    return tg.exp(tg.minimum(before - after, 0.0))


def hmc_slices(tg: Any, start: Any, momenta: Any, uniform: Any, precision: Any) -> list[Any]:
    """Noise by slices; accept by ``where``; a running sum."""
    length = momenta.shape[0]

    def body(t: Any, q: Any, total: Any) -> tuple[Any, ...]:
        p = momenta[t]
        new, moved = leapfrog(tg, precision, q, p)
        accepted = uniform[t] < chance(tg, precision, q, p, new, moved)
        q = tg.where(accepted[:, None], new, q)
        return t + 1, q, total + q

    _, q, total = tg.while_loop(lambda t, *_: t < length, body, [0, start, tg.zeros_like(start)])
    return [total / float(length), q]


def hmc_tensor_array(tg: Any, start: Any, momenta: Any, uniform: Any, precision: Any) -> list[Any]:
    """Noise and samples in TensorArrays."""
    length = momenta.shape[0]
    noise = tg.TensorArray("float32", length).unstack(momenta)
    draws = tg.TensorArray("float32", length).unstack(uniform)

    def body(t: Any, q: Any, samples: Any) -> tuple[Any, ...]:
        p = noise.read(t)
        new, moved = leapfrog(tg, precision, q, p)
        accepted = draws.read(t) < chance(tg, precision, q, p, new, moved)
        q = tg.where(accepted[:, None], new, q)
        return t + 1, q, samples.write(t, q)

    loop = [0, start, tg.TensorArray("float32", length)]
    _, q, samples = tg.while_loop(lambda t, *_: t < length, body, loop)
    return [tg.reduce_mean(samples.stack(), axis=0), q]


def hmc_masks(tg: Any, start: Any, momenta: Any, uniform: Any, precision: Any) -> list[Any]:
    """Noise by gather; accept by arithmetic; a running sum."""
    length = momenta.shape[0]

    def body(t: Any, q: Any, total: Any) -> tuple[Any, ...]:
        p = tg.gather(momenta, t)
        new, moved = leapfrog(tg, precision, q, p)
        accepted = tg.cast(tg.gather(uniform, t) < chance(tg, precision, q, p, new, moved), "float32")
        q = masked(accepted[:, None], new, q)
        return t + 1, q, total + q

    _, q, total = tg.while_loop(lambda t, *_: t < length, body, [0, start, tg.zeros_like(start)])
    return [total / float(length), q]


def jax_hmc(jax: Any, bounded: bool, start: Any, momenta: Any, uniform: Any, precision: Any) -> list[Any]:
    """Sample with JAX."""
    jnp = jax.numpy
    force = jax.grad(lambda q: -jnp.sum(energy(jnp, precision, q)))

    def leap(k: Any, state: Any) -> Any:
        q, p = state
        p = p + 0.5 * LEAP * force(q)
        q = q + LEAP * p
        return q, p + 0.5 * LEAP * force(q)

    def hamiltonian(q: Any, p: Any) -> Any:
        return energy(jnp, precision, q) + 0.5 * jnp.sum(jnp.square(p), axis=1)

    def body(q: Any, noise: Any) -> tuple[Any, Any]:
        p, u = noise
        new, moved = jax.lax.fori_loop(0, LEAPS, leap, (q, p))
        accepted = u < jnp.exp(jnp.minimum(hamiltonian(q, p) - hamiltonian(new, moved), 0.0))
        q = jnp.where(accepted[:, None], new, q)
        return q, q

    q, samples = jax.lax.scan(body, start, (momenta, uniform))
    return [jnp.mean(samples, axis=0), q]


# ---- a particle filter that resamples in each step


def draw_particles(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw first particles, noise and observations; return them with two parameters, and an offset for each step.

    The offsets are not drawn: a particle at the edge between two points would be chosen or not as products round, so
    each offset is as far from all edges as possible.
    """
    batch, length = sizes["batch"], sizes["length"]
    start = x = random.standard_normal(batch, np.float32)
    noise = random.standard_normal((length, batch), np.float32)
    seen = random.standard_normal(length, np.float32)
    offsets = np.zeros(length, np.float32)
    for t in range(length):
        x = 0.9 * x + 0.5 * np.sin(x) + 0.5 * noise[t]
        weights = np.exp(-0.5 * np.square(seen[t] - x.astype(np.float64)))
        total = np.cumsum(weights / weights.sum())
        edges = np.sort(batch * total % 1.0)
        gaps = np.diff(edges, append=edges[0] + 1.0)
        offsets[t] = (edges[gaps.argmax()] + gaps.max() / 2) % 1.0
        chosen = np.searchsorted(total, (np.arange(batch) + offsets[t]) / batch)
        x = x[np.minimum(chosen, batch - 1)]
    parameters = np.float32([0.9, 0.5])
    return {"start": start, "noise": noise, "seen": seen, "offsets": offsets, "parameters": parameters}


def moved_and_weighed(tg: Any, x: Any, noise: Any, seen: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return the particles after a step, their normalized weights, and what the step adds to the likelihood."""
    x = parameters[0] * x + parameters[1] * tg.sin(x) + 0.5 * noise
    scores = -0.5 * tg.square(seen - x)
    total = tg.reduce_logsumexp(scores)
    return x, tg.exp(scores - total), total - tg.log(tg.cast(tg.size(x), "float32"))


def points(tg: Any, x: Any, offset: Any) -> Any:
    """Return the points, one in each of n equal pieces of [0, 1], at which the particles are chosen."""
    n = tg.size(x)
    return (tg.cast(tg.range(n), "float32") + offset) / tg.cast(n, "float32")


def particles_slices(tg: Any, start: Any, noise: Any, seen: Any, offsets: Any, parameters: Any) -> list[Any]:
    """Inputs by slices; chosen by ``searchsorted`` and gather."""

    def body(t: Any, x: Any, likelihood: Any) -> tuple[Any, ...]:
        x, weights, gain = moved_and_weighed(tg, x, noise[t], seen[t], parameters)
        chosen = tg.searchsorted(tg.cumsum(weights), points(tg, x, offsets[t]))
        x = tg.gather(x, tg.minimum(chosen, tg.size(x) - 1))
        return t + 1, x, likelihood + gain

    _, x, likelihood = tg.while_loop(lambda t, *_: t < noise.shape[0], body, [0, start, 0.0])
    return [likelihood, x]


def particles_tensor_array(tg: Any, start: Any, noise: Any, seen: Any, offsets: Any, parameters: Any) -> list[Any]:
    """Inputs and gains in TensorArrays; chosen by ``searchsorted`` and gather."""
    length = noise.shape[0]
    noises, sights, places = (tg.TensorArray("float32", length).unstack(each) for each in (noise, seen, offsets))

    def body(t: Any, x: Any, gains: Any) -> tuple[Any, ...]:
        x, weights, gain = moved_and_weighed(tg, x, noises.read(t), sights.read(t), parameters)
        chosen = tg.searchsorted(tg.cumsum(weights), points(tg, x, places.read(t)))
        x = tg.gather(x, tg.minimum(chosen, tg.size(x) - 1))
        return t + 1, x, gains.write(t, gain)

    loop = [0, start, tg.TensorArray("float32", length)]
    _, x, gains = tg.while_loop(lambda t, *_: t < length, body, loop)
    return [tg.reduce_sum(gains.stack()), x]


def particles_masks(tg: Any, start: Any, noise: Any, seen: Any, offsets: Any, parameters: Any) -> list[Any]:
    """Inputs by gather; chosen by a matrix of comparisons, taken by a product with a mask."""

    def body(t: Any, x: Any, likelihood: Any) -> tuple[Any, ...]:
        here = [tg.gather(each, t) for each in (noise, seen, offsets)]
        x, weights, gain = moved_and_weighed(tg, x, here[0], here[1], parameters)
        beyond = points(tg, x, here[2])[:, None] > tg.cumsum(weights)[None, :]
        chosen = tg.minimum(tg.reduce_sum(tg.cast(beyond, "int32"), axis=1), tg.size(x) - 1)
        mask = tg.cast(tg.equal(chosen[:, None], tg.range(tg.size(x))[None, :]), "float32")
        return t + 1, (mask @ x[:, None])[:, 0], likelihood + gain

    _, x, likelihood = tg.while_loop(lambda t, *_: t < noise.shape[0], body, [0, start, 0.0])
    return [likelihood, x]


def jax_particles(
    jax: Any, bounded: bool, start: Any, noise: Any, seen: Any, offsets: Any, parameters: Any
) -> list[Any]:
    """Filter with JAX."""
    jnp, n = jax.numpy, start.shape[0]

    def body(x: Any, here: Any) -> tuple[Any, Any]:
        noise, seen, offset = here
        x = parameters[0] * x + parameters[1] * jnp.sin(x) + 0.5 * noise
        scores = -0.5 * jnp.square(seen - x)
        total = jax.nn.logsumexp(scores)
        places = (jnp.arange(n, dtype=jnp.float32) + offset) / n
        chosen = jnp.searchsorted(jnp.cumsum(jnp.exp(scores - total)), places)
        return x[jnp.minimum(chosen, n - 1)], total - jnp.log(jnp.float32(n))

    x, gains = jax.lax.scan(body, start, (noise, seen, offsets))
    return [jnp.sum(gains), x]


# ---- a Kalman filter: position and velocity in the plane, seen as noisy positions

MOTION = np.float32([[1, 0, 0.1, 0], [0, 1, 0, 0.1], [0, 0, 1, 0], [0, 0, 0, 1]])


def draw_kalman(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw observations of shape (length, batch, 2), and the logarithms of both variances."""
    seen = np.cumsum(random.standard_normal((sizes["length"], sizes["batch"], 2)), axis=0)
    return {"seen": np.float32(0.1 * seen), "variances": np.float32([-2.0, -1.0])}


def inverse_stack(tg: Any, s: Any) -> tuple[Any, Any]:
    """Return inverse and determinant of a matrix of two rows, by elements that are stacked."""
    a, b, c, d = s[0, 0], s[0, 1], s[1, 0], s[1, 1]
    determinant = a * d - b * c
    return tg.stack([tg.stack([d, -b]), tg.stack([-c, a])]) / determinant, determinant


def inverse_concat(tg: Any, s: Any) -> tuple[Any, Any]:
    """Return both by slices that are concatenated."""
    a, b, c, d = s[:1, :1], s[:1, 1:], s[1:, :1], s[1:, 1:]
    determinant = a * d - b * c
    adjugate = tg.concat([tg.concat([d, -b], 1), tg.concat([-c, a], 1)], 0)
    return adjugate / determinant, tg.reshape(determinant, [])


def inverse_linalg(tg: Any, s: Any) -> tuple[Any, Any]:
    """Return both by the functions for them."""
    return tg.matrix_inverse(s), tg.matrix_determinant(s)


def kalman_update(tg: Any, inverse: Callable[..., Any], variances: Any, m: Any, p: Any, seen: Any) -> tuple[Any, ...]:
    """Return mean and covariance after a step and an observation, and what is added to the likelihood."""
    m = m @ MOTION.T
    p = MOTION @ p @ MOTION.T + tg.exp(variances[0]) * np.eye(4, dtype=np.float32)
    s = p[:2, :2] + tg.exp(variances[1]) * np.eye(2, dtype=np.float32)
    back, determinant = inverse(tg, s)
    missed = seen - m[:, :2]
    gain = p[:, :2] @ back
    fit = tg.reduce_sum((missed @ back) * missed, axis=1) + tg.log(determinant)
    return m + tg.matmul(missed, gain, transpose_b=True), p - gain @ p[:2, :], -0.5 * tg.reduce_mean(fit)


def kalman_start(tg: Any, seen: Any) -> list[Any]:
    """Return mean and covariance before the first observation."""
    return [tg.concat([seen[0], tg.zeros_like(seen[0])], 1), tg.eye(4)]


def kalman_rows(inverse: Callable[..., Any], take: Callable[..., Any], tg: Any, seen: Any, variances: Any) -> list[Any]:
    """Take the observations from the array; a running sum of the likelihood."""

    def body(t: Any, m: Any, p: Any, likelihood: Any) -> tuple[Any, ...]:
        m, p, gain = kalman_update(tg, inverse, variances, m, p, take(tg, seen, t))
        return t + 1, m, p, likelihood + gain

    _, m, p, likelihood = tg.while_loop(lambda t, *_: t < seen.shape[0], body, [0, *kalman_start(tg, seen), 0.0])
    return [likelihood, m, p]


def kalman_tensor_array(inverse: Callable[..., Any], tg: Any, seen: Any, variances: Any) -> list[Any]:
    """Observations and gains in TensorArrays."""
    length = seen.shape[0]
    rows = tg.TensorArray("float32", length).unstack(seen)

    def body(t: Any, m: Any, p: Any, gains: Any) -> tuple[Any, ...]:
        m, p, gain = kalman_update(tg, inverse, variances, m, p, rows.read(t))
        return t + 1, m, p, gains.write(t, gain)

    loop = [0, *kalman_start(tg, seen), tg.TensorArray("float32", length)]
    _, m, p, gains = tg.while_loop(lambda t, *_: t < length, body, loop)
    return [tg.reduce_sum(gains.stack()), m, p]


def jax_kalman(jax: Any, bounded: bool, seen: Any, variances: Any) -> list[Any]:
    """Filter with JAX."""
    jnp = jax.numpy

    def body(state: Any, seen: Any) -> tuple[Any, Any]:
        m, p = state
        m = m @ MOTION.T
        p = MOTION @ p @ MOTION.T + jnp.exp(variances[0]) * jnp.eye(4)
        s = p[:2, :2] + jnp.exp(variances[1]) * jnp.eye(2)
        (a, b), (c, d) = s
        determinant = a * d - b * c
        back = jnp.array([[d, -b], [-c, a]]) / determinant
        missed, gain = seen - m[:, :2], p[:, :2] @ back
        fit = jnp.sum((missed @ back) * missed, axis=1) + jnp.log(determinant)
        return (m + missed @ gain.T, p - gain @ p[:2, :]), -0.5 * jnp.mean(fit)

    start = jnp.concatenate([seen[0], jnp.zeros_like(seen[0])], 1), jnp.eye(4)
    (m, p), gains = jax.lax.scan(body, start, seen)
    return [jnp.sum(gains), m, p]


FILTERS = {
    "hmc": Program(
        draw=draw_hmc,
        spellings={"slices": hmc_slices, "tensor_array": hmc_tensor_array, "gather_masks": hmc_masks},
        jax=jax_hmc,
        sizes={"batch": 32, "units": 8, "length": 50},
        small={"batch": 4, "units": 4, "length": 6},
        batch={"start": 0, "momenta": 1, "uniform": 1},
    ),
    "particle_filter": Program(
        draw=draw_particles,
        spellings={
            "slices": particles_slices,
            "tensor_array": particles_tensor_array,
            "gather_masks": particles_masks,
        },
        jax=jax_particles,
        sizes={"batch": 64, "length": 50},
        small={"batch": 8, "length": 8},
        batch={"start": 0, "noise": 1},
        trained=("parameters",),
    ),
    "kalman_filter": Program(
        draw=draw_kalman,
        spellings={
            "stack": partial(kalman_rows, inverse_stack, lambda tg, seen, t: seen[t]),
            "concat": partial(kalman_tensor_array, inverse_concat),
            "linalg": partial(kalman_rows, inverse_linalg, lambda tg, seen, t: tg.gather(seen, t)),
        },
        jax=jax_kalman,
        sizes={"batch": 64, "length": 100},
        small={"batch": 4, "length": 8},
        batch={"seen": 1},
        trained=("variances",),
    ),
}
