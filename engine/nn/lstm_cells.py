"""LSTM cells: with peepholes, projection and clipping, and with layer normalization."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..frontend.state.variables import Variable
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.concat import concat, split
from ..ops.math.casting import cast
from ..ops.math.linear import matmul
from ..ops.nn.activations import sigmoid
from .cell_dropout import checked_keep, drop_elements
from .cells import LSTMStateTuple, WeightedCell, checked_units, clip_symmetrically
from .module import module_of_fields
from .normalization import cast_to_wide, normalize_over

_EPSILON = 1e-12  # added to variances, which may round to 0 in float32
_GATES = ("input", "candidate", "forget", "output")  # in the order of the kernel's columns


@module_of_fields
class LSTMCell(WeightedCell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000; Sak et al., 2014).

    Parameters
    ----------
    num_units : int
        Size of the cell state.
    use_peepholes : bool
        If True, each gate sees the cell state, through a diagonal matrix.
    cell_clip : float, optional
        Bound of the cell state.
    initializer : callable, str or array-like, optional
        Of the weights, as `initializer` of `get_variable`; when None the variable scope's, else
        ``"glorot_uniform"``.
    num_proj : int, optional
        Size of the output as a linear projection; `num_units` without projection.
    proj_clip : float, optional
        Bound of the projected output.
    forget_bias : float
        Added to the forget gate, so that little is forgotten initially.
    activation : callable or str, optional
        A function of a tensor, or a name, such as ``"relu"``; `tanh` when None.
    name : str, optional

    Attributes
    ----------
    kernel : Variable of shape [depth + output_size, 4 * num_units]
        The columns are of the input gate, the candidate, the forget gate and the output gate.
    bias : Variable of shape [4 * num_units]
    projection : Variable of shape [num_units, num_proj] or None
    peepholes : dict of str to Variable of shape [num_units]
        Weights of the gates "input", "forget" and "output"; empty without peepholes.

    Raises
    ------
    GraphError
        If a number of units is not a positive int.
    ShapeError
        On a call, if the depth of the inputs is unknown, or differs from earlier calls.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.nn.LSTMCell(3, use_peepholes=True, num_proj=2)
    ...     output, state = cell(tg.ones([4, 5]), cell.zero_state(4))
    >>> output.shape, state.c.shape, cell.kernel.shape
    (Shape(4, 2), Shape(4, 3), Shape(7, 12))
    """

    num_units: int
    use_peepholes: bool = False
    cell_clip: float | None = None
    initializer: Any = None
    num_proj: int | None = None
    proj_clip: float | None = None
    forget_bias: float = 1.0
    activation: Any = None
    name: InitVar[str | None] = None

    def __post_init__(self, name: str | None) -> None:
        super().__init__(self.num_units, self.activation, self.initializer, name)
        self.output_size = self.units if self.num_proj is None else checked_units(self.num_proj, self)
        # `c` has the size of the units, `h` the size of the output, which a projection changes.
        self.state_size = LSTMStateTuple(self.units, self.output_size)
        self.has_projection: bool = self.num_proj is not None
        self.kernel: Variable | None = None
        self.bias: Variable | None = None
        self.projection: Variable | None = None
        self.peepholes: dict[str, Variable] = {}

    def build(self, size: int) -> None:
        n, begin = self.units, self.initializer
        self.kernel = self.variable("kernel", [size + self.output_size, 4 * n], begin)
        self.bias = self.variable("bias", [4 * n], "zeros")
        if self.use_peepholes:
            gates = ("input", "forget", "output")
            self.peepholes = {gate: self.variable(f"{gate}_peephole", [n], begin) for gate in gates}
        if self.has_projection:
            self.projection = self.variable("projection", [n, self.output_size], begin)

    def _add_peephole(self, z: Tensor, gate: str, c: Tensor) -> Tensor:
        return z + self.peepholes[gate] * c if self.use_peepholes else z

    def forward(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        """Return the output, [batch, output_size], and the next state.

        Parameters
        ----------
        inputs : Tensor of shape [batch, depth]
        state : LSTMStateTuple

        Returns
        -------
        output : Tensor
        state : LSTMStateTuple
        """
        x, (c, h) = self.ready(inputs), map(convert_to_tensor, state)
        i, j, f, o = split(matmul(concat([x, h], 1), self.kernel) + self.bias, 4, axis=1)
        # `forget_bias` is no part of the trained bias: weights exchanged with other libraries need it added.
        keep = sigmoid(self._add_peephole(f + self.forget_bias, "forget", c))
        added = sigmoid(self._add_peephole(i, "input", c)) * self.activation(j)
        c = clip_symmetrically(keep * c + added, self.cell_clip)
        # The output gate sees the new cell state, the other gates the old (Gers et al., 2000).
        h = sigmoid(self._add_peephole(o, "output", c)) * self.activation(c)
        if self.has_projection:
            h = clip_symmetrically(matmul(h, self.projection), self.proj_clip)
        return h, LSTMStateTuple(c, h)


@module_of_fields
class LayerNormLSTMCell(WeightedCell):
    """Long short-term memory whose gates and cell state are normalized (Ba et al., 2016, section 3.1).

    Dropout applies to the candidate, and so never erases the memory (Semeniuta et al., 2016).

    Parameters
    ----------
    num_units : int
    forget_bias : float
        Added to the forget gate after its normalization.
    activation : callable or str, optional
        A function of a tensor, or a name, such as ``"relu"``; `tanh` when None.
    layer_norm : bool
        If False, the cell has a bias instead of normalization.
    norm_gain, norm_shift : float
        Initial values of gains and shifts.
    dropout_keep_prob : float or scalar Tensor
        Probability of keeping an element of the candidate.
    dropout_prob_seed : int, optional
    initializer : callable, str or array-like, optional
        Of `kernel`, as `initializer` of `get_variable`; when None the variable scope's, else
        ``"glorot_uniform"``.
    name : str, optional

    Attributes
    ----------
    kernel : Variable of shape [depth + num_units, 4 * num_units]
        The columns are of the input gate, the candidate, the forget gate and the output gate.
    bias : Variable of shape [4 * num_units] or None
    gains, shifts : dict of str to Variable of shape [num_units]
        Of "input", "candidate", "forget", "output" and "state".

    Raises
    ------
    GraphError
        If a number of units is no positive int, or `dropout_keep_prob` is not in (0, 1].
    ShapeError
        On a call, if the depth of the inputs is unknown, or differs from earlier calls.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.nn.LayerNormLSTMCell(3)
    ...     output, state = cell(tg.ones([4, 5]), cell.zero_state(4))
    >>> output.shape, sorted(cell.gains)
    (Shape(4, 3), ['candidate', 'forget', 'input', 'output', 'state'])
    """

    num_units: int
    forget_bias: float = 1.0
    activation: Any = None
    layer_norm: bool = True
    norm_gain: float = 1.0
    norm_shift: float = 0.0
    dropout_keep_prob: InitVar[Any] = 1.0
    dropout_prob_seed: int | None = None
    initializer: Any = None
    name: InitVar[str | None] = None

    def __post_init__(self, dropout_keep_prob: Any, name: str | None) -> None:
        super().__init__(self.num_units, self.activation, self.initializer, name)
        self.output_size = self.units
        self.state_size = LSTMStateTuple(self.units, self.units)
        self.keep: Any = checked_keep(dropout_keep_prob, "dropout_keep_prob")
        self.kernel: Variable | None = None
        self.bias: Variable | None = None
        self.gains: dict[str, Variable] = {}
        self.shifts: dict[str, Variable] = {}

    def build(self, size: int) -> None:
        n = self.units
        self.kernel = self.variable("kernel", [size + n, 4 * n], self.initializer)
        if not self.layer_norm:
            # Without normalization a bias takes the place of the shifts.
            self.bias = self.variable("bias", [4 * n], "zeros")
            return
        for part in (*_GATES, "state"):
            self.gains[part] = self.variable(f"{part}_gain", [n], self.norm_gain)
            self.shifts[part] = self.variable(f"{part}_shift", [n], self.norm_shift)

    def _normalize_rows(self, part: str, x: Tensor) -> Tensor:
        """Return rows normalized to mean 0 and variance 1, scaled and shifted; unchanged without `layer_norm`."""
        if not self.layer_norm:
            return x
        rows: Tensor = cast(normalize_over(cast_to_wide(x), [1], _EPSILON), x.dtype)
        return rows * self.gains[part] + self.shifts[part]

    def forward(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        """Return the output, [batch, num_units], and the next state.

        Parameters
        ----------
        inputs : Tensor of shape [batch, depth]
        state : LSTMStateTuple

        Returns
        -------
        output : Tensor
        state : LSTMStateTuple
        """
        x, (c, h) = self.ready(inputs), map(convert_to_tensor, state)
        z = matmul(concat([x, h], 1), self.kernel)
        parts = split(z if self.bias is None else z + self.bias, 4, axis=1)
        i, j, f, o = map(self._normalize_rows, _GATES, parts)
        # Only the candidate, so that dropout never erases what the cell has stored.
        candidate = drop_elements(self.activation(j), self.keep, self.dropout_prob_seed)
        c = self._normalize_rows("state", sigmoid(f + self.forget_bias) * c + sigmoid(i) * candidate)
        h = sigmoid(o) * self.activation(c)
        return h, LSTMStateTuple(c, h)
