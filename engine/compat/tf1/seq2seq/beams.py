"""Rows of beams: repetition for each beam, and backtracking of sequences."""

from __future__ import annotations

from typing import Any

from ....base import nest
from ....base.errors import GraphError, ShapeError
from ....frontend.control.loops import while_loop
from ....frontend.control.scopes import name_scope
from ....frontend.state.tensor_array import TensorArray
from ....ir.apply import convert_to_tensor
from ....ir.entry import public
from ....ir.tensor import Tensor
from ....nn.batches import convert_inputs
from ....ops.array.creation import range as numbers
from ....ops.array.creation import zeros
from ....ops.array.gather import gather
from ....ops.array.layout import tile
from ....ops.array.shapes import expand_dims, reshape, shape
from ....ops.array.where import where
from ....ops.math.casting import cast
from ....ops.math.comparison import equal
from ....ops.math.cumulative import cumsum


@public
def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeat each row, as for the state of a `BeamSearchDecoder`.

    Parameters
    ----------
    t : structure of Tensor of shape [batch, ...]
        Scalars are unchanged; nested lists of plain numbers are one tensor.
    multiplier : int
        Number of copies of each row.
    name : str, optional

    Returns
    -------
    structure of Tensor of shape [batch * multiplier, ...]

    Raises
    ------
    GraphError
        If `multiplier` is not a positive int.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.compat.tf1.tile_batch(tg.constant([[1, 2], [3, 4]]), 2)).sync().tolist()
    [[1, 2], [1, 2], [3, 4], [3, 4]]
    """
    if not isinstance(multiplier, int) or multiplier < 1:
        raise GraphError(
            "tile_batch repeats rows a number of times",
            wanted="an int of at least 1",
            got=multiplier,
            hint="pass 1 or more",
        )
    with name_scope(name or "tile_batch"):
        return nest.map_structure(lambda x: _repeat_rows(x, multiplier), convert_inputs(t))


def _repeat_rows(x: Tensor, times: int) -> Tensor:
    """Return a tensor with each row repeated, with its static shape; a scalar unchanged."""
    if x.rank == 0:
        return x
    rows, *rest = x.shape
    sizes = [shape(x)[i] if d is None else d for i, d in enumerate(x.shape)]
    # [rows, ...] to [rows, times, ...] to [rows * times, ...]: the repetitions of a row are consecutive.
    tiled = tile(expand_dims(x, 1), [1, times, *[1] * len(rest)])
    made: Tensor = reshape(tiled, [sizes[0] * times, *sizes[1:]])
    made.set_shape([None if rows is None else rows * times, *rest])
    return made


@public
def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Tensor:
    """Return the whole sequence of each beam, followed back from the last step.

    Parameters
    ----------
    step_ids : int32 Tensor of shape [time, batch, beams]
        Chosen symbol of each beam.
    parent_ids : int32 Tensor of shape [time, batch, beams]
        Beam of the preceding step that the symbol extends.
    max_sequence_lengths : int32 Tensor of shape [batch]
        Number of steps of each row.
    end_token : int32 scalar
        Fills each sequence beyond its row's length, and after its first end token.
    name : str, optional

    Returns
    -------
    int32 Tensor of shape [time, batch, beams]
        Sequences of the last step's beams.

    Raises
    ------
    ShapeError
        If symbols or parents have another rank.
    OpError
        At run time, if a parent is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> chosen, parents = [[[1, 2]], [[3, 4]], [[5, 6]]], [[[0, 0]], [[0, 1]], [[1, 0]]]
    >>> found = tg.function(lambda: tg.compat.tf1.gather_tree(chosen, parents, [3], 9)).sync()
    >>> found[:, 0, 0].tolist(), found[:, 0, 1].tolist()
    ([2, 4, 5], [1, 3, 6])
    """
    ids, parents = convert_to_tensor(step_ids), convert_to_tensor(parent_ids, "int32")
    if ids.rank not in (3, None) or parents.rank not in (3, None):
        raise ShapeError(
            "gather_tree follows beams of all steps and rows",
            wanted="[time, batch, beams] for symbols and parents",
            got=f"{ids.shape} and {parents.shape}",
            operation=ids.op,
            hint="use expand_dims for a batch of one; they are stacked time first",
        )
    with name_scope(name or "gather_tree"):
        return _follow_parents(ids, parents, max_sequence_lengths, end_token)


def _follow_parents(ids: Tensor, parents: Tensor, max_sequence_lengths: Any, end_token: Any) -> Tensor:
    """Backtrack from the last step by a loop; see `gather_tree`."""
    lengths, end = expand_dims(cast(max_sequence_lengths, "int32"), 1), convert_to_tensor(end_token, "int32")
    count = shape(ids)[0]
    symbols, before = (TensorArray("int32", count).unstack(x) for x in (ids, parents))
    found = TensorArray("int32", count, element_shape=ids.shape[1:] if ids.rank else None)
    # Backtracking begins at the last step, where each beam is its own place.
    last = numbers(shape(ids)[2]) + zeros(shape(ids)[1:], "int32")
    last.set_shape(ids.shape[1:])

    def step_back(t: Tensor, place: Tensor, found: TensorArray) -> Any:
        is_in = t < lengths
        symbol = where(is_in, gather(symbols.read(t), place, batch_dims=1), end)
        # Beyond a row's length there are no parents: the beam keeps its place until the row's last step.
        came = where(is_in, gather(before.read(t), place, batch_dims=1), place)
        came.set_shape(place.shape)
        return t - 1, came, found.write(t, symbol)

    # Backwards in time; without steps the loop begins at -1 and does not run.
    found = while_loop(lambda t, *_: t >= 0, step_back, (count - 1, last, found), name="time")[2]
    sequences = found.stack()
    # A sequence may end before its row's length: everything after the first end token is filled.
    ended = cumsum(cast(equal(sequences, end), "int32"), 0, exclusive=True) > 0
    made: Tensor = where(ended, end, sequences)
    made.set_shape(ids.shape)
    return made
