"""A cell with dropout of its input, output and state."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..base import nest
from ..base.errors import GraphError
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.creation import ones
from .cell_dropout import checked_keep, drop_elements, is_one
from .cell_wrappers import CellWrapper
from .cells import LSTMStateTuple, map_sizes
from .module import module_of_fields


@module_of_fields
class DropoutWrapper(CellWrapper):
    """A cell with dropout of its input, output and state (Zaremba et al., 2014).

    The cell state of an LSTM is never dropped. Draws differ between time steps, unless `variational_recurrent` is set:
    then a mask for all rows and time steps is drawn at the beginning of a session's step (Gal and Ghahramani, 2016),
    and the loop can run as a native program.

    Parameters
    ----------
    cell : RNNCell
    input_keep_prob, output_keep_prob, state_keep_prob : float or scalar Tensor
        Probability of keeping an element; kept elements are divided by the probability.
    variational_recurrent : bool
    input_size : structure of int, optional
        Last dimension of the input; required by `variational_recurrent` unless `input_keep_prob` is 1.
    dtype : dtype-like, optional
        Dtype of input, state and output; required by `variational_recurrent`.
    seed : int, optional
    name : str, optional

    Raises
    ------
    GraphError
        If a probability is not in (0, 1], or a required `input_size` or `dtype` is missing.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Echo(tg.nn.RNNCell):
    ...     state_size = output_size = 100
    ...
    ...     def forward(self, inputs, state):
    ...         return inputs, state
    >>> def dropped():
    ...     cell = tg.nn.DropoutWrapper(Echo(), output_keep_prob=0.5)
    ...     return cell(tg.ones([1, 100]), cell.zero_state(1))[0]
    >>> sorted(set(tg.function(dropped).sync()[0].tolist()))
    [0.0, 2.0]
    """

    cell: Any
    input_keep_prob: InitVar[Any] = 1.0
    output_keep_prob: InitVar[Any] = 1.0
    state_keep_prob: InitVar[Any] = 1.0
    variational_recurrent: bool = False
    input_size: Any = None
    dtype: Any = None
    seed: int | None = None
    name: InitVar[str | None] = None

    def __post_init__(
        self, input_keep_prob: Any, output_keep_prob: Any, state_keep_prob: Any, name: str | None
    ) -> None:
        super().__init__(self.cell, name)
        self.keep: dict[str, Any] = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        for what, keep in self.keep.items():
            checked_keep(keep, f"{what}_keep_prob")
        self._masks: dict[str, list[Tensor]] | None = None
        if self.variational_recurrent:
            sizes = {"input": self.input_size, "output": self.output_size, "state": self.state_size}
            # Drawn here, outside of the loop, so that all time steps share the masks.
            self._masks = {what: self._draw_masks(what, size) for what, size in sizes.items()}

    def _draw_masks(self, what: str, sizes: Any) -> list[Tensor]:
        """Return the variational masks of input, output or state, one per leaf; none without dropout."""
        if is_one(self.keep[what]):
            return []
        dtype = self.dtype
        if sizes is None or dtype is None:
            raise GraphError(
                "variational dropout draws its masks before the cell is called",
                wanted="dtype, and input_size if the input is dropped",
                got=f"dtype {dtype}, size of the {what} {sizes}",
                hint="pass dtype='float32' and input_size=, the last dimension of the input",
            )
        keep, seed = self.keep[what], self._derive_seed(what)
        # One row, broadcast over the batch, whose size is unknown here: all rows lack the same elements.
        return nest.flatten(map_sizes(lambda size: drop_elements(ones([1, *size], dtype), keep, seed), sizes))

    def _derive_seed(self, what: str) -> int | None:
        """Return distinct seeds for input, output and state; a common seed would drop the same elements."""
        return None if self.seed is None else 3 * self.seed + list(self.keep).index(what)

    def _drop_leaves(self, what: str, values: Any) -> Any:
        """Return a structure with dropout of all leaves that may be dropped."""
        if is_one(self.keep[what]):
            return values
        leaves = [leaf if hasattr(leaf, "with_flow") else convert_to_tensor(leaf) for leaf in nest.flatten(values)]
        spared = _find_spared_leaves(values) if what == "state" else [False] * len(leaves)
        for k, leaf in enumerate(leaves):
            if not spared[k]:
                leaves[k] = self._dropped_one(what, k, leaf)
        return nest.pack_as(values, leaves)

    def _dropped_one(self, what: str, k: int, x: Tensor) -> Tensor:
        if self._masks is not None:
            return x * self._masks[what][k]
        # Leaves need distinct seeds for the same reason.
        seed = self._derive_seed(what)
        return drop_elements(x, self.keep[what], None if seed is None else seed + 1009 * k)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return output and next state of the cell, with some elements zero.

        Parameters
        ----------
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        output, state : structure of Tensor
        """
        output, after = self.cell(self._drop_leaves("input", inputs), state)
        return self._drop_leaves("output", output), self._drop_leaves("state", after)


def _find_spared_leaves(state: Any) -> list[bool]:
    """Return for each leaf of a state True if never dropped: an LSTM's cell state, arrays, non-floating leaves."""
    # `c` is the memory: an element set to zero is lost for all later steps, while `h` is computed anew in each.
    if isinstance(state, LSTMStateTuple):
        return [True, False]
    parts = nest.children(state)
    if parts is not None:
        return [spared for _, part in parts for spared in _find_spared_leaves(part)]
    return [hasattr(state, "with_flow") or not convert_to_tensor(state).dtype.is_floating]
