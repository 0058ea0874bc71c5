"""Gradients of any function of the API beside central differences, to second order."""

import numpy as np
import tagloom as tg

STEP = 1e-6


def check_gradients(function, arrays, known=True, order=2):
    """Fail unless the gradients of a function are its central differences, and so are those of the gradients.

    Parameters
    ----------
    function : callable
        From tensors to one tensor, or a list.
    arrays : list of array
        In double precision, real or complex.
    known : bool
        Whether the graph knows shapes; if not, not even ranks.
    order : int
    """
    with tg.Graph().as_default() as graph:
        xs = [tg.placeholder(a.dtype.name, a.shape if known else None) for a in arrays]
        targets = _listed(function(*xs))
        random = np.random.default_rng(3)
        with tg.SyncSession(graph) as session:
            for _ in range(order):
                weights = [_noise(random, v) for v in session.run(targets, dict(zip(xs, arrays, strict=True)))]
                found = tg.gradients(targets, xs, [tg.constant(w) for w in weights])
                found = [
                    tg.zeros_like(x) if g is None else tg.convert_to_tensor(g) for x, g in zip(xs, found, strict=True)
                ]
                values = session.run(found, dict(zip(xs, arrays, strict=True)))
                for i, value in enumerate(values):
                    wanted = _slopes(session, targets, weights, xs, arrays, i)
                    np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-6 * max(1.0, np.abs(wanted).max()))
                targets = found


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _noise(random, value):
    noise = random.standard_normal(value.shape)
    if value.dtype.kind == "c":
        noise = noise + 1j * random.standard_normal(value.shape)
    return np.asarray(noise, value.dtype)


def _slopes(session, targets, weights, xs, arrays, i):
    slopes = np.zeros(arrays[i].shape, arrays[i].dtype)
    for at in np.ndindex(slopes.shape):
        for unit in (1, 1j) if slopes.dtype.kind == "c" else (1,):
            totals = []
            for sign in (1, -1):
                moved = list(arrays)
                moved[i] = arrays[i].copy()
                moved[i][at] += sign * unit * STEP
                values = session.run(targets, dict(zip(xs, moved, strict=True)))
                totals.append(sum(np.sum(np.conj(w) * v).real for w, v in zip(weights, values, strict=True)))
            slopes[at] += unit * (totals[0] - totals[1]) / (2 * STEP)
    return slopes
