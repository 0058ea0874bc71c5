"""Candidate samplers: classes drawn for comparison with the true classes, and the expected count of each."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base import dtypes
from ...base.docstrings import Family, name_function
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, as_typed, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.gather import gather
from ..math.elementwise import expm1, log1p
from ..math.random import seed_or_next
from ..support.arguments import static_int
from ..support.common import shape_of
from . import candidate_draws as candidate_draws


class Candidates(NamedTuple):
    """Result of a candidate sampler.

    Attributes
    ----------
    sampled_candidates : Tensor of dtype int64, shape [num_sampled]
        The drawn classes.
    true_expected_count : Tensor of dtype float32, shape [batch, num_true]
        Expected number of draws of each true class.
    sampled_expected_count : Tensor of dtype float32, shape [num_sampled]
        Expected number of draws of each drawn class.

    Examples
    --------
    >>> import tagloom as tg
    >>> draw = tg.function(lambda: tg.uniform_candidate_sampler([[3]], 1, 5, False, range_max=10))
    >>> draw.sync().true_expected_count
    array([[0.5]], dtype=float32)
    """

    sampled_candidates: Any
    true_expected_count: Any
    sampled_expected_count: Any


def _read_true_classes(true_classes: Any, num_true: int) -> Tensor:
    """Return the true classes as int64 of shape [batch, num_true]."""
    given = true_classes if as_typed(true_classes) is not None else np.asarray(true_classes, np.int64)
    tensor: Tensor = apply("Cast", convert_to_tensor(given), dtype=dtypes.int64)
    if not tensor.shape.is_compatible_with(Shape([None, static_int(num_true, "num_true")])):
        raise ShapeError(
            "true classes have to be a row for each example",
            wanted=f"[batch, {num_true}]",
            got=tensor.shape,
            hint="num_true is how many classes each example has; a vector wants expand_dims",
        )
    return tensor


def _check_enough_classes(num_sampled: int, unique: bool, range_max: int) -> None:
    """Raise GraphError unless `range_max` classes are enough for `num_sampled` draws."""
    if range_max < 1 or num_sampled < 1 or (unique and num_sampled > range_max):
        raise GraphError(
            "there are not so many candidates",
            wanted=f"num_sampled from 1 to {range_max}" if unique else "num_sampled and range_max of 1 or more",
            got=f"num_sampled={num_sampled}, range_max={range_max}, unique={unique}",
            hint="draw fewer, or with unique=False",
        )


def _expected_counts(probability: Tensor, tries: Tensor, num_sampled: int, unique: bool) -> Tensor:
    """Return expected counts of classes: among `num_sampled` draws, or at most 1 among all `tries` if `unique`."""
    plain = probability * float(num_sampled)
    if unique:
        count = apply("Cast", tries, dtype=dtypes.float64)
        # 1 - (1 - p) ** tries, without loss of digits for small p.
        met = -expm1(count * log1p(-probability))
        # Unique draws without a rejection count like independent draws, as in TensorFlow.
        plain = apply("Where", apply("Equal", tries, num_sampled), plain, met)
    return apply("Cast", plain, dtype=dtypes.float32)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of classes.

    Attributes
    ----------
    name : {'uniform', 'log_uniform', 'weights'}
        Attribute of the operation that draws.
    probability : callable
        ``probability(classes)`` returns the probabilities of a tensor of classes, in float64.
    weights : floating vector
        Weights of all classes for "weights"; otherwise empty.
    """

    name: str
    probability: Callable[[Tensor], Tensor]
    weights: Any = field(default_factory=lambda: np.zeros(0))


def build_sampler(
    distribution: Distribution, true_classes: Any, sizes: tuple[int, int, bool, int], seed: int | None, name: str | None
) -> Candidates:
    """Build a candidate sampler.

    Parameters
    ----------
    distribution : Distribution
    true_classes : integer Tensor of shape [batch, num_true]
    sizes : tuple
        ``num_true, num_sampled, unique, range_max``, as the samplers take them.
    seed : int or None
    name : str or None

    Returns
    -------
    Candidates
    """
    num_true, num_sampled, unique, range_max = sizes
    true, count, classes = (
        _read_true_classes(true_classes, num_true),
        static_int(num_sampled, "num_sampled"),
        static_int(range_max, "range_max"),
    )
    # Refused while building, and not only by the step.
    _check_enough_classes(count, unique, classes)
    sampled, tries = apply(
        "RandomCandidates",
        distribution.weights,
        [],
        name=name,
        distribution=distribution.name,
        range_max=classes,
        num_sampled=count,
        unique=bool(unique),
        seed=seed_or_next(seed),
    )
    expected = [_expected_counts(distribution.probability(c), tries, count, unique) for c in (true, sampled)]
    return Candidates(sampled, *expected)


class Sampler(Protocol):
    """Public function of a candidate sampler."""

    def __call__(
        self,
        true_classes: Any,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = None,
        name: str | None = None,
    ) -> Candidates: ...


_SAMPLER = Family(
    {
        "true_classes": "integer Tensor of shape [batch, num_true]",
        "num_true": "int\n    Number of true classes per example.",
        "num_sampled": "int\n    Number of draws.",
        "unique": "bool\n    Draw until all classes differ, so that expected counts are at most 1.",
        "range_max": "int\n    The number of classes.",
        "seed": "int, optional\n    As for `random_uniform`.",
    },
    "Candidates\n    ``sampled_candidates, true_expected_count, sampled_expected_count``.",
    {
        "GraphError": "If there are fewer classes than should be different.",
        "ShapeError": "If the true classes have another shape.",
    },
)


def define_sampler(name: str, build: Callable[..., Candidates], summary: str, examples: str) -> Sampler:
    """Return the public function `name` of a candidate sampler.

    Parameters
    ----------
    name, summary, examples : str
        The function's name, and the beginning and the end of its docstring.
    build : callable
        ``build(true_classes, sizes, seed, name)`` builds the sampler; see `build_sampler`.
    """

    def draw_candidates(
        true_classes: Any,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = None,
        name: str | None = None,
    ) -> Candidates:
        return build(true_classes, (num_true, num_sampled, unique, range_max), seed, name)

    draw_candidates.__module__ = build.__module__  # in which the function stands
    return public(_SAMPLER.complete(name_function(draw_candidates, name, summary), examples))


def _build_uniform_sampler(
    true_classes: Any, sizes: tuple[int, int, bool, int], seed: int | None, name: str | None
) -> Candidates:
    """Build a sampler of equal probabilities; see `build_sampler`."""
    range_max = sizes[-1]
    probability = 1 / static_int(range_max, "range_max") if range_max else 0.0  # `build_sampler` refuses 0 classes

    def same_probability(classes: Tensor) -> Tensor:
        return apply("Fill", shape_of(classes), np.float64(probability))

    return build_sampler(Distribution("uniform", same_probability), true_classes, sizes, seed, name)


uniform_candidate_sampler: Sampler = define_sampler(
    "uniform_candidate_sampler",
    _build_uniform_sampler,
    "Draw classes, all of the same probability.",
    """>>> import tagloom as tg
>>> draw = tg.function(lambda: tg.uniform_candidate_sampler([[3]], 1, 4, True, range_max=4))
>>> sorted(draw.sync().sampled_candidates.tolist())
[0, 1, 2, 3]""",
)


def _build_zipfian_sampler(
    true_classes: Any, sizes: tuple[int, int, bool, int], seed: int | None, name: str | None
) -> Candidates:
    def zipfian_probability(classes: Tensor) -> Tensor:
        rank = apply("Cast", classes, dtype=dtypes.float64) + 1
        return log1p(1 / rank) / math.log1p(sizes[-1])

    return build_sampler(Distribution("log_uniform", zipfian_probability), true_classes, sizes, seed, name)


log_uniform_candidate_sampler: Sampler = define_sampler(
    "log_uniform_candidate_sampler",
    _build_zipfian_sampler,
    "Draw classes with probabilities ``log((k + 2) / (k + 1)) / log(range_max + 1)``: of words, by falling frequency.",
    """>>> import tagloom as tg
>>> draw = tg.function(lambda: tg.log_uniform_candidate_sampler([[0], [6]], 1, 1000, False, range_max=7))
>>> draw.sync().true_expected_count.round(1)
array([[333.3],
       [ 64.2]], dtype=float32)""",
)


def by_weights(
    weights: Tensor, true_classes: Any, sizes: tuple[int, int, bool, int], seed: int | None, name: str | None
) -> Candidates:
    """Build a sampler by `weights`, a floating vector.

    `true_classes`, `sizes` and `seed` are as for `build_sampler`.
    """
    wide = apply("Cast", weights, dtype=dtypes.float64)
    probabilities = wide / apply("Sum", wide)
    distribution = Distribution("weights", lambda classes: gather(probabilities, classes), wide)
    return build_sampler(distribution, true_classes, sizes, seed, name)


def _unigram_weights(vocab_file: str, unigrams: Sequence[float]) -> list[float]:
    """Return the weights from the list or the last column of the file; GraphError unless exactly one is set."""
    if bool(vocab_file) == bool(len(unigrams)):
        raise GraphError(
            "a unigram sampler takes its weights from a file or from a list",
            wanted="one of vocab_file and unigrams",
            got="both" if vocab_file else "neither",
            hint="give unigrams=[...], a weight for each class",
        )
    if vocab_file and not isinstance(vocab_file, (str, os.PathLike)):
        raise GraphError(
            "vocab_file is the path of a file", wanted="a path", got=repr(vocab_file), hint="give unigrams=[...]"
        )
    if not vocab_file:
        return list(map(float, unigrams))
    # utf-8-sig drops a byte order mark, which would belong to the first word.
    with open(vocab_file, newline="", encoding="utf-8-sig") as lines:
        return [float(row[-1]) for row in csv.reader(lines) if row]


@public
def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes with given weights.

    Parameters
    ----------
    true_classes, num_true, num_sampled, unique, range_max, seed
        As for `uniform_candidate_sampler`.
    vocab_file : str
        Name of a file of comma-separated values with a row for each class, whose last value is the weight. The file
        is read while the graph is built.
    distortion : float
        The power to which the weights are raised; 0 makes them equal.
    num_reserved_ids : int
        Number of reserved classes, whose indices precede the weighted classes; they are never drawn.
    num_shards, shard : int
        Only classes whose remainder by `num_shards` is `shard` are drawn.
    unigrams : sequence of float
        The weights, if there is no file.

    Returns
    -------
    Candidates
        ``sampled_candidates, true_expected_count, sampled_expected_count``.

    Raises
    ------
    GraphError
        If the weights do not fit `range_max`, or there are fewer classes than should be different.
    ShapeError
        If the true classes have another shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> weights = [1.0, 0.0, 3.0]
    >>> draw = tg.function(lambda: tg.fixed_unigram_candidate_sampler([[2]], 1, 8, False, 3, unigrams=weights))
    >>> draw.sync().true_expected_count
    array([[6.]], dtype=float32)
    """
    weights = np.asarray([0.0] * num_reserved_ids + _unigram_weights(vocab_file, unigrams))
    if len(weights) != range_max or not 0 <= shard < num_shards:
        raise GraphError(
            "the weights do not fit the classes",
            wanted=f"{range_max} weights, those of reserved classes included, and a shard from 0 to {num_shards - 1}",
            got=f"{len(weights)} weights, shard {shard}",
            hint="range_max is the number of classes of all shards",
        )
    if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise GraphError(
            "weights have to be frequencies",
            wanted="numbers of 0 or more, and one that is more",
            got=f"{weights.min()} to {weights.max()}",
            hint="look for a column of the file that holds something else",
        )
    # The shards take turns: each has every `num_shards`-th class.
    is_drawn = (np.arange(range_max) % num_shards == shard) & (weights > 0)
    # The inner `where` keeps 0 from a negative power, a floating-point error even where the outer drops the result.
    raised = np.where(is_drawn, np.where(is_drawn, weights, 1) ** distortion, 0)
    if unique and np.count_nonzero(raised) < num_sampled:  # classes without a weight are never drawn
        _check_enough_classes(num_sampled, unique, int(np.count_nonzero(raised)))
    return by_weights(constant(raised), true_classes, (num_true, num_sampled, unique, range_max), seed, name)
