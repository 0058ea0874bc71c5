"""``einsum``: sums of products of any number of tensors, in Einstein's notation."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import GraphError, ShapeError
from ...ir.apply import apply
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import convert_alike
from .contracting import Labelled, contract_pair

_GUESS = 16  # assumed size of an unknown dimension when the order of products is chosen
_MANY = 6  # from so many operands on, the order is found greedily: all orders would be too many
_ROOM = 1 << 62  # limit of intermediate elements, out of reach: paths multiply only pairs


class Broadcast(NamedTuple):
    """Label of a dimension of an ellipsis, numbered from the last; dimensions of size 1 broadcast."""

    place: int


@public
def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """Sum products of tensors over labelled dimensions.

    In Python, of ``'ij,jk->ik'``: ``output[i, k] = sum(a[i, j] * b[j, k] for j in range(n))``. More than two tensors
    are multiplied pair by pair, in the order that `numpy.einsum_path` finds for the known sizes.

    Parameters
    ----------
    equation : str
        A letter for each dimension of each input, and of the output after ``->``. Without an arrow, the output has the
        letters that occur once, in alphabetical order. A letter twice in an input takes the diagonal. ``...`` stands
        for any other dimensions, which broadcast, and come first in the output if there is no arrow.
    inputs : Tensor of any numeric dtype
        Same dtype, of known rank.

    Returns
    -------
    Tensor
        Same dtype.

    Raises
    ------
    GraphError
        If the equation is malformed, or has another number of terms than there are inputs.
    ShapeError
        If a rank is unknown, a dimension has no letter, or a letter stands for different sizes.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.einsum("ij,j->i", [[1, 2], [3, 4]], [10, 1])).sync()
    array([12, 34], dtype=int32)
    >>> tg.function(lambda: tg.einsum("ii", [[1, 2], [3, 4]])).sync()
    array(5, dtype=int32)
    >>> tg.function(lambda: tg.einsum("...a,a...->...", tg.ones([5, 4]), tg.ones([4, 2, 1]))).sync().shape
    (2, 5)
    """
    tensors = convert_alike(*inputs)
    terms, output = _split_equation(equation, len(tensors))
    operands = [Labelled(t, _label_dimensions(term, t, equation)) for term, t in zip(terms, tensors, strict=True)]
    wanted = _output_labels(output, operands, equation)
    _check_sizes(operands, equation)
    # a label that occurs twice in an operand, as in 'ii->i', takes its diagonal
    operands = [operand.without_repetition() for operand in operands]
    result = _contract_operands(operands, wanted).ordered(wanted).tensor
    return result if name is None else apply("Identity", result, name=name)


def _split_equation(equation: str, count: int) -> tuple[list[str], str | None]:
    """Return the terms of the inputs, and the term of the output, or None without an arrow."""
    if not isinstance(equation, str):
        raise _equation_error(equation, "the equation is the first argument, a string")
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    for term in [*terms, output]:
        # a second ellipsis leaves dots, which are no letters
        letters = term.replace("...", "", 1)
        if any(letter not in string.ascii_letters for letter in letters):
            raise _equation_error(equation, "labels are letters, and '...' stands once in a term")
    if len(terms) != count:
        raise GraphError(
            "einsum takes as many tensors as its equation has terms",
            wanted=len(terms),
            got=count,
            hint="terms are separated by commas: 'ij,jk->ik'",
        )
    return terms, output if arrow else None


def _equation_error(equation: Any, hint: str) -> GraphError:
    return GraphError("einsum cannot read this equation", wanted="as 'ij,jk->ik'", got=repr(equation), hint=hint)


def _label_dimensions(term: str, tensor: Tensor, equation: str) -> tuple[Any, ...]:
    """Return a label for each dimension of an input."""
    before, dots, after = term.partition("...")
    rank, letters = tensor.rank, len(before) + len(after)
    if rank is None or (rank < letters if dots else rank != letters):
        raise ShapeError(
            f"'{equation}' does not fit the ranks of its tensors",
            wanted=f"rank {letters}{' or more' if dots else ''} for '{term}'",
            got=tensor.shape,
            operation=tensor.op,
            hint="a letter stands for one dimension, '...' for any others; set_shape tells a rank that is not known",
        )
    # numbered from the last dimension, so that ellipses of different ranks align there
    return (*before, *(Broadcast(i) for i in range(rank - letters, 0, -1)), *after)


def _output_labels(output: str | None, operands: Sequence[Labelled], equation: str) -> list[Any]:
    """Return the labels of the output: by default those of ellipses, then the letters that occur once."""
    counts = Counter(label for operand in operands for label in operand.labels)
    # numbered from the last dimension, they descend in the order of the dimensions
    broadcast = sorted((label for label in counts if isinstance(label, Broadcast)), reverse=True)
    letters = sorted(label for label in counts if not isinstance(label, Broadcast))
    if output is None:
        return [*broadcast, *(letter for letter in letters if counts[letter] == 1)]
    before, dots, after = output.partition("...")
    given = [*before, *after]
    if broadcast and not dots:
        raise _equation_error(equation, "put '...' into the output too, and sum over these dimensions with reduce_sum")
    if len(set(given)) != len(given) or not set(given) <= set(letters):
        raise _equation_error(equation, "the output has letters of the inputs, each once")
    return [*before, *broadcast, *after]


def _check_sizes(operands: Sequence[Labelled], equation: str) -> None:
    """Raise ShapeError if dimensions of the same label are known to differ in size."""
    found: dict[Any, int] = {}
    for operand in operands:
        for label, size in zip(operand.labels, operand.tensor.shape, strict=True):
            if size is None or (isinstance(label, Broadcast) and size == 1):
                continue
            if found.setdefault(label, size) != size:
                what = "'...'" if isinstance(label, Broadcast) else f"'{label}'"
                raise ShapeError(
                    f"{what} of '{equation}' stands for dimensions of different sizes",
                    wanted=found[label],
                    got=f"{size} in {operand.tensor.shape}",
                    hint="each letter has one size; only dimensions of '...' broadcast",
                )


def _contract_operands(operands: list[Labelled], wanted: Sequence[Any]) -> Labelled:
    """Multiply pair by pair, summing over each label after the last product that has it."""
    waiting = list(operands)
    for chosen in _contraction_path(waiting, wanted):
        parts = [waiting[i] for i in sorted(chosen)]
        waiting = [operand for i, operand in enumerate(waiting) if i not in chosen]
        # a label is summed once neither the result nor a waiting operand has it
        needed = {label for operand in waiting for label in operand.labels} | set(wanted)
        result = parts[0]
        for i, part in enumerate(parts[1:], 2):
            later = {label for other in parts[i:] for label in other.labels}
            result = contract_pair(result, part, needed | later)
        waiting.append(result)
    return waiting[0].summed(wanted)


def _contraction_path(operands: Sequence[Labelled], wanted: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the indices of the operands of each product, in order; each result is appended to the operands."""
    labels = dict.fromkeys(label for operand in operands for label in operand.labels)
    # einsum_path has only 52 letters: with more labels, the operands are multiplied in pairs as they come.
    if len(operands) < 3 or len(labels) > len(string.ascii_letters):
        return [(0, 1)] * (len(operands) - 1)
    letters = dict(zip(labels, string.ascii_letters, strict=False))
    terms = ["".join(letters[label] for label in operand.labels) for operand in operands]
    equation = f"{','.join(terms)}->{''.join(letters[label] for label in wanted)}"
    how = "optimal" if len(operands) < _MANY else "greedy"
    path, _ = np.einsum_path(equation, *_stand_ins(operands), optimize=(how, _ROOM))
    return path[1:]  # the first entry is only the word 'einsum_path'


def _stand_ins(operands: Sequence[Labelled]) -> list[Any]:
    """Return arrays of the shapes of the operands, `_GUESS` for unknown sizes, as broadcasts that take no memory."""
    sizes: dict[Any, int] = {}
    for operand in operands:
        for label, size in zip(operand.labels, operand.tensor.shape, strict=True):
            if size is not None:
                sizes[label] = max(sizes.get(label, 1), size)  # sizes of a label differ only by broadcasting
    return [np.broadcast_to(np.float32(0), [sizes.get(x, _GUESS) for x in operand.labels]) for operand in operands]
