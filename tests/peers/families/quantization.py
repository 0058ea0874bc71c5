"""Numbers of few bits: real ones rounded, to integers and back."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

THEIRS = {"int8": "qint8", "uint8": "quint8", "int16": "qint16", "uint16": "quint16", "int32": "qint32"}


def fake(random):
    """Draw a rounding with gradients."""
    x = 4 * floats(random, dims(random, random.integers(1, 4)))
    keywords = {"num_bits": int(random.integers(2, 10)), "narrow_range": bool(random.random() < 0.5)}
    ends = (-random.uniform(0, 5), random.uniform(0.5, 5))
    kind = int(random.integers(3))
    if kind == 0:
        keywords |= {"min": float(ends[0]), "max": float(ends[1])}
        name, operands = "fake_quant_with_min_max_args", [x]
    elif kind == 1:
        name, operands = "fake_quant_with_min_max_vars", [x, *map(np.float32, map(np.asarray, ends))]
        operands = [np.asarray(t, np.float32) for t in operands]
    else:
        name = "fake_quant_with_min_max_vars_per_channel"
        low, high = -random.uniform(0, 5, x.shape[-1]), random.uniform(0.5, 5, x.shape[-1])
        operands = [x, low.astype(np.float32), high.astype(np.float32)]
    return Call(name, operands, keywords, theirs=f"quantization.{name}")


def ranges(random, shape, axis):
    """Return ends of a range, or of one for each slice."""
    count = () if axis is None else shape[axis]
    low, high = -random.uniform(0.1, 5, count), random.uniform(0.5, 5, count)
    return [np.asarray(low, np.float32), np.asarray(high, np.float32)]


def modes(random, shape):
    """Draw a mode, and an axis of slices for it.

    TensorFlow has none for MIN_FIRST, and forgets one of size 1.
    """
    keywords = {"mode": str(random.choice(["MIN_COMBINED", "MIN_FIRST", "SCALED"]))}
    wide = [i for i, d in enumerate(shape) if d > 1 and keywords["mode"] != "MIN_FIRST"]
    axis = int(random.choice(wide)) if wide and random.random() < 0.4 else None
    if axis is not None:
        keywords["axis"] = axis
    if keywords["mode"] == "SCALED":
        keywords["narrow_range"] = bool(random.random() < 0.5)
    return axis, keywords


def to_integers(random):
    """Draw a quantization; not to 32 bits, which are not exact in float32, in which TensorFlow computes."""
    shape = dims(random, random.integers(1, 4))
    axis, keywords = modes(random, shape)
    kind = str(random.choice(["int8", "uint8", "int16", "uint16"]))
    if keywords["mode"] == "SCALED":
        keywords["round_mode"] = str(random.choice(["HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"]))
    return Call(
        "quantize",
        [4 * floats(random, shape), *ranges(random, shape, axis)],
        {**keywords, "T": kind},
        theirs="quantization.quantize",
        their_keywords={**keywords, "T": THEIRS[kind]},
        differentiable=False,
    )


def to_numbers(random):
    """Draw the way back."""
    shape = dims(random, random.integers(1, 4))
    axis, keywords = modes(random, shape)
    kind = np.dtype(str(random.choice(["int8", "uint8", "int16", "uint16"])))
    limits = np.iinfo(kind)
    x = random.integers(limits.min + 1, limits.max + 1, shape).astype(kind)
    ends = ranges(random, shape, axis)
    return Call(
        "dequantize",
        [x, *ends],
        keywords,
        theirs="quantization.dequantize",
        their_arguments=[x.view([(THEIRS[kind.name], kind)]), *ends],
        differentiable=False,
    )


@family
def quantization(random):
    """Draw a call about numbers of few bits."""
    return (fake, to_integers, to_numbers)[random.integers(3)](random)
