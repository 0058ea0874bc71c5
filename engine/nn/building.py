"""Base of layers whose parameters are made at the first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtypes import DType, as_dtype
from ..base.errors import ShapeError
from ..frontend.control.scopes import name_scope
from ..frontend.state.variables import Variable
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.shapes import shape
from ..ops.math.casting import cast
from .layer_variables import Default, layer_variable
from .module import Module


class Lazy(Module):
    """A module whose parameters are made once the input size is known: on construction, or at the first call.

    A subclass calls `prepare` at the end of ``__init__`` and `ready` in each call; `build` makes the variables, once,
    at the root of the graph, even if the first call is in a loop or branch.
    """

    def __init__(self, name: str | None, input_size: Any, dtype: Any) -> None:
        super().__init__(name)
        self.input_size: Any = input_size
        self.dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self._is_built = False

    def build(self, size: Any) -> None:
        """Make the variables for inputs of a size. Subclasses define this method."""
        raise NotImplementedError

    def input_axes(self) -> Sequence[int]:
        """Return the axes of an input whose sizes are the argument of `build`."""
        return (-1,)

    def prepare(self) -> None:
        """Make the variables if the constructor received an input size."""
        if self.input_size is not None:
            with name_scope(self.name):
                self._build_once(self.input_size)

    def ready(self, inputs: Any) -> Tensor:
        """Return the input as a tensor; make the variables if missing, else check the input's size."""
        # Literals have no dtype of their own: they take the layer's, if known.
        x = convert_to_tensor(inputs, None if hasattr(inputs, "dtype") else self.dtype)
        if not self._is_built:
            # Only the first input decides: later inputs of another dtype do not change the variables.
            self.dtype = self.dtype or self.dtype_for(x.dtype)
            found = [self._require_known_dimension(x, axis) for axis in self.input_axes()]
            self._build_once(found[0] if len(found) == 1 else tuple(found))
        else:
            self._require_size(x)
        return x

    def dtype_for(self, dtype: DType) -> DType:
        """Return the dtype of the parameters for inputs of a dtype."""
        return dtype

    def _build_once(self, size: Any) -> None:
        self.input_size = size
        self.dtype = self.dtype or as_dtype("float32")
        self.build(size)
        self._is_built = True

    def _require_size(self, x: Tensor) -> None:
        """Raise ShapeError if the static shape does not fit the variables."""
        wanted = [self.input_size] if isinstance(self.input_size, int) else self.input_size
        for axis, size in zip(self.input_axes(), wanted, strict=True):
            if x.rank is not None and not (-x.rank <= axis < x.rank and x.shape[axis] in (None, size)):
                raise ShapeError(
                    f"the variables of {type(self).__name__} '{self.name}' are for inputs of another size",
                    wanted=f"{size} along dimension {axis}",
                    got=x.shape,
                    operation=x.op,
                    hint="make another layer for other inputs",
                )

    def _require_known_dimension(self, x: Tensor, axis: int) -> int:
        """Return the static size of an input's dimension; raise ShapeError if unknown."""
        size = x.shape[axis] if x.rank is not None and -x.rank <= axis < x.rank else None
        if size is None:
            raise ShapeError(
                f"{type(self).__name__} '{self.name}' does not know the size of its inputs",
                wanted=f"an input whose dimension {axis} is known",
                got=x.shape,
                operation=x.op,
                hint="let the input have a static shape, by set_shape; a layer takes input_size= as well",
            )
        return int(size)

    def variable(
        self,
        name: str,
        shape: Any,
        initializer: Any,
        trainable: bool = True,
        dtype: Any = None,
        default: Any = "glorot_uniform",
    ) -> Variable:
        """Return a variable, by default of the layer's dtype; see `layer_variable`."""
        chosen = Default(default) if initializer is None else initializer
        made: Variable = layer_variable(self, name, shape, dtype or self.dtype, chosen, trainable)
        return made


def as_number(value: Any, dtype: DType) -> Tensor:
    """Return a Python number, or a scalar tensor of any dtype, as a scalar of `dtype`."""
    return cast(value, dtype) if hasattr(value, "dtype") else convert_to_tensor(value, dtype)


def reshape_sizes(x: Tensor) -> list[Any]:
    """Return the dimensions of a tensor for `reshape`: ints if known, else -1 for a single one, or tensors."""
    known: list[Any] = list(x.shape)
    unknown = [i for i, d in enumerate(known) if d is None]
    if len(unknown) == 1 and 0 not in known:  # with a size of 0, -1 would be ambiguous
        known[unknown[0]] = -1
    elif unknown:
        found = shape(x)
        for i in unknown:
            known[i] = found[i]
    return known
