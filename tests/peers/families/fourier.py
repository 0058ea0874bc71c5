"""Fourier and cosine transforms, frames, windows, short-time transforms."""

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

SUFFIX = {1: "", 2: "2d", 3: "3d"}


def complexes(random, shape):
    """Return normally distributed complex numbers in complex64."""
    return floats(random, shape) + 1j * floats(random, shape)


def of_complex(random):
    """Draw a transform of a complex signal."""
    rank = int(random.integers(1, 4))
    name = f"{random.choice(['fft', 'ifft'])}{SUFFIX[rank]}"
    return Call(name, [complexes(random, dims(random, rank + random.integers(0, 2)))], theirs=f"signal.{name}")


def of_real(random):
    """Draw a transform of a real signal, or back to one.

    TensorFlow has gradients of those over one or two dimensions, and only where these are not cut.
    """
    rank = int(random.integers(1, 4))
    back = bool(random.random() < 0.5)
    name = f"{'irfft' if back else 'rfft'}{SUFFIX[rank]}"
    shape = tuple(d + 1 for d in dims(random, rank + random.integers(0, 2)))
    length = [int(n) for n in random.integers(2, 8, rank)]
    x = complexes(random, shape) if back else floats(random, shape)
    least = [*length[:-1], length[-1] // 2 + 1] if back else length
    is_cut = any(n < d for n, d in zip(least, shape[-rank:], strict=True))
    whole = bool(random.random() < 0.5)
    keywords = {} if whole else {"fft_length": length}
    differentiable = rank < 3 and (whole or not is_cut)
    return Call(name, [x], keywords, theirs=f"signal.{name}", differentiable=differentiable)


def shifted(random):
    """Draw a shift of a spectrum."""
    shape = dims(random, random.integers(1, 4))
    axes = None if random.random() < 0.3 else [int(i) for i in random.permutation(len(shape))[:2]]
    name = str(random.choice(["fftshift", "ifftshift"]))
    return Call(name, [floats(random, shape)], {"axes": axes}, theirs=f"signal.{name}")


def cosine(random):
    """Draw a cosine transform."""
    kind, name = int(random.integers(1, 5)), str(random.choice(["dct", "idct"]))
    keywords = {"type": kind}
    if kind > 1 and random.random() < 0.5:
        keywords["norm"] = "ortho"
    if name == "dct" and random.random() < 0.3:
        keywords["n"] = int(random.integers(2, 7))
    shape = (*dims(random, random.integers(0, 3)), int(random.integers(2, 9)))
    return Call(name, [floats(random, shape)], keywords, theirs=f"signal.{name}")


def framed(random):
    """Draw a signal to cut into frames, or frames to add up."""
    length, step = (int(n) for n in random.integers(1, 6, 2))
    shape = (*dims(random, random.integers(0, 3)), int(random.integers(6, 15)))
    if random.random() < 0.5:
        axis = int(random.integers(-len(shape), 0))
        keywords = {"pad_end": bool(random.random() < 0.5), "axis": axis}
        return Call("frame", [floats(random, shape), length, step], keywords, theirs="signal.frame")
    return Call("overlap_and_add", [floats(random, (*shape, length)), step], theirs="signal.overlap_and_add")


def short_time(random):
    """Draw a short-time transform, one way or back, or a window."""
    length, step = int(random.integers(2, 9)), int(random.integers(1, 6))
    kind = random.random()
    if kind < 0.2:
        name = str(random.choice(["hann_window", "hamming_window"]))
        return Call(name, [length, bool(random.random() < 0.5)], theirs=f"signal.{name}")
    window = {} if random.random() < 0.7 else {"window_fn": None}
    fft_length = int(random.integers(length, 12))
    if kind < 0.6:
        keywords = {**window, "fft_length": fft_length, "pad_end": bool(random.random() < 0.5)}
        signals = floats(random, (*dims(random, random.integers(0, 2)), int(random.integers(9, 20))))
        return Call("stft", [signals, length, step], keywords, theirs="signal.stft")
    spectra = complexes(random, (*dims(random, random.integers(1, 3)), fft_length // 2 + 1))
    return Call(
        "inverse_stft",
        [spectra, length, step],
        {**window, "fft_length": fft_length},
        theirs="signal.inverse_stft",
    )


KINDS = (of_complex, of_real, shifted, cosine, framed, short_time)


@family
def fourier(random):
    """Draw a transform."""
    return KINDS[random.integers(len(KINDS))](random)
