"""A candidate sampler that learns class frequencies, in a variable, from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.apply import apply, convert_to_tensor
from ...ops.random.candidates import Candidates, Sampler, by_weights, define_sampler
from ..control.scopes import control_dependencies, name_scope
from ..state.variables import Variable


def _build_learned_sampler(
    true_classes: Any, sizes: tuple[int, int, bool, int], seed: int | None, name: str | None
) -> Candidates:
    """Build a sampler by counts in a variable; see `build_sampler`."""
    with name_scope(name, "learned_unigram_candidate_sampler"):
        # In float64, which counts exactly up to 2**53; float32 would stop at 2**24.
        counts = Variable(np.ones(sizes[-1]), trainable=False, name="counts")
        # Not `value`, which may share an earlier read: in a loop each iteration draws by the counts of the one before.
        before = counts.read_value()
        drawn = by_weights(before, true_classes, sizes, seed, None)
        seen = apply("Reshape", convert_to_tensor(true_classes), [-1])
        update = counts.scatter_add(seen, apply("Fill", apply("Shape", seen), np.ones(())))
        # Fetching any of the results counts this step's classes, after the draw.
        with control_dependencies([update]):
            return Candidates(*(apply("Identity", tensor) for tensor in drawn))


learned_unigram_candidate_sampler: Sampler = define_sampler(
    "learned_unigram_candidate_sampler",
    _build_learned_sampler,
    """Draw classes by their frequency as true classes so far; every class starts with a count of 1.

    The counts are a variable outside training, to be initialized and saved with the others. The drawn classes depend on
    earlier steps, and so on their order where steps run concurrently. Expected counts are by the counts before a step.
    """,
    """>>> import tagloom as tg
>>> with tg.Graph().as_default() as graph:
...     draw = tg.learned_unigram_candidate_sampler([[3]], 1, 10, False, range_max=4)
...     start = tg.global_variables_initializer()
>>> with tg.SyncSession(graph) as session:
...     session.run(start)
...     [session.run(draw.true_expected_count).tolist() for _ in range(2)]
[[[2.5]], [[4.0]]]""",
)
