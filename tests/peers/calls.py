"""Calls of one function in two libraries that are built alike: TensorFlow 1's API and tagloom's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Sparse(NamedTuple):
    """A sparse tensor as an argument of a call: its arrays are fed."""

    indices: Any
    values: Any
    dense_shape: Any


class Slices(NamedTuple):
    """IndexedSlices as an argument of a call."""

    values: Any
    indices: Any


@dataclass(frozen=True)
class Call:
    """One call, as both libraries are to make it.

    Attributes
    ----------
    ours : str
        The function's name in tagloom, with dots for what is in a module.
    arguments : sequence
        Arrays are fed, also those in a list; everything else is handed over as it is.
    keywords : mapping
    theirs : str
        Its name in ``tensorflow.compat.v1``, by default the same.
    their_arguments : sequence, optional
        Where TensorFlow wants others: with as many arrays, in the same order.
    their_keywords : mapping, optional
    differentiable : bool
        Whether gradients are compared, by all floating arrays that are fed.
    tolerance : float
        Of results and gradients, relative to the largest.
    names : sequence of str
        Of the arguments, where they have to be given by name.
    """

    ours: str
    arguments: Sequence[Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    theirs: str = ""
    their_arguments: Sequence[Any] | None = None
    their_keywords: Mapping[str, Any] | None = None
    differentiable: bool = True
    tolerance: float = 1e-5
    names: Sequence[str] = ()

    def as_theirs(self):
        """Return the function's name, the arguments and the keywords for TensorFlow."""
        arguments = self.arguments if self.their_arguments is None else self.their_arguments
        keywords = self.keywords if self.their_keywords is None else self.their_keywords
        return self.theirs or self.ours, arguments, keywords

    def as_ours(self):
        """Return the function's name, the arguments and the keywords for tagloom."""
        return self.ours, self.arguments, self.keywords


def flat(results):
    """Return results in one list: those in lists, the parts of sparse tensors and of rows, and no None."""
    if hasattr(results, "dense_shape"):
        return flat([results.indices, results.values, results.dense_shape])
    if isinstance(results, (tuple, list)):
        return [each for result in results for each in flat(result)]
    return [] if results is None else [results]


def build(library, name, arguments, keywords, call):
    """Build a call in the open graph.

    Parameters
    ----------
    library : module
        ``tagloom`` or ``tensorflow.compat.v1``.
    name : str
    arguments, keywords
        As a Call has them.
    call : Call

    Returns
    -------
    fetches : list of Tensor
        Results, then gradients.
    feeds : dict of Tensor to array
    """
    feeds = {}

    def placed(value):
        if isinstance(value, np.ndarray):
            kind = "string" if value.dtype.kind in "OT" else value.dtype
            tensor = library.placeholder(kind, value.shape)
            feeds[tensor] = value
            return tensor
        if isinstance(value, Sparse):
            return library.SparseTensor(*map(placed, value))
        if isinstance(value, Slices):
            return library.IndexedSlices(*map(placed, value))
        if isinstance(value, list) and any(isinstance(v, np.ndarray | Sparse) for v in value):
            return [placed(v) for v in value]
        return value

    function = library
    for part in name.split("."):
        function = getattr(function, part)
    operands = [placed(value) for value in arguments]
    keywords = {key: placed(value) if isinstance(value, Sparse) else value for key, value in keywords.items()}
    named = dict(zip(call.names, operands, strict=False))
    results = flat(function(*operands[len(named) :], **named, **keywords))
    moved = [tensor for tensor, value in feeds.items() if value.dtype.kind in "fc"]
    targets = [y for y in results if y.dtype.is_floating or y.dtype.is_complex]
    if not call.differentiable or not moved or not targets:
        return results, feeds
    found = library.gradients(targets, moved, [weights(library, y) for y in targets])
    return results + [
        library.zeros_like(x) if g is None else library.convert_to_tensor(g) for x, g in zip(moved, found)
    ], feeds


def weights(library, y):
    """Return a cotangent for `y` that differs from element to element and is the same in both libraries."""
    real = {"complex64": "float32", "complex128": "float64"}.get(y.dtype.name, y.dtype.name)
    places = library.cast(library.range(library.size(y)), real)
    return library.cast(library.reshape(library.cos(places), library.shape(y)), y.dtype.name)


FAMILIES = {}


def family(function):
    """Register a function of a generator of random numbers that returns the next call of its family."""
    FAMILIES[function.__name__] = function
    return function
