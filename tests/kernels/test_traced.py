"""Kernels that are traced: what a kernel does with NumPy's functions, and what has no steps and is called."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom import operations
from tagloom.compile.native import called

from tests.support.settings import ON

X = np.array([[0.9, -0.4, 0.3], [0.2, 0.7, -1.1]])
KERNELS = {}
UNTRACEABLE = {}


def traced(kernel):
    KERNELS[kernel.__name__] = kernel


def not_traced(kernel):
    UNTRACEABLE[kernel.__name__] = kernel


@traced
def partly_written(xp, x):
    out = xp.zeros(x.shape, x.dtype)
    out[:, 1:] = x[:, :-1]
    out[0] += 1.0
    return out


@traced
def read_before_it_is_written(xp, x):
    out = xp.full(x.shape, 2.0, x.dtype)
    doubled = out * x
    out[...] = x
    return doubled + out


@traced
def written_through_a_view(xp, x):
    out = xp.ones(x.shape, x.dtype)
    row = out[0]
    row[...] = x[1]
    row *= 0.5
    return out


@traced
def never_written(xp, x):
    return xp.maximum(xp.zeros((), x.dtype), x)


@traced
def copied(xp, x):
    out = xp.empty(x.shape, x.dtype)
    xp.copyto(out, x[::-1])
    return out


@traced
def copied_where(xp, x):
    out = xp.full(x.shape, x[0, 0], x.dtype)
    xp.copyto(out[0], x[1], where=x[0] > 0.1)
    return out


@traced
def parts_written(xp, x):
    z = xp.zeros(x.shape, complex)
    z.real[...] = x
    z.T.imag[...] = 1.0
    return xp.angle(z) + z.real


@traced
def views_written(xp, x):
    sums = xp.zeros(x.shape, x.dtype)
    np.transpose(sums)[:2] += x.T[:2]  # by functions, not by methods
    flat = np.reshape(sums, -1)
    flat[0] -= 1.0
    return sums + 1.0


@traced
def written_before_it_is_read_whole(xp, x):
    out = xp.zeros(x.shape, x.dtype)
    out += x
    return out


@traced
def in_place(xp, x):
    y = x * 2.0
    y += x
    np.multiply(y, 0.5, out=y)
    return y


@traced
def by_positions(xp, x):
    return x[:, [2, 0, 1]]


@traced
def by_a_mask(xp, x):
    return xp.concatenate([x[np.array([False, True])], x[np.array([True, False])]])


@traced
def turned(xp, x):
    return xp.ascontiguousarray(x.T).reshape(x.shape)


@traced
def views_of_views(xp, x):
    return xp.moveaxis(x[:, ::-1, None], 2, 0)[0, ::-1]


@traced
def joined(xp, x):
    first, second = xp.split(x, 2)
    return xp.stack([second[0], first[0] - second[0]])


@traced
def moved(xp, x):
    return xp.roll(xp.pad(x, ((0, 0), (1, 0))), 1, 1)[:, :3] + xp.tile(x[:, :1], (1, 3)) + xp.repeat(x[:1], 2, 0)


@traced
def chosen(xp, x):
    return xp.where(x > 0, x, -2 * x)


@traced
def cast(xp, x):
    return x.astype(xp.float32).astype(xp.float64) + xp.arange(3) * (x > 0)


@traced
def clipped(xp, x):
    return xp.clip(x, -0.5, 0.5)


@traced
def complex_parts(xp, x):
    z = (x + 1j * x) ** 2
    return z.real - z.conj().imag


@traced
def of_two_results(xp, x):
    fraction, whole = np.modf(3.0 * x)
    return fraction + whole


@traced
def of_one_element(xp, x):
    return x * x[0, 1] + xp.expand_dims(x[0, 2], (0, 1))


@traced
def a_view(xp, x):
    return x[::-1]


@traced
def its_input(xp, x):
    return x


@traced
def a_constant(xp, x):
    return xp.ones(x.shape)


@traced
def of_other_packages(xp, x):
    from scipy import special

    return special.erf(x) + special.xlogy(0.0, x) + special.fresnel(x)[0]


@traced
def of_shapes(xp, x):
    return x / x.size if x.ndim == len(x.shape) == 2 else x


def positions(xp, x):
    """Return three integers in [0, 3) that change."""
    return xp.where(x[0] > 0.2, 0, xp.where(x[1] > 0.2, 1, 2))


@traced
def taken_by_what_changes(xp, x):
    return xp.take(x, positions(xp, x), 1) + x[xp.where(x[0, :2] > 0, 1, -1)]


@traced
def taken_by_two(xp, x):
    return x[xp.where(x[:, :1] > 0, 1, 0), positions(xp, x)] + xp.take_along_axis(x, xp.where(x > 0, 0, 1), 1)


@traced
def put_by_what_changes(xp, x):
    out = xp.zeros(x.shape, x.dtype)
    out[xp.where(x[0, :2] > 0, 1, 0)] = x
    return out


@traced
def added_by_what_changes(xp, x):
    out = xp.ones(x.shape, x.dtype)
    np.add.at(out.reshape(-1), positions(xp, x), x[1])
    np.maximum.at(out, xp.where(x[:, 0] > 0, 0, 1), x)
    return out


@traced
def sorted_rows(xp, x):
    return xp.sort(x, 1) + xp.sort(x, axis=0, kind="stable")


@traced
def ordered(xp, x):
    order = xp.argsort(x, axis=1, kind="stable")
    keys = xp.stack([x[0], xp.where(x[0] > 0.5, 1.0, 0.0)])
    return xp.take_along_axis(x, order, 1) + xp.flip(x[0])[np.lexsort(keys)]


@traced
def looked_up(xp, x):
    steps = xp.searchsorted(xp.sort(x[0]), x.reshape(-1), "right").reshape(x.shape)
    return 0.1 * steps + xp.isin(x, x[0]) - 0.2 * xp.searchsorted(np.array([-1.0, 0.0, 0.5]), x)


@traced
def transformed(xp, x):
    spectrum = xp.fft.fftn(x + 0.5j * x[::-1], axes=(0, 1))
    real = xp.fft.rfftn(x, axes=(0, 1))
    return xp.fft.ifftn(spectrum, axes=(1,)).imag + xp.fft.irfftn(1.5 * real, x.shape, axes=(0, 1)) + real.real[:, :1]


@traced
def factored(xp, x):
    q, r = xp.linalg.qr(x.T)
    whole = xp.linalg.qr(x.T + 1j, "complete")[0]
    return q.T + r[0, 1] + whole[:2].imag


@traced
def checked(xp, x):
    if xp.any(x > 1e6) or not xp.all(xp.isfinite(x)):
        raise ValueError(f"too large: {x.max()}")
    return x * 2.0


@traced
def widened(xp, x):
    return x + (x > 0.1).sum(1, keepdims=True) + xp.cumsum(x < 0, 1) % 2 + xp.zeros_like(x)


@traced
def truncated(xp, x):
    return (3.0 * x).astype(xp.int64) // 2 + xp.floor(x)


@not_traced
def by_a_mask_that_changes(xp, x):
    return x + x[x > 0].sum()


@not_traced
def by_a_value(xp, x):
    return x if x[0, 0] > 0 else -x


@not_traced
def by_a_number(xp, x):
    return x * float(x[0, 1])


@not_traced
def as_an_array(xp, x):
    return np.asarray(x) * 2.0


@not_traced
def as_a_list(xp, x):
    return xp.asarray([row * 2.0 for row in x.tolist()]) if False else xp.asarray(x.tolist())


@traced
def reduced(xp, x):
    return x - xp.sum(x, 1, keepdims=True) * x.max() + xp.mean(x, axis=0) - x.min((0, 1), keepdims=True)


@traced
def reduced_to_one(xp, x):
    return xp.where(xp.all(x < 5.0), x, -x) + xp.sum(x)


@traced
def multiplied(xp, x):
    return x - xp.prod(x, 1, keepdims=True) * xp.prod(x[0])


@traced
def running(xp, x):
    return xp.cumsum(x, 1) * 0.1 + xp.cumprod(x[::-1], 0)[::-1] - xp.cumsum(x[:, ::-1], axis=1)


def square(xp, x):
    """Return stacked positive definite matrices of three rows."""
    return x[:, :, None] * x[:, None, :] + 2.0 * np.eye(3)


@traced
def solved(xp, x):
    found = xp.linalg.solve(square(xp, x), xp.stack([x, -x])[:, :, :, None][0])
    return found[:, :, 0] + xp.linalg.inv(square(xp, x))[:, 0] * xp.linalg.det(square(xp, x))[:, None]


@traced
def decomposed(xp, x):
    _, s, vh = xp.linalg.svd(square(xp, x)[:, :2], full_matrices=False)
    w, v = xp.linalg.eigh(square(xp, x))
    sign, size = xp.linalg.slogdet(square(xp, x))
    lower = xp.linalg.cholesky(square(xp, x))
    values = xp.linalg.eigvalsh(square(xp, x)) + xp.linalg.svd(x[:, :, None], compute_uv=False)
    return lower[:, 2] + xp.abs(vh[:, 0]) + w + xp.abs(v[:, 0]) + (sign * size + s[:, 0])[:, None] + values


@traced
def multiplied_as_matrices(xp, x):
    return x @ xp.ones((3, 3))


def apply(x, kernel):
    return operations.apply("TestKernel", x, name="kernel", kernel=kernel)


operations.define(
    "TestKernel",
    "x: T -> y: T",
    where={"T": (tg.float64,)},
    attrs={"kernel": operations.REQUIRED},
    shape=lambda op: op.inputs[0].shape,
    kernel=lambda xp, x, kernel: (KERNELS | UNTRACEABLE)[kernel](xp, x),
    gradient=operations.NotDifferentiable("only the tests here use it"),
)


async def loop_of(graph, kernel, settings):
    """Return what a loop with a kernel gives, and its report."""
    x = tg.placeholder("float64", X.shape)
    y = tg.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, 0.25 * y + tg.sin(apply(y, kernel))), [0, x])[1]
    async with tg.Session(graph, settings=settings) as session:
        for _ in range(3):  # small runs are kept
            found = await session.run(y, {x: X})
        return found, session.report().loops[0]


def expected(kernel):
    y = X
    for _ in range(4):
        y = 0.25 * y + np.sin((KERNELS | UNTRACEABLE)[kernel](np, y))
    return y


@pytest.mark.parametrize("kernel", KERNELS | UNTRACEABLE)
@pytest.mark.parametrize("llvm", [False, True])
async def test_kernels_in_loops(graph, monkeypatch, kernel, llvm):
    monkeypatch.setattr(called, "module_of", lambda type: "a module of the package")
    found, loop = await loop_of(graph, kernel, replace(ON, llvm=llvm))
    np.testing.assert_allclose(found, expected(kernel), rtol=1e-14)
    assert (loop.limited_by, loop.called) == ("native", () if kernel in KERNELS else ("kernel",))
    wanted, _ = await loop_of(graph, kernel, replace(ON, straight=False))
    assert found.tobytes() == wanted.tobytes()


async def test_kernels_of_users_are_called(graph):
    _, loop = await loop_of(graph, "chosen", ON)
    assert loop.called == ("kernel",)


@pytest.mark.parametrize("llvm", [False, True])
async def test_a_constant_result_keeps_its_memory(graph, monkeypatch, llvm):
    """The next operation may write its result over its input, except over one that no step computes anew."""
    monkeypatch.setattr(called, "module_of", lambda type: "a module of the package")
    x = tg.placeholder("float64", [40])
    y = tg.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, tg.sin(apply(y, "a_constant"))), [0, x])[1]
    async with tg.Session(graph, settings=replace(ON, llvm=llvm, fuse=False)) as session:
        found = await session.run(y, {x: np.zeros(40)})
        assert session.report().loops[0].limited_by == "native"
    np.testing.assert_allclose(found, np.sin(1.0))


async def test_a_violated_assumption_is_an_error_of_the_step_machine(graph, monkeypatch):
    """A check of values is a step; where it fails, the step machine calls the kernel, which raises its error."""
    monkeypatch.setattr(called, "module_of", lambda type: "a module of the package")
    x = tg.placeholder("float64", X.shape)
    y = tg.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, apply(y, "checked")), [0, x])[1]
    async with tg.Session(graph, settings=ON) as session:
        assert (await session.run(y, {x: X})).tobytes() == (16.0 * X).tobytes()
        assert session.report().loops[0].limited_by == "native"
        with pytest.raises(tg.TagloomError, match="too large"):
            await session.run(y, {x: 2e5 + X})
