"""A program in several spellings, and the figures of its cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Sizes = Mapping[str, int]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Program:
    """A loop that computes the same numbers in each of its spellings.

    Attributes
    ----------
    draw : callable
        ``draw(random, sizes)`` returns the arrays of a case by name, float32 and int32; each of them is fed.
    spellings : mapping of str to callable
        ``spell(tg, **fed)`` builds a spelling of placeholders and returns its results. Where the program is
        differentiable, the first result is a scalar whose gradient is taken.
    jax : callable
        ``spell(jax, bounded, **fed)`` returns the same results with JAX. JAX has no reverse mode for
        a loop whose length depends on data; a bounded program runs a fixed number of masked iterations instead.
    sizes, small : mapping of str to int
        Sizes of full and of quick runs.
    batch : mapping of str to int
        Axis of the batch in each array that has the axis.
    trained : tuple of str
        Arrays by which the gradient is taken; empty if the program is not differentiable.
    """

    draw: Callable[[np.random.Generator, Sizes], Arrays]
    spellings: Mapping[str, Callable[..., list[Any]]]
    jax: Callable[..., list[Any]]
    sizes: Sizes
    small: Sizes
    batch: Mapping[str, int]
    trained: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variant:
    """Conditions under which a spelling runs.

    Attributes
    ----------
    session : mapping
        Options of the session.
    unknown_batch : bool
        True if the size of the batch is unknown to the graph.
    """

    session: Mapping[str, Any] = field(default_factory=dict)
    unknown_batch: bool = False


VARIANTS = {
    "": Variant(),
    "unknown_batch": Variant(unknown_batch=True),
    "memory_limit": Variant({"memory_limit": "16GiB"}),  # far more than any of the programs needs
    "two_devices": Variant({"devices": 2}),
}


def masked(chosen: Any, new: Any, old: Any) -> Any:
    """Return `new` where the mask `chosen` is 1, and `old` where the mask is 0, by arithmetic alone."""
    return chosen * new + (1.0 - chosen) * old
