"""The experiment: cases, engines and bars."""

from __future__ import annotations

from ..experiment import Bar, Experiment
from .catalogue import PROGRAMS, cases
from .engines import CALLED, NOT_NATIVE, jax, sides, tagloom

QUICK = ("newton", "kalman_filter", "gru", "k_means")

EXPERIMENT = Experiment(
    name="spellings",
    cases=cases("full", *PROGRAMS),
    quick_cases=cases("small", *QUICK),
    engines={"tagloom": tagloom, "jax": jax},
    metric="steps_per_second",
    tolerance=5e-4,
    notes=(NOT_NATIVE, CALLED),
    together=("spelling",),
    same_values=("spelling",),
    peer_case=lambda case: {**case, "spelling": "jax"},  # one spelling, of users of JAX
    sides=sides,
    bars=(
        Bar("fastest_spelling", "least", 1 / 1.3),
        Bar("jax", "least", 1 / 3),
        Bar("jax", "median", 1.0),
    ),
)
