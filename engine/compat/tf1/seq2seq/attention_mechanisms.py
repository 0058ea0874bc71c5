"""Attention mechanisms: alignments of a query with the places of a memory."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from ....base.dtypes import float16
from ....base.errors import GraphError, ShapeError
from ....frontend.control.scopes import name_scope
from ....frontend.state.variables import Variable
from ....ir.apply import convert_to_tensor
from ....ir.tensor import Tensor
from ....nn.dense import Dense
from ....nn.layer_variables import layer_variable
from ....nn.module import Module
from ....ops.array.creation import range as numbers
from ....ops.array.creation import zeros
from ....ops.array.shapes import expand_dims, shape
from ....ops.array.where import where
from ....ops.math.casting import cast
from ....ops.math.elementwise import rsqrt, square
from ....ops.math.reductions import reduce_sum
from ....ops.math.trigonometry import tanh
from ....ops.nn.losses import softmax


class AttentionMechanism(Module):
    """Base of attention mechanisms, which return the share of each place of a memory.

    Parameters
    ----------
    num_units : int
        Depth of the comparison of query and memory.
    memory : Tensor of shape [batch, places, depth]
        Usually the outputs of an encoder.
    memory_sequence_length : int32 Tensor of shape [batch], optional
        Number of places to read in each row; later places are not read.
    probability_fn : callable, optional
        Function from scores to alignments, the shares of the places; `softmax` when None.
    score_mask_value : float, optional
        Score of places that are not read, a very low number by default. Their alignments are 0 in any case.
    name : str, optional

    Attributes
    ----------
    values : Tensor
        The memory, zero in places that are not read.
    keys : Tensor of shape [batch, places, num_units]
        Memory projected by `memory_layer`, compared with queries.
    alignments_size : int or None
        The number of places, if known.

    Raises
    ------
    ShapeError
        If the memory has another rank than 3, or unknown depth.

    Examples
    --------
    A mechanism that prefers the last places, of which only the first is readable:

    >>> import tagloom as tg
    >>> class First(tg.compat.tf1.AttentionMechanism):
    ...     def score(self, query):
    ...         return tg.constant([[0.0, 9.0, 9.0]])
    >>> with tg.Graph().as_default() as graph:
    ...     y = First(4, tg.ones([1, 3, 2]), memory_sequence_length=[1])(tg.ones([1, 4]))
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(y).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.num_units = num_units
        lowest = -3e4 if convert_to_tensor(memory).dtype is float16 else -1e30  # -inf has no maximum in empty rows
        self.masked_score: float = lowest if score_mask_value is None else score_mask_value
        self.probability_fn = probability_fn or softmax
        self.memory_layer: Dense = Dense(num_units, use_bias=False, name="memory_layer")
        self._read_memory(memory, memory_sequence_length)

    def _read_memory(self, memory: Any, memory_sequence_length: Any) -> None:
        """Set values and keys from a memory, with places beyond the lengths zero."""
        values = convert_to_tensor(memory)
        if values.rank != 3:
            raise ShapeError(
                "attention reads a memory of places",
                wanted="[batch, places, depth]",
                got=values.shape,
                operation=values.op,
                hint="give it the outputs of dynamic_rnn, batch first",
            )
        self.is_read: Tensor | None = None
        if memory_sequence_length is not None:
            lengths = expand_dims(cast(memory_sequence_length, "int32"), 1)
            # [batch, places]: place k of a row is part of the memory if k is less than the row's length.
            self.is_read = numbers(shape(values)[1]) < lengths
            # A product with a mask would keep NaN of the padding.
            values = where(expand_dims(self.is_read, 2), values, 0)
        self.values = values
        self.keys: Any = self.memory_layer(values)
        self.alignments_size: int | None = values.shape[1]

    def with_memory(self, memory: Any, memory_sequence_length: Any = None) -> AttentionMechanism:
        """Return a mechanism with the same variables for another memory, for beam search.

        Parameters
        ----------
        memory : Tensor of shape [batch, places, depth]
            Of the first memory's depth; batch and places may differ.
        memory_sequence_length : int32 Tensor of shape [batch], optional

        Returns
        -------
        AttentionMechanism
            Shares layers and variables; a module with both mechanisms counts their parameters once.

        Raises
        ------
        ShapeError
            If the memory has another rank than 3, or another depth.

        Examples
        --------
        >>> import tagloom as tg
        >>> with tg.Graph().as_default():
        ...     memory = tg.ones([2, 5, 3])
        ...     trained = tg.compat.tf1.LuongAttention(4, memory)
        ...     searching = trained.with_memory(tg.compat.tf1.tile_batch(memory, 10))
        >>> searching.keys.shape, searching.memory_layer is trained.memory_layer
        (Shape(20, 5, 4), True)
        """
        # Shallow: the layers and their variables are shared, only values, keys and mask are replaced.
        other = copy(self)
        with name_scope(self.name):
            other._read_memory(memory, memory_sequence_length)
        return other

    @property
    def places(self) -> Any:
        """The number of places; a tensor if statically unknown."""
        return shape(self.values)[1] if self.alignments_size is None else self.alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """Return alignments before the first step: zeros.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        Tensor of shape [batch, places]
        """
        return zeros([batch_size, self.places], dtype)

    def score(self, query: Tensor) -> Tensor:
        """Return the score of each place for a query. Subclasses define this method.

        Parameters
        ----------
        query : Tensor of shape [batch, depth]

        Returns
        -------
        Tensor of shape [batch, places]
        """
        raise GraphError(
            f"{type(self).__name__} does not say how it scores",
            wanted="a method `score`",
            got="none",
            hint="use LuongAttention or BahdanauAttention",
        )

    def forward(self, query: Any, previous_alignments: Any = None) -> Tensor:
        """Return the share of each place: the alignments.

        Parameters
        ----------
        query : Tensor of shape [batch, depth]
        previous_alignments : Tensor, optional
            Alignments of the preceding step, available to subclasses.

        Returns
        -------
        Tensor of shape [batch, places]
        """
        query = convert_to_tensor(query)
        rows, queries = (each.shape[0] if each.rank else None for each in (self.values, query))
        # A memory with a single row is broadcast to all queries; any other difference is a forgotten tile_batch.
        if None not in (rows, queries) and rows not in (1, queries):
            raise ShapeError(
                "the memory of attention has other rows than its query",
                wanted=f"a memory of {queries} rows, as the query {query.shape}",
                got=self.values.shape,
                operation=query.op,
                hint="memory = tile_batch(memory, beam_width) in a beam search, or cell.with_memory(tile_batch(...))",
            )
        scores = self.score(query)
        if self.is_read is None:
            return self.probability_fn(scores)
        # Masked twice: scores for the softmax, results because any `probability_fn` may return more than 0.
        return where(self.is_read, self.probability_fn(where(self.is_read, scores, self.masked_score)), 0)


class LuongAttention(AttentionMechanism):
    """Attention by the product of query and keys (Luong et al., 2015, "general").

    Parameters
    ----------
    num_units : int
        Depth of the queries.
    memory : Tensor of shape [batch, places, depth]
    memory_sequence_length : int32 Tensor of shape [batch], optional
        Number of places to read in each row; later places are not read.
    scale : bool
        If True, scores are multiplied by a variable.
    probability_fn : callable, optional
        Function from scores to alignments, the shares of the places; `softmax` when None.
    score_mask_value : float, optional
        Score of places that are not read, a very low number by default. Their alignments are 0 in any case.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     attention = tg.compat.tf1.LuongAttention(4, tg.ones([2, 5, 3]), memory_sequence_length=[5, 2])
    ...     alignments = attention(tg.ones([2, 4]))
    >>> alignments.shape
    Shape(2, 5)
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_units, memory, memory_sequence_length, probability_fn, score_mask_value, name)
        self.scale: Variable | None = layer_variable(self, "scale", [], self.values.dtype, "ones") if scale else None

    def score(self, query: Tensor) -> Tensor:
        """Return the products of a query and the keys.

        Parameters
        ----------
        query : Tensor of shape [batch, num_units]

        Returns
        -------
        Tensor of shape [batch, places]
        """
        if query.shape[-1] not in (None, self.num_units):
            raise ShapeError(
                "LuongAttention multiplies queries and keys, which have one depth",
                wanted=f"a query of depth {self.num_units}",
                got=query.shape,
                operation=query.op,
                hint="give it as many num_units as the cell has, or use BahdanauAttention",
            )
        products = reduce_sum(
            self.keys * expand_dims(query, 1), 2
        )  # not matmul: a batch of small products cannot be a native program
        return products if self.scale is None else products * self.scale


class BahdanauAttention(AttentionMechanism):
    """Attention by a small network of query and keys (Bahdanau et al., 2015).

    Parameters
    ----------
    num_units : int
        Units of the network.
    memory : Tensor of shape [batch, places, depth]
    memory_sequence_length : int32 Tensor of shape [batch], optional
        Number of places to read in each row; later places are not read.
    normalize : bool
        If True, the network has a bias, and its last weights are normalized to length 1 and scaled by a variable
        (Salimans and Kingma, 2016).
    probability_fn : callable, optional
        Function from scores to alignments, the shares of the places; `softmax` when None.
    score_mask_value : float, optional
        Score of places that are not read, a very low number by default. Their alignments are 0 in any case.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     attention = tg.compat.tf1.BahdanauAttention(8, tg.ones([2, 5, 3]))
    ...     alignments = attention(tg.ones([2, 4]))
    >>> alignments.shape, attention.keys.shape
    (Shape(2, 5), Shape(2, 5, 8))
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_units, memory, memory_sequence_length, probability_fn, score_mask_value, name)
        dtype = self.values.dtype
        self.query_layer: Dense = Dense(num_units, use_bias=False, name="query_layer")
        self.attention_v: Variable = layer_variable(self, "attention_v", [num_units], dtype)
        self.attention_g: Variable | None = None
        self.attention_b: Variable | None = None
        if normalize:
            self.attention_g = layer_variable(self, "attention_g", [], dtype, (1.0 / num_units) ** 0.5)
            self.attention_b = layer_variable(self, "attention_b", [num_units], dtype, "zeros")

    def score(self, query: Tensor) -> Tensor:
        """Return the network's scores for a query and each key.

        Parameters
        ----------
        query : Tensor of shape [batch, depth]

        Returns
        -------
        Tensor of shape [batch, places]
        """
        # The query is the same for all places: [batch, 1, units] is broadcast over the keys.
        v, hidden = self.attention_v.value(), self.keys + expand_dims(self.query_layer(query), 1)
        if self.attention_g is not None:
            # Weight normalization (Salimans and Kingma, 2016): `attention_g` alone determines the length of v.
            v = self.attention_g * v * rsqrt(reduce_sum(square(v)))
            hidden = hidden + self.attention_b
        return reduce_sum(v * tanh(hidden), 2)
