"""Dense layers, embeddings, and flattening."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..base.shapes import Shape
from ..frontend.state.variables import Variable
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from ..ops.array.gather import gather
from ..ops.array.shapes import reshape, shape
from ..ops.math.cumulative import reduce_prod
from ..ops.math.linear import matmul
from .building import Lazy, reshape_sizes
from .by_name import as_activation
from .module import Module, module_of_fields


@module_of_fields
class Dense(Lazy):
    """``activation(inputs @ kernel + bias)``, along the last dimension.

    Parameters
    ----------
    units : int
        Size of the last dimension of the result.
    activation : callable or str, optional
        A function of a tensor, or a name, such as ``"relu"``.
    use_bias : bool
    kernel_initializer, bias_initializer : callable, str or array-like, optional
        As `initializer` of `get_variable`. By default the variable scope's for kernels, else
        ``"glorot_uniform"``; ``"zeros"`` for biases.
    input_size : int, optional
        Size of the last dimension of the inputs; by default the first input's, whose static shape must have it.
    dtype : dtype-like, optional
        Dtype of the parameters; by default the first input's, or float32 with `input_size`.
    name : str, optional

    Attributes
    ----------
    kernel : Variable of shape [input size, units]
    bias : Variable of shape [units], or None

    Raises
    ------
    ShapeError
        On a call, if the size of the last dimension is unknown, or differs from the kernel's.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     layer = tg.nn.Dense(2, "relu", kernel_initializer="ones", bias_initializer=[0.0, -7.0])
    ...     y = layer([[1.0, 2.0, 3.0]])
    ...     init = tg.global_variables_initializer()
    >>> layer.kernel
    <Variable dense/kernel float32[3,2]>
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y)
    array([[6., 0.]], dtype=float32)
    """

    units: int
    activation: Any = None
    use_bias: bool = True
    kernel_initializer: Any = None
    bias_initializer: Any = "zeros"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def __post_init__(self, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__init__(name, input_size, dtype)
        self.activation = as_activation(self.activation)
        self.prepare()

    def build(self, size: int) -> None:
        self.kernel: Variable = self.variable("kernel", [size, self.units], self.kernel_initializer)
        self.bias: Variable | None = (
            self.variable("bias", [self.units], self.bias_initializer) if self.use_bias else None
        )

    def forward(self, inputs: Any) -> Tensor:
        """Return the `inputs`, [..., input size], times the kernel plus the bias: [..., units]."""
        x = self.ready(inputs)
        if x.rank == 2:
            y = matmul(x, self.kernel)
        else:  # a single matrix product, so that its gradient is a single product too
            y = _with_rows_of(x, matmul(reshape(x, [-1, self.input_size]), self.kernel), self.units)
        result: Tensor = self.activation(y if self.bias is None else y + self.bias)
        return result


def _with_rows_of(x: Tensor, y: Tensor, units: int) -> Tensor:
    """Return the rows of `y` with the leading dimensions of `x`, from which they were flattened."""
    if x.rank is None:
        return reshape(y, concat([shape(x)[:-1], [units]], 0))
    result = reshape(y, [*reshape_sizes(x)[:-1], units])
    # The reshape may have lost static sizes that are known from `x`.
    result.set_shape(x.shape[:-1] + Shape([units]))
    return result


class Embedding(Lazy):
    """A table of vectors, looked up by row numbers. The table's gradient is sparse, with the used rows only.

    Parameters
    ----------
    count : int
        Number of rows.
    size : int
        Size of a row.
    initializer : callable, str or array-like, optional
        As for `get_variable`; by default the variable scope's, else ``"random_uniform"``.
    dtype : dtype-like, optional
        float32 by default.
    name : str, optional

    Attributes
    ----------
    embeddings : Variable of shape [count, size]

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     words = tg.nn.Embedding(3, 2, initializer=[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    ...     y = words([[2, 0]])
    ...     print(type(tg.gradients(y, [words.embeddings])[0]).__name__)
    ...     init = tg.global_variables_initializer()
    IndexedSlices
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y)
    array([[[4., 5.],
            [0., 1.]]], dtype=float32)
    """

    def __init__(
        self, count: int, size: int, initializer: Any = None, dtype: Any = None, name: str | None = None
    ) -> None:
        super().__init__(name, count, dtype)
        self.size = size
        self.initializer = initializer
        self.prepare()

    def build(self, size: int) -> None:
        self.embeddings: Variable = self.variable(
            "embeddings", [size, self.size], self.initializer, default="random_uniform"
        )

    def forward(self, ids: Any) -> Tensor:
        """Return the rows of `ids`, integers of any shape: a tensor of shape ``[*ids.shape, size]``."""
        return gather(self.embeddings, ids)


class Flatten(Module):
    """Flattening of all dimensions except the first.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.nn.Flatten()(tg.ones([2, 3, 4]))).sync().shape
    (2, 12)
    """

    def forward(self, inputs: Any) -> Tensor:
        """Return the `inputs` as a matrix."""
        x = convert_to_tensor(inputs)
        # Static sizes give a static shape; a size of 0 is ambiguous with -1 and takes the general way.
        rest = x.shape[1:].num_elements if x.rank else None
        if rest:
            return reshape(x, [-1, rest])
        y = reshape(x, [shape(x)[0], reduce_prod(shape(x)[1:])])
        y.set_shape(Shape([x.shape[0] if x.rank else None, rest]))
        return y
