"""Regularizers of variables, which layers note and losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.apply import convert_to_tensor
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from .partitioned import PartitionedVariable

_REGULARIZERS = "regularizers"  # the collection of a graph


def note_regularizer(graph: Graph, regularizer: Callable[[Any], Any], variable: Any) -> None:
    """Note that a variable, whole or in shards, is regularized."""
    graph.collections.setdefault(_REGULARIZERS, []).append((regularizer, variable))


def regularization_losses(graph: Graph, is_wanted: Callable[[str], Any]) -> list[Tensor]:
    """Return what the regularizers of variables give for the values here, unless that is None.

    Parameters
    ----------
    graph : Graph
    is_wanted : callable
        ``is_wanted(name)`` of a variable's name.
    """
    losses = [
        regularizer(convert_to_tensor(each) if isinstance(each, PartitionedVariable) else each.value())
        for regularizer, each in graph.collections.get(_REGULARIZERS, ())
        if is_wanted(each.name)
    ]
    return [loss for loss in losses if loss is not None]
