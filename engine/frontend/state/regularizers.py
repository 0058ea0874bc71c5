"""Regularizers of variables, noted by layers and used by losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.apply import convert_to_tensor
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from .partitioned import PartitionedVariable

_REGULARIZERS = "regularizers"  # collection of a graph: pairs of a regularizer and its variable


def note_regularizer(graph: Graph, regularizer: Callable[[Any], Any], variable: Any) -> None:
    """Note the regularizer of a variable, whole or in shards."""
    graph.collections.setdefault(_REGULARIZERS, []).append((regularizer, variable))


def regularization_losses(graph: Graph, is_wanted: Callable[[str], Any]) -> list[Tensor]:
    """Return the regularizers' losses for the variables' current values, without results of None.

    Parameters
    ----------
    graph : Graph
    is_wanted : callable
        ``is_wanted(name)`` selects variables by name.
    """
    losses = [
        regularizer(convert_to_tensor(variable) if isinstance(variable, PartitionedVariable) else variable.value())
        for regularizer, variable in graph.collections.get(_REGULARIZERS, ())
        if is_wanted(variable.name)
    ]
    return [loss for loss in losses if loss is not None]
