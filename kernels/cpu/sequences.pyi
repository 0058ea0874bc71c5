"""Edit distances between sequences."""

from typing import Any

import numpy as np

def edit_distances(
    hypotheses: np.ndarray[Any, Any],
    ends: np.ndarray[Any, Any],
    truths: np.ndarray[Any, Any],
    truth_ends: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Count the insertions, deletions and replacements between pairs of sequences (Levenshtein, 1966)."""
