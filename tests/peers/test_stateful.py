"""Steps of optimizers are those of TensorFlow, PyTorch and Keras, and metrics those of TensorFlow, where installed."""

from functools import partial

import numpy as np
import pytest
import tagloom as tg

from tests.peers.other_side import answers, needs, python_with
from tests.peers.stateful import RATE, Metric, Training, measure, train

RANDOM = np.random.default_rng(11)
START = RANDOM.standard_normal((6, 3))
DENSE = [RANDOM.standard_normal((6, 3)) for _ in range(20)]


def slices(random):
    indices = random.integers(0, 6, random.integers(1, 6))
    return indices, random.standard_normal((len(indices), 3))


SPARSE = [slices(RANDOM) for _ in range(20)]
MIXED = [s if k % 3 else d for k, (s, d) in enumerate(zip(SPARSE, DENSE, strict=True))]
RMS = {"decay": 0.8, "momentum": 0.5, "epsilon": 1e-3}
FTRL = {
    "learning_rate_power": -0.4,
    "l1_regularization_strength": 0.3,
    "l2_regularization_strength": 0.2,
    "l2_shrinkage_regularization_strength": 0.01,
}
OPTIMIZERS = [  # what decays without gradients in TensorFlow's AdamOptimizer does not here: dense gradients alone
    ("GradientDescentOptimizer", {}),
    ("MomentumOptimizer", {"momentum": 0.9}),
    ("MomentumOptimizer", {"momentum": 0.9, "use_nesterov": True}),
    ("AdagradOptimizer", {"initial_accumulator_value": 0.2}),
    ("AdadeltaOptimizer", {"rho": 0.8, "epsilon": 1e-3}),
    ("RMSPropOptimizer", RMS),
    ("RMSPropOptimizer", {**RMS, "centered": True}),
    ("FtrlOptimizer", {"l1_regularization_strength": 0.1}),
    ("FtrlOptimizer", FTRL),
    ("FtrlOptimizer", {"beta": 0.5}),
]
ADAM = {"beta2": 0.99, "epsilon": 1e-3}
TRAININGS = [Training(kind, options, START, g) for kind, options in OPTIMIZERS for g in (DENSE, SPARSE, MIXED)]
TRAININGS += [
    Training("AdamOptimizer", ADAM, START, DENSE),
    Training("AdamOptimizer", {}, START.astype(np.float32), [g.astype(np.float32) for g in DENSE]),
    Training(
        "AdamWOptimizer",
        {"beta2": 0.99, "epsilon": 1e-3, "weight_decay": 0.1},
        START,
        DENSE,
        "torch",
        "AdamW",
        {"betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.1},
    ),
    Training(
        "MomentumOptimizer",
        {"momentum": 0.9, "use_nesterov": True},
        START,
        DENSE,
        "torch",
        "SGD",
        {"momentum": 0.9, "nesterov": True},
    ),
    Training(
        "AdadeltaOptimizer", {"rho": 0.8, "epsilon": 1e-3}, START, DENSE, "torch", "Adadelta", {"rho": 0.8, "eps": 1e-3}
    ),
    Training("LambOptimizer", {"epsilon": 1e-3}, START, DENSE, "keras", "Lamb", {"epsilon": 1e-3}),
]


def batches(random, make, weighted):
    """Return five batches and their weights, if there are to be any."""
    made = [make(random) for _ in range(5)]
    rows = made[0][0].shape[0]
    weights = [np.abs(random.standard_normal((rows,))).astype(np.float32) for _ in made] if weighted else None
    return made, weights


def numbers(random):
    return [random.standard_normal(8).astype(np.float32) for _ in range(2)]


def outcomes(random):
    return [random.random(8) < 0.5, random.random(8) < 0.6]


def scores(random):
    return [random.random(40) < 0.5, random.random(40).astype(np.float32)]


def classes(random):
    return [random.integers(0, 4, 8), random.integers(0, 4, 8)]


def ranked(random):
    """Return two right classes for each row, which differ, and scores of six."""
    classes = np.tile(np.arange(6), (8, 1))
    return [random.permuted(classes, axis=1)[:, :2], random.permuted(classes.astype(np.float32), axis=1)]


def top(random):
    """Return two right classes for each row, and the three best ones."""
    labels, scores = ranked(random)
    return [labels, np.argsort(-scores, 1)[:, :3]]


THRESHOLDS = [0.1, 0.5, 0.8]
COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
CHOICES = [
    *[(name, numbers, {}) for name in ("mean_squared_error", "root_mean_squared_error", "mean_absolute_error")],
    ("accuracy", classes, {}),
    *[(name, outcomes, {}) for name in (*COUNTS, "precision", "recall")],
    *[(f"{name}_at_thresholds", scores, {"thresholds": THRESHOLDS}) for name in (*COUNTS, "precision", "recall")],
    *[
        ("auc", scores, {"curve": curve, "summation_method": method, "num_thresholds": 50})
        for curve in ("ROC", "PR")
        for method in ("trapezoidal", "minoring", "majoring")
    ],
    ("auc", scores, {"curve": "PR", "summation_method": "careful_interpolation"}),
    ("auc", scores, {"thresholds": THRESHOLDS}),
    ("sensitivity_at_specificity", scores, {"specificity": 0.713}),
    ("specificity_at_sensitivity", scores, {"sensitivity": 0.713}),
    ("mean_iou", classes, {"num_classes": 5}),
    ("mean_per_class_accuracy", classes, {"num_classes": 5}),
    ("mean", lambda random: numbers(random)[:1], {}),
    ("mean_tensor", lambda random: numbers(random)[:1], {}),
    ("percentage_below", lambda random: numbers(random)[:1], {"threshold": 0.25}),
    *[(f"{kind}_at_k", ranked, {"k": k}) for kind in ("precision", "recall", "average_precision") for k in (1, 3)],
    *[(f"{kind}_at_k", ranked, {"k": 2, "class_id": 3}) for kind in ("precision", "recall")],
    *[(f"{kind}_at_top_k", top, {}) for kind in ("precision", "recall")],
    ("mean_relative_error", lambda random: [*numbers(random), numbers(random)[0]], {}),
]
METRICS = []
for name, make, keywords in CHOICES:
    for weighted in (False, True):
        drawn, weights = batches(RANDOM, make, weighted)
        METRICS.append(Metric(name, drawn, keywords, weights))
METRICS.append(
    Metric("mean_cosine_distance", [[x.reshape(4, 2) for x in numbers(RANDOM)] for _ in range(5)], {"dim": 1})
)


def session():
    return tg.SyncSession(tg.get_default_graph())


@pytest.mark.parametrize("peer", ["tensorflow", "torch", "keras"])
def test_steps_of_optimizers_are_those_of_others(peer):
    if python_with(peer) is None:
        pytest.skip(f"needs {peer}")
    runs = [run for run in TRAININGS if run.peer == peer]
    for run, theirs in zip(runs, answers("stateful_side", runs, peer), strict=True):
        assert not isinstance(theirs, str), f"{run}: {theirs}"
        make = partial(getattr(tg.training, run.kind), RATE, **run.options)
        ours = train(tg, make, tg.global_variables_initializer, session, run)
        assert len(ours) == len(theirs) == 20
        for found, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6, err_msg=str((run.kind, run.options)))


@needs("tensorflow")
def test_metrics_are_those_of_tensorflow():
    for metric, theirs in zip(METRICS, answers("stateful_side", METRICS), strict=True):
        assert not isinstance(theirs, str), f"{metric.name}: {theirs}"
        ours = measure(tg, tg.global_variables_initializer, session, metric)
        assert len(ours) == len(theirs) == 6
        for found, wanted in zip(ours, theirs, strict=True):
            assert found.dtype == wanted.dtype or metric.name.endswith("_k"), metric.name  # float64 there
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=str(metric))
