"""Activations, moments, batch normalization and losses that are compositions."""

import numpy as np

from tests.peers.calls import Call, family

ACTIVATIONS = ("relu6", "leaky_relu", "selu", "swish", "crelu", "zero_fraction", "l2_loss", "softmax", "log_softmax")


def _floats(random, shape):
    return random.standard_normal(shape).astype(np.float32)


def _shape(random, least=1, most=5):
    return tuple(int(d) for d in random.integers(1, 5, random.integers(least, most)))


def _axes(random, rank):
    return [i for i in range(rank) if random.random() < 0.6]


def _activation(random):
    name = str(random.choice(ACTIVATIONS))
    x = _floats(random, _shape(random))
    return Call(name, [np.round(x) if name == "zero_fraction" else x], theirs=f"nn.{name}")


def _bias(random):
    x = _floats(random, _shape(random, 4, 5))
    data_format = str(random.choice(["NHWC", "NCHW"]))
    bias = _floats(random, x.shape[1 if data_format == "NCHW" else -1])
    return Call("bias_add", [x, bias], {"data_format": data_format}, theirs="nn.bias_add")


def _moments(random):
    x = _floats(random, [d + 1 for d in _shape(random)])
    axes, keepdims = _axes(random, x.ndim) or [0], bool(random.random() < 0.5)
    which = random.random()
    if which < 0.4:
        # Weights that are equal along the axes have no gradient but the roundings of either library.
        sizes = [d if i in axes or random.random() < 0.7 else 1 for i, d in enumerate(x.shape)]
        weights = random.uniform(0.1, 2, sizes).astype(np.float32)
        return Call("weighted_moments", [x, axes, weights], {"keepdims": keepdims}, theirs="nn.weighted_moments")
    if which < 0.7:
        shift = _floats(random, ()) if random.random() < 0.5 else None
        return Call(
            "sufficient_statistics", [x, axes, shift], {"keepdims": keepdims}, theirs="nn.sufficient_statistics"
        )
    shape = _shape(random)
    arguments = [np.float32(random.integers(1, 9)).reshape(()), _floats(random, shape), _floats(random, shape) ** 2]
    shift = _floats(random, shape) if random.random() < 0.5 else None
    return Call("normalize_moments", [*arguments, shift], theirs="nn.normalize_moments")


def _normalized(random):
    x = _floats(random, _shape(random, 2))
    mean, offset, scale = (_floats(random, x.shape[-1:]) for _ in range(3))
    variance = random.uniform(0.1, 2, x.shape[-1:]).astype(np.float32)
    offset, scale = offset if random.random() < 0.7 else None, scale if random.random() < 0.7 else None
    return Call("batch_normalization", [x, mean, variance, offset, scale, 0.01], theirs="nn.batch_normalization")


def _fused(random):
    x = _floats(random, tuple(int(d) for d in random.integers(2, 6, 4)))
    scale, offset, mean = (_floats(random, x.shape[-1:]) for _ in range(3))
    variance = random.uniform(0.5, 2, x.shape[-1:]).astype(np.float32)
    arguments, keywords = [x, scale, offset], {"epsilon": 0.01, "is_training": bool(random.random() < 0.6)}
    if not keywords["is_training"]:
        arguments += [mean, variance]
    elif random.random() < 0.5:
        arguments += [mean, variance]
        keywords["exponential_avg_factor"] = 0.25
    return Call("fused_batch_norm", arguments, keywords, theirs="nn.fused_batch_norm")


def _loss(random):
    shape = _shape(random)
    if random.random() < 0.5:
        labels, weight = random.uniform(0, 1, shape).astype(np.float32), random.uniform(0.2, 3, ()).astype(np.float32)
        name = "weighted_cross_entropy_with_logits"
        return Call(name, [labels, _floats(random, shape), weight], theirs=f"nn.{name}")
    counts = random.uniform(1.5, 9, shape).astype(np.float32)
    keywords = {"compute_full_loss": bool(random.random() < 0.5)}
    return Call("log_poisson_loss", [counts, _floats(random, shape)], keywords, theirs="nn.log_poisson_loss")


@family
def nn_functions(random):
    """Draw a call of a function of networks."""
    kinds = [_activation, _bias, _moments, _normalized, _fused, _loss]
    return kinds[int(random.integers(len(kinds)))](random)
