"""Linear algebra: decompositions, systems of equations, diagonals, contractions."""

from dataclasses import replace

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def matrix(random, kind, *shape):
    """Return matrices in double precision, real or complex."""
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if kind == "complex" else x


def batch(random):
    """Return leading dimensions."""
    return dims(random, random.integers(0, 3))


def regular(random, kind, *shape):
    """Return square matrices that are far from singular."""
    return matrix(random, kind, *shape, shape[-1]) + 3 * np.eye(shape[-1])


def full_rank(random, kind, *shape):
    """Return matrices whose singular values are all far from 0."""
    return matrix(random, kind, *shape) / 3 + 2 * np.eye(*shape[-2:])


def positive(random, kind, *shape):
    """Return positive definite matrices."""
    x = matrix(random, kind, *shape, shape[-1])
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])


def size(random, least=1):
    """Return a size of a matrix."""
    return int(random.integers(least, 5))


def flag(random):
    """Return a truth value."""
    return bool(random.random() < 0.5)


def in_single(random, call):
    """Return a call, half of all in single precision."""
    if flag(random):
        return call
    single = {"f": np.float32, "c": np.complex64}
    arrays = [a.astype(single[a.dtype.kind]) if isinstance(a, np.ndarray) else a for a in call.arguments]
    return replace(call, arguments=arrays)


def named(name, arguments, theirs, **keywords):
    """Return a call of a function that TensorFlow has in a module."""
    return Call(name, arguments, keywords, theirs=theirs)


@family
def decompositions(random):
    """Draw a decomposition; vectors, of which no library decides the signs as another does, are left to the samples."""
    lead, n, m, kind = batch(random), size(random), size(random), str(random.choice(["real", "complex"]))
    real = (
        "real"  # where TensorFlow gives complex values that are real, a wrong gradient, or nothing of complex matrices
    )
    square, any_shape = (*lead, n), (*lead, m, n)
    calls = [
        lambda: named("cholesky", [positive(random, kind, *square)], "linalg.cholesky"),
        lambda: named("qr", [full_rank(random, kind, *lead, max(m, n), n)], "linalg.qr"),
        lambda: named("qr", [full_rank(random, kind, *lead, n, n)], "linalg.qr", full_matrices=True),
        lambda: named("svd", [matrix(random, kind, *any_shape)], "linalg.svd", compute_uv=False),
        lambda: named("self_adjoint_eigvals", [positive(random, real, *square)], "self_adjoint_eigvals"),
        lambda: named("expm", [matrix(random, kind, *square, n)], "linalg.expm"),
        lambda: named("matrix_determinant", [regular(random, real, *square)], "linalg.det"),
        lambda: named("slogdet", [regular(random, real, *square)], "linalg.slogdet"),
        lambda: named("logdet", [positive(random, kind, *square)], "linalg.logdet"),
        lambda: named("pinv", [full_rank(random, real, *any_shape)], "linalg.pinv"),
    ]
    return in_single(random, calls[random.integers(len(calls))]())


@family
def solving(random):
    """Draw a system of equations, or an inverse."""
    lead, n, m, k = batch(random), size(random), size(random), size(random)
    kind = str(random.choice(["real", "complex"]))
    rhs, adjoint = matrix(random, kind, *lead, n, k), flag(random)
    lower = flag(random)
    calls = [
        lambda: named("matrix_solve", [regular(random, kind, *lead, n), rhs], "linalg.solve", adjoint=adjoint),
        lambda: named(
            "matrix_triangular_solve",
            [regular(random, kind, *lead, n), rhs],
            "linalg.triangular_solve",
            lower=lower,
            adjoint=adjoint,
        ),
        lambda: named("cholesky_solve", [np.tril(regular(random, kind, *lead, n)), rhs], "linalg.cholesky_solve"),
        lambda: named("matrix_inverse", [regular(random, kind, *lead, n)], "linalg.inv"),
        lambda: Call(
            "matrix_inverse",
            [regular(random, kind, *lead, n)],
            {"adjoint": True},
            theirs="linalg.inv",
            differentiable=False,  # TensorFlow's gradient forgets that
        ),
        lambda: named(
            "matrix_solve_ls",
            [full_rank(random, "real", *lead, m, n), matrix(random, "real", *lead, m, k)],
            "linalg.lstsq",
            l2_regularizer=float(random.choice([0.5, 2.0])),
        ),
        lambda: Call(
            "matrix_solve_ls",
            [full_rank(random, kind, *lead, n, m), rhs],
            {"fast": adjoint},
            theirs="linalg.lstsq",
            differentiable=adjoint,  # TensorFlow has no gradient of the other way
        ),
    ]
    return in_single(random, calls[random.integers(len(calls))]())


def band(random, rows, columns):
    """Return the lower and the upper one of some diagonals of a matrix."""
    ends = sorted(int(k) for k in random.integers(1 - rows, columns, 2))
    return (ends[0], ends[0]) if flag(random) else (ends[0], ends[1])


def longest(k, rows, columns):
    """Return the length of the longest of some diagonals."""
    return min(rows + min(k[1], 0), columns - max(k[0], 0))


@family
def diagonals(random):
    """Draw a call of a function of diagonals, or of bands."""
    lead, rows, columns = batch(random), size(random), size(random)
    x, k, align = floats(random, (*lead, rows, columns)), band(random, rows, columns), str(random.choice(ALIGNMENTS))
    around = band(random, rows, rows)
    inside, whole = (
        floats(random, (*lead, *((k[1] - k[0] + 1,) if k[1] > k[0] else ()), longest(k, *shape)))
        for k, shape in ((k, (rows, columns)), (around, (rows, rows)))
    )
    some = dims(random, random.integers(1, 3))
    calls = [
        lambda: Call("matrix_diag_part", [x], {"k": k, "align": align, "padding_value": 7.0}),
        lambda: Call("matrix_set_diag", [x, inside], {"k": k, "align": align}),
        lambda: Call("matrix_diag", [whole], {"k": around, "align": align}),
        lambda: Call("matrix_diag", [whole], {"k": around, "align": align, "padding_value": -1.5}),
        lambda: Call("matrix_diag", [inside], {"k": k, "align": align, "num_rows": rows, "num_cols": columns}),
        lambda: Call("matrix_band_part", [x, *map(int, random.integers(-1, min(rows, columns), 2))]),
        lambda: Call("trace", [x]),
        lambda: Call("matrix_transpose", [x], {"conjugate": flag(random)}),
        lambda: Call("diag", [floats(random, some)]),
        lambda: Call("diag_part", [floats(random, (*some, *some))]),
        lambda: Call("cross", [floats(random, (*lead, 3)), floats(random, (*lead, 3))]),
    ]
    return calls[random.integers(len(calls))]()


LABELS = "abcde"


def einsum(random):
    """Draw an equation and its tensors: one to four, some with an ellipsis, some with a label twice."""
    sizes = {label: size(random) for label in LABELS}
    dots = dims(random, 2)
    terms, arrays, seen = [], [], set()
    has_dots = flag(random)
    for _ in range(random.integers(1, 5)):
        term = [
            str(label) for label in random.choice(list(LABELS), random.integers(0, 4), replace=random.random() < 0.3)
        ]
        shape = [sizes[label] for label in term]
        seen |= set(term)
        if has_dots and flag(random):
            place, cut = int(random.integers(0, len(term) + 1)), int(random.integers(0, 3))
            shape[place:place] = [d if random.random() < 0.7 else 1 for d in dots[cut:]]
            term.insert(place, "...")
        terms.append("".join(term))
        arrays.append(floats(random, tuple(shape), "positive"))  # sums of so many terms cancel to any number of digits
    output = [str(label) for label in random.permutation(sorted(seen)) if flag(random)]
    if any("..." in term for term in terms):
        output.insert(int(random.integers(0, len(output) + 1)), "...")
    return Call("einsum", [",".join(terms) + "->" + "".join(output), *arrays])


def implicit(random):
    """Draw an equation that does not give the output."""
    equation = str(random.choice(["ij,jk", "ii", "ba", "i,j", "bij,bjk", "ij,ij", "iij,j"]))
    terms = equation.split(",")
    sizes = {label: size(random) for label in "abijk"}
    return Call("einsum", [equation, *(floats(random, tuple(sizes[x] for x in term)) for term in terms)])


def tensordot(random):
    """Draw a contraction by numbers of dimensions."""
    count = int(random.integers(0, 3))
    shared, left, right = dims(random, count), dims(random, random.integers(0, 3)), dims(random, random.integers(0, 3))
    if flag(random):
        return Call("tensordot", [floats(random, (*left, *shared)), floats(random, (*shared, *right)), count])
    ours, theirs = (random.permutation(count + len(rest)) for rest in (left, right))
    a, b = floats(random, (*shared, *left)).transpose(ours), floats(random, (*shared, *right)).transpose(theirs)
    axes = [[int(np.flatnonzero(perm == i)[0]) for i in range(count)] for perm in (ours, theirs)]
    return Call("tensordot", [np.ascontiguousarray(a), np.ascontiguousarray(b), axes])


@family
def contractions(random):
    """Draw a call of `einsum` or `tensordot`."""
    return (einsum, implicit, tensordot)[random.integers(3)](random)
