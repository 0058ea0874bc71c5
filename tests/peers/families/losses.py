"""Losses with weights of all shapes and all reductions; learning rates that change."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

REDUCTIONS = (
    "none",
    "weighted_sum",
    "weighted_sum_over_batch_size",
    "weighted_mean",
    "weighted_sum_by_nonzero_weights",
)
BY_ELEMENT = (
    "absolute_difference",
    "mean_squared_error",
    "huber_loss",
    "hinge_loss",
    "log_loss",
    "cosine_distance",
    "mean_pairwise_squared_error",
    "sigmoid_cross_entropy",
)
BY_ROW = ("softmax_cross_entropy", "sparse_softmax_cross_entropy", "compute_weighted_loss")


def weights_for(random, shape):
    """Return weights that fit values of a shape: a number, or an array with some zeros."""
    if random.random() < 0.3:
        return float(random.choice([1.0, 0.5, 2.0]))
    own = () if random.random() < 0.1 else tuple(d if random.random() < 0.6 else 1 for d in shape)
    drawn = np.abs(random.standard_normal(own)) * (random.random(own) < 0.7)
    return np.asarray(drawn, np.float32)


def probabilities(random, shape):
    return random.random(shape).astype(np.float32) * np.float32(0.9) + np.float32(0.05)


def by_element(random, name):
    """Return the arguments and keywords of a loss of labels and predictions of one shape."""
    shape = dims(random, random.integers(2, 4) if name == "mean_pairwise_squared_error" else random.integers(1, 4))
    labels, predictions, keywords = floats(random, shape), floats(random, shape), {}
    if name in ("hinge_loss", "sigmoid_cross_entropy"):
        labels = (random.random(shape) < 0.5).astype(np.float32)
    if name == "sigmoid_cross_entropy" and random.random() < 0.5:
        keywords["label_smoothing"] = 0.25
    if name == "log_loss":
        labels, predictions = probabilities(random, shape), probabilities(random, shape)
    if name == "huber_loss":
        keywords["delta"] = 0.75
    if name == "mean_pairwise_squared_error":
        return [labels, predictions, weights_for(random, (shape[0], *(1 for _ in shape[1:])))], keywords
    if name == "cosine_distance":
        axis = int(random.integers(-len(shape), len(shape)))
        shape = tuple(1 if i == axis % len(shape) else d for i, d in enumerate(shape))
        return [labels, predictions, axis, weights_for(random, shape)], keywords
    return [labels, predictions, weights_for(random, shape)], keywords


def by_row(random, name):
    """Return the arguments and keywords of a loss of one number for each row."""
    rows, classes = dims(random, random.integers(1, 3)), int(random.integers(1, 5))
    logits, weights = floats(random, (*rows, classes)), weights_for(random, rows)
    if name == "compute_weighted_loss":
        return [floats(random, rows), weights], {}
    if name == "sparse_softmax_cross_entropy":
        return [random.integers(0, classes, rows).astype(np.int32), logits, weights], {}
    labels = random.dirichlet(np.ones(classes), rows).astype(np.float32)
    return [labels, logits, weights], {"label_smoothing": 0.25} if random.random() < 0.5 else {}


@family
def losses(random):
    """Draw a call of a loss."""
    name = str(random.choice(BY_ELEMENT + BY_ROW))
    arguments, keywords = (by_element if name in BY_ELEMENT else by_row)(random, name)
    if name != "mean_pairwise_squared_error" and random.random() < 0.8:
        keywords["reduction"] = str(random.choice(REDUCTIONS))
    if keywords.get("reduction") == "weighted_mean" and np.size(arguments[-1]) == 1:
        arguments[-1] = 1.0  # whatever it is, so that its gradient would be what rounding leaves of 0
    return Call(f"losses.{name}", arguments, keywords)


SIMPLE = ("exponential_decay", "natural_exp_decay", "inverse_time_decay")


@family
def schedules(random):
    """Draw a learning rate after a number of updates."""
    rate, step = np.float32(random.random() + 0.1), np.array(random.integers(0, 60))
    steps = int(random.integers(5, 40))
    choices = {
        "polynomial_decay": {
            "end_learning_rate": 0.05,
            "power": float(random.choice([0.5, 1, 2])),
            "cycle": bool(random.random() < 0.5),
        },
        "cosine_decay": {"alpha": 0.1},
        "cosine_decay_restarts": {"t_mul": float(random.choice([1.0, 1.7])), "m_mul": 0.9, "alpha": 0.1},
        "linear_cosine_decay": {"num_periods": 1.5, "alpha": 0.1, "beta": 0.01},
        "noisy_linear_cosine_decay": {"initial_variance": 0.0, "num_periods": 1.5, "beta": 0.01},
        **{name: {"decay_rate": 0.8, "staircase": bool(random.random() < 0.5)} for name in SIMPLE},
    }
    name = str(random.choice([*choices, "piecewise_constant"]))
    if name == "piecewise_constant":
        arguments, keywords = [step, [10, 20, steps + 20], [1.0, 0.5, 0.25, 0.125]], {}
    else:
        arguments, keywords = [np.asarray(rate), step, steps], choices[name]
    return Call(f"training.{name}", arguments, keywords, theirs=f"train.{name}")
