"""Multi-head attention, and transformer encoder layers."""

from __future__ import annotations

import math
from dataclasses import InitVar
from typing import Any

from ..base.dtypes import bool_
from ..base.errors import DtypeError, GraphError, ShapeError
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.creation import range as range_of
from ..ops.array.layout import transpose
from ..ops.array.shapes import expand_dims, reshape, shape
from ..ops.array.where import where
from ..ops.math.casting import cast
from ..ops.math.comparison import logical_and
from ..ops.math.linear import matmul
from ..ops.nn.losses import softmax
from .building import Lazy, reshape_sizes
from .by_name import as_activation
from .dense import Dense
from .dropout import Dropout
from .module import Module, module_of_fields
from .normalization import LayerNorm


@module_of_fields
class MultiHeadAttention(Lazy):
    """Multi-head scaled dot-product attention (Vaswani et al., 2017).

    Parameters
    ----------
    num_heads : int
    head_size : int, optional
        Size of one head's queries, keys and values; by default the size of the queries divided by `num_heads`.
    output_size : int, optional
        By default the size of the queries.
    dropout : float
        Fraction of the weights set to zero in training.
    use_bias : bool
        If True, the four products have biases.
    kernel_initializer, bias_initializer : callable, str or array-like, optional
        As `initializer` of `get_variable`. By default the variable scope's for kernels, else
        ``"glorot_uniform"``; ``"zeros"`` for biases.
    input_size : int, optional
        Size of the queries; by default the first query's.
    dtype : dtype-like, optional
        Dtype of the parameters.
    name : str, optional

    Attributes
    ----------
    query, key, value, output : Dense
        Projections of the queries, keys and values, and of the result; the heads are side by side.

    Raises
    ------
    GraphError
        If `num_heads` is below 1; without `head_size`, if `num_heads` does not divide the size of the queries.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     attend = tg.nn.MultiHeadAttention(1, kernel_initializer="identity")
    ...     y, weights = attend([[[8.0, 0.0], [0.0, 8.0]]], causal=True, return_weights=True)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     np.round(session.run(weights), 2)
    array([[[[1., 0.],
             [0., 1.]]]], dtype=float32)
    """

    num_heads: int
    head_size: int | None = None
    output_size: int | None = None
    dropout: Any = 0.0
    use_bias: bool = True
    kernel_initializer: Any = None
    bias_initializer: Any = "zeros"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def __post_init__(self, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__init__(name, input_size, dtype)
        if self.num_heads < 1:
            raise GraphError(
                "attention has heads", wanted="at least 1", got=self.num_heads, hint="1 looks at one place"
            )
        self.dropout = Dropout(self.dropout)
        self.prepare()

    def build(self, size: int) -> None:
        if self.head_size is None:
            if size % self.num_heads:
                raise GraphError(
                    "queries cannot be split into so many heads",
                    wanted=f"a divisor of {size}",
                    got=self.num_heads,
                    hint="give head_size=, or another number of heads",
                )
            self.head_size = size // self.num_heads
        self.output_size = self.output_size or size
        inner = self.num_heads * self.head_size
        self.query: Dense = self._make_projection(inner, "query", size)
        self.key: Dense = self._make_projection(inner, "key")
        self.value: Dense = self._make_projection(inner, "value")
        self.output: Dense = self._make_projection(self.output_size, "output", inner)

    def _make_projection(self, units: int, name: str, size: int | None = None) -> Dense:
        """Return a projection without activation, with the attention's options."""
        return Dense(
            units,
            None,
            self.use_bias,
            self.kernel_initializer,
            self.bias_initializer,
            input_size=size,
            dtype=self.dtype,
            name=name,
        )

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        causal: bool = False,
        training: Any = False,
        return_weights: bool = False,
    ) -> Any:
        """Return the attended values of each query.

        Parameters
        ----------
        query : Tensor of shape [batch, queries, size]
        key : Tensor of shape [batch, keys, any size], optional
            By default the queries: self-attention.
        value : Tensor of shape [batch, keys, any size], optional
            By default the keys.
        mask : bool Tensor of shape [queries, keys], [batch, queries, keys] or [batch, heads, queries, keys], optional
            True where a query may see a key; each dimension may be 1. The result of a query without visible keys is
            the bias of the output.
        causal : bool
            If True, query i sees the keys 0 to i only.
        training : bool or bool Tensor
            If True, weights are dropped.
        return_weights : bool

        Returns
        -------
        Tensor of shape [batch, queries, output size]
            With `return_weights`, a pair with the weights, of shape [batch, heads, queries, keys].
        """
        query = self._require_sequences(self.ready(query))
        if key is None and query.shape[-1] is None:  # the key layer needs a static size, too
            query = reshape(query, [*reshape_sizes(query)[:2], self.input_size])
        # Literals take the dtype of the query.
        key = query if key is None else self._require_sequences(convert_to_tensor(key, _dtype_of_literal(key, query)))
        value = (
            key if value is None else self._require_sequences(convert_to_tensor(value, _dtype_of_literal(value, query)))
        )
        # The queries are scaled, not the logits: they usually have fewer elements.
        queries, keys, values = (self._split_heads(y) for y in (self.query(query), self.key(key), self.value(value)))
        logits = matmul(queries * (1 / math.sqrt(self.head_size or 1)), keys, transpose_b=True)
        weights = _compute_weights(logits, _mask_visible_keys(mask, causal, logits))
        # Back to [batch, places, heads, head size], so that a reshape puts the heads side by side.
        heads = transpose(matmul(self.dropout(weights, training), values), [0, 2, 1, 3])
        result = self.output(reshape(heads, [*reshape_sizes(query)[:2], self.num_heads * (self.head_size or 1)]))
        return (result, weights) if return_weights else result

    def _split_heads(self, x: Tensor) -> Tensor:
        """Return `x` split into heads: [batch, heads, places, head size]."""
        split = reshape(x, [*reshape_sizes(x)[:-1], self.num_heads, self.head_size])
        return transpose(split, [0, 2, 1, 3])

    def _require_sequences(self, x: Tensor) -> Tensor:
        """Return a tensor of rank 3; raise ShapeError for others."""
        if x.rank != 3:
            raise ShapeError(
                f"{type(self).__name__} '{self.name}' takes sequences",
                wanted="[batch, places, size]",
                got=x.shape,
                operation=x.op,
                hint="add a batch of one with expand_dims(x, 0)",
            )
        return x


def _dtype_of_literal(value: Any, like: Tensor) -> Any:
    return None if hasattr(value, "dtype") else like.dtype


def _mask_visible_keys(mask: Any, causal: bool, logits: Tensor) -> Tensor | None:
    """Return the mask of visible keys, broadcastable to the logits; None if all are visible."""
    seen = None
    if mask is not None:
        seen = convert_to_tensor(mask)
        if seen.dtype is not bool_:
            raise DtypeError(
                "a mask of attention says where a query may see a key",
                wanted="bool",
                got=seen.dtype,
                operation=seen.op,
                hint="mask > 0, or mask == 0 where 0 means that it may",
            )
        if seen.rank not in (2, 3, 4):
            raise ShapeError(
                "a mask of attention has another rank",
                wanted="[queries, keys], [batch, queries, keys] or [batch, heads, queries, keys]",
                got=seen.shape,
                operation=seen.op,
                hint="each dimension may be 1: mask[:, None, :] says for a batch which keys there are",
            )
        # A mask without heads is the same for all heads.
        if seen.rank == 3:
            seen = expand_dims(seen, 1)
    if causal:
        # Static sizes where known, so that the mask can be folded to a constant.
        queries, keys = (logits.shape[i] if logits.shape[i] is not None else shape(logits)[i] for i in (2, 3))
        # Key j is visible to query i if j <= i; queries are the rows of the mask, keys its columns.
        before = range_of(keys) <= expand_dims(range_of(queries), 1)
        seen = before if seen is None else logical_and(seen, before)
    return seen


def _compute_weights(logits: Tensor, seen: Tensor | None) -> Tensor:
    """Return the softmax over visible keys; zeros for queries without any."""
    if seen is None:
        return softmax(logits)
    # Finite instead of -inf: the softmax of a row of -inf is NaN, also in the gradient of the unselected branch.
    least = cast(-3e4, logits.dtype) if logits.dtype.name == "float16" else cast(-1e30, logits.dtype)
    # The outer `where` is for queries without visible keys: the softmax of their equal logits is uniform, not 0.
    return where(seen, softmax(where(seen, logits, least)), cast(0, logits.dtype))


@module_of_fields
class TransformerEncoderLayer(Module):
    """Transformer encoder layer: self-attention and a feed-forward network, with residuals (Vaswani et al., 2017).

    Parameters
    ----------
    num_heads : int
    hidden_size : int
        Size of the hidden layer of the feed-forward network.
    dropout : float
        Fraction of attention weights, hidden units and both results set to zero in training.
    activation : callable or str
        Activation of the hidden layer.
    norm_first : bool
        Normalize the inputs of attention and network instead of the sums (Xiong et al., 2020).
    epsilon : float
        Added to the variance of the normalization.
    dtype : dtype-like, optional
        Dtype of the parameters.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     encoder = tg.nn.Sequential(*(tg.nn.TransformerEncoderLayer(4, 64) for _ in range(2)))
    ...     y = encoder(tg.placeholder("float32", [None, 10, 32]))
    >>> y.shape, len(encoder.parameters())
    (Shape(None, 10, 32), 32)
    """

    num_heads: int
    hidden_size: int
    dropout: InitVar[Any] = 0.1
    activation: Any = "relu"
    norm_first: bool = False
    epsilon: float = 1e-5
    dtype: Any = None
    name: InitVar[str | None] = None

    def __post_init__(self, dropout: Any, name: str | None) -> None:
        super().__init__(name)
        dtype = self.dtype
        self.attention: MultiHeadAttention = MultiHeadAttention(self.num_heads, dropout=dropout, dtype=dtype)
        self.hidden: Dense = Dense(self.hidden_size, dtype=dtype, name="hidden")
        self.output: Dense | None = None
        self.norms: list[LayerNorm] = [LayerNorm(epsilon=self.epsilon, dtype=dtype) for _ in range(2)]
        # In order: for the result of the attention, for the hidden units, for the result of the feed-forward network.
        self.drops: list[Dropout] = [Dropout(dropout) for _ in range(3)]
        self.activation = as_activation(self.activation)

    def forward(self, x: Any, mask: Any = None, causal: bool = False, training: Any = False) -> Tensor:
        """Return sequences like `x`, [batch, places, size]; `mask`, `causal` and `training` are as for attention."""
        y = convert_to_tensor(x, self.dtype if not hasattr(x, "dtype") else None)

        def apply_attention(y: Tensor) -> Tensor:
            return self.drops[0](self.attention(y, mask=mask, causal=causal, training=training), training)

        def apply_hidden_layers(y: Tensor) -> Tensor:
            return self.drops[2](self._feed_forward(y, training), training)

        # `norm_first` leaves the residual path free of normalizations, so that deep stacks train without warm-up.
        for norm, part in zip(self.norms, (apply_attention, apply_hidden_layers), strict=True):
            y = y + part(norm(y)) if self.norm_first else norm(y + part(y))
        return y

    def _feed_forward(self, x: Tensor, training: Any) -> Tensor:
        between = self.drops[1](self.activation(self.hidden(x)), training)
        # Made here, because the size of the result is unknown before the first call of the attention.
        if self.output is None:
            self.output = Dense(self.attention.output_size or 0, dtype=self.dtype, name="output")
        return self.output(between)
