import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import DtypeError, GraphError, ShapeError

X = np.random.default_rng(5).standard_normal((3, 6))


def value(build, *arguments, shapes=None):
    signature = None if shapes is None else [tg.TensorSpec(s, a.dtype) for s, a in zip(shapes, arguments, strict=True)]
    return tg.function(build, input_signature=signature).sync(*arguments)


@pytest.mark.parametrize("shape", [(3, 6), (None, None), None])
@pytest.mark.parametrize("length", [4, 6, 9])
def test_signals_are_cut_or_filled_up(shape, length):
    found = value(lambda x: tg.rfft(x, [length]), X, shapes=[shape])
    np.testing.assert_allclose(found, np.fft.rfft(X, length), atol=1e-12)
    back = value(lambda x: tg.irfft(tg.rfft(x), [length]), X, shapes=[shape])
    np.testing.assert_allclose(back, np.fft.irfft(np.fft.rfft(X), length), atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 6), (None, None), None])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_lengths_may_be_tensors(shape, dtype):
    lengths = np.array([4, 5], dtype)
    found = value(lambda x, n: tg.rfft2d(x, n), X, lengths, shapes=[shape, (2,)])
    np.testing.assert_allclose(found, np.fft.rfft2(X, (4, 5)), atol=1e-12)
    back = value(lambda x, n: tg.irfft2d(tg.complex(x, x), n), X, lengths, shapes=[shape, (2,)])
    np.testing.assert_allclose(back, np.fft.irfft2(X + 1j * X, (4, 5)), atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 6), (None, None), None])
def test_gradient_of_a_cut_signal_is_0_where_it_was_cut(shape):
    def energy(x):
        return tg.gradients(tg.reduce_sum(tg.square(tg.abs(tg.rfft(x, [4])))), [x])[0]

    wanted = np.zeros_like(X)
    for i, row in enumerate(X):
        weights = [np.exp(-2j * np.pi * k * np.arange(4) / 4) for k in range(3)]
        wanted[i, :4] = sum(2 * (np.conj(row[:4] @ w) * w).real for w in weights)
    np.testing.assert_allclose(value(energy, X, shapes=[shape]), wanted, atol=1e-12)


def test_single_precision_stays():
    found = value(lambda x: tg.fft(tg.complex(x, x)), X.astype(np.float32))
    assert found.dtype == np.complex64
    assert value(lambda x: tg.irfft(tg.rfft(x)), X.astype(np.float32)).dtype == np.float32


def test_transforms_in_a_loop_over_rows():
    found = value(lambda x: tg.map_fn(lambda row: tg.abs(tg.rfft(row)), x), X)
    np.testing.assert_allclose(found, np.abs(np.fft.rfft(X)), atol=1e-12)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tg.fft2d(np.zeros(3, complex)), ShapeError),
        (lambda: tg.rfft(np.zeros(3, complex)), DtypeError),
        (lambda: tg.fft(np.zeros(3)), DtypeError),
        (lambda: tg.rfft(np.zeros(3), [1, 2]), ShapeError),
        (lambda: tg.rfft(np.zeros(3), [0]), ShapeError),
        (lambda: tg.dct(np.zeros(3), type=5), GraphError),
        (lambda: tg.dct(np.zeros(3), type=1, norm="ortho"), GraphError),
        (lambda: tg.dct(np.zeros((3, 2)), axis=0), GraphError),
        (lambda: tg.dct(np.zeros(1), type=1), ShapeError),
        (lambda: tg.dct(np.zeros(3, np.int32)), DtypeError),
        (lambda: tg.idct(np.zeros(3), n=5), GraphError),
        (lambda: tg.frame(np.zeros(3), 0, 1), ShapeError),
        (lambda: tg.frame(np.zeros(3), 1, 1, axis=2), ShapeError),
        (lambda: tg.overlap_and_add(np.zeros(3), 1), ShapeError),
        (lambda: tg.hann_window(0), ShapeError),
        (lambda: tg.hann_window(4, dtype="int32"), DtypeError),
        (lambda: tg.fftshift(np.zeros(3), axes=3), ShapeError),
    ],
)
def test_what_can_not_be_is_refused(build, error):
    with pytest.raises(error), tg.Graph().as_default():
        build()


def test_frames_need_a_rank():
    with tg.Graph().as_default(), pytest.raises(GraphError, match="rank"):
        tg.frame(tg.placeholder("float32"), 2, 1)


@pytest.mark.parametrize("shape", [(3, 6), (None, None)])
@pytest.mark.parametrize(("length", "step", "end"), [(3, 2, False), (4, 3, True), (2, 5, True), (9, 2, False)])
def test_frames_of_open_shapes(shape, length, step, end):
    found = value(lambda x: tg.frame(x, length, step, pad_end=end, pad_value=7.0), X, shapes=[shape])
    padded = np.concatenate([X, np.full((3, 10), 7.0)], 1)
    starts = range(0, 6, step) if end else range(0, 6 - length + 1, step)
    wanted = [[row[s : s + length] for s in starts] for row in padded]
    np.testing.assert_array_equal(found, np.array(wanted).reshape(3, -1, length))


def test_a_signal_comes_back_from_its_short_time_transform():
    signal = np.random.default_rng(1).standard_normal(40)
    window = tg.inverse_stft_window_fn(3)
    found = value(lambda x: tg.inverse_stft(tg.stft(x, 8, 3), 8, 3, window_fn=window), signal)
    np.testing.assert_allclose(found[8:30], signal[8:30], atol=1e-12)
