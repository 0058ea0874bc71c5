"""Notices of a restore: a log of mismatched variables, a warning about other random numbers."""

from __future__ import annotations

import logging
import warnings

import numpy as np

from ...ops.math.random import numpy_draws_of
from ...runtime.session.session import Session
from .matching import Matched
from .saved import Saved

_logger = logging.getLogger("tagloom")


def tell_of_mismatches(path: str, found: Matched) -> None:
    """Log the variables whose saved arrays did not fit."""
    if found.mismatched:
        listed = (f"{each.variable} is {each.wanted}, saved was {each.got}" for each in found.mismatched)
        _logger.warning("variables keep their values, which %s does not fit: %s", path, "; ".join(listed))


def warn_of_other_numbers(session: Session, saved: Saved) -> None:
    """Warn if a graph draws random numbers by NumPy's Generator and the checkpoint is of another NumPy version."""
    if saved.numpy in (None, np.__version__):
        return
    if drawing := numpy_draws_of(session.graph):
        warnings.warn(
            f"{saved.path} was saved with NumPy {saved.numpy}, and this is NumPy {np.__version__}, whose Generator may "
            f"draw other numbers for {', '.join(drawing)}: what follows may not be the interrupted run, bit for bit",
            RuntimeWarning,
            stacklevel=4,
        )
