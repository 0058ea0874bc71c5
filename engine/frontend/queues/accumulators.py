"""Conditional accumulators as in TensorFlow 1: of dense gradients, and of rows of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, convert_to_tensor, scoped_name
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ops.queues.accumulators.operations import REDUCTIONS
from ...ops.support.indexed_slices import IndexedSlices


class ConditionalAccumulatorBase:
    """Base class of conditional accumulators; use its subclasses.

    An accumulator has a *step*, a number that begins as 0, increases by 1 with each take, and can be set. A gradient of
    an earlier step is stale, and dropped.

    Attributes
    ----------
    dtype : DType
    shape : Shape
        Of the gradients, as far as known.
    name : str
        Unique in the graph.
    shared_name : str
        Name of the accumulator in a session.
    accumulator_ref : Tensor
        The resource handle.
    """

    __slots__ = ("accumulator_ref", "dtype", "name", "shape", "shared_name")

    def __init__(
        self, dtype: Any, shape: Any, shared_name: str | None, name: str, reduction_type: str, sparse: bool
    ) -> None:
        if not isinstance(reduction_type, str) or reduction_type not in REDUCTIONS:
            raise GraphError(
                "an accumulator has no such reduction",
                wanted=" or ".join(REDUCTIONS),
                got=reduction_type,
                hint="leave reduction_type out for the mean",
            )
        self.dtype: DType = dtypes.as_dtype(dtype)
        self.shape: Shape = Shape(shape)
        self.name: str = scoped_name(name)
        self.shared_name: str = shared_name or self.name
        # In the root region: the accumulator outlives steps, and with them branches and iterations.
        with scopes.within(region=scopes.get_default_graph().root, control_inputs=(), name=self.name):
            self.accumulator_ref: Tensor = apply(
                "AccumulatorHandle",
                name="handle",
                shared_name=self.shared_name,
                dtype=self.dtype,
                shape=self.shape,
                reduction=reduction_type,
                sparse=sparse,
            )

    @property
    def graph(self) -> Any:
        """The accumulator's graph."""
        return self.accumulator_ref.graph

    @public
    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Return the number of gradients applied since the last take, an int32 scalar."""
        return apply("AccumulatorNumAccumulated", self.accumulator_ref, name=name or "num_accumulated")

    @public
    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Return an operation that sets the step to `new_global_step`; gradients of earlier steps are dropped."""
        step = convert_to_tensor(new_global_step, dtypes.int64)
        return apply("AccumulatorSetGlobalStep", self.accumulator_ref, step, name=name or "set_global_step")


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulator of gradients, taken together as soon as there are enough; gradients of earlier steps are dropped.

    Parameters
    ----------
    dtype : dtype-like
        Of the gradients.
    shape : shape, optional
        Of the gradients; the first gradient fixes unknown dimensions.
    shared_name : str, optional
        Accumulators of the same shared name are the same accumulator in a session; by default the own name.
    name : str
        Name in the graph.
    reduction_type : {'MEAN', 'SUM'}
        Reduction of the gradients in a take.

    Raises
    ------
    GraphError
        For another reduction.
    OpError
        When a step uses the accumulator, if another accumulator of this shared name differs.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     mean = tg.ConditionalAccumulator("float32", shape=[])
    ...     puts, taken = [mean.apply_grad(1.0), mean.apply_grad(4.0)], mean.take_grad(2)
    >>> with tg.SyncSession(graph) as session:
    ...     for put in puts:
    ...         session.run(put)
    ...     float(session.run(taken))
    2.5
    """

    __slots__ = ()

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        super().__init__(dtype, shape, shared_name, name, reduction_type, sparse=False)

    @public
    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """Return an operation that adds `grad`, or drops a gradient whose `local_step` is before the accumulator's.

        The output is true if the gradient was added.

        Parameters
        ----------
        grad : Tensor
            Of the accumulator's dtype and shape.
        local_step : scalar int64 Tensor
            The step for which the gradient was computed.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation
            Its output is a bool scalar.

        Raises
        ------
        DtypeError, ShapeError
            If `grad` is a tensor of another dtype, or its shape is known not to be the accumulator's.
        OpError
            When a step runs the operation, if `grad` has another shape than the gradients before.
        """
        # Literals and arrays take the accumulator's dtype; a tensor is never cast, and refused if its dtype differs.
        gradient = convert_to_tensor(grad, None if isinstance(grad, Tensor) else self.dtype)
        applied: Tensor = apply(
            "AccumulatorApplyGradient",
            self.accumulator_ref,
            convert_to_tensor(local_step, dtypes.int64),
            gradient,
            name=name or "apply_grad",
            dtype=self.dtype,
            shape=self.shape,
        )
        return applied.op

    @public
    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """Return the mean or sum of all gradients as soon as `num_required` were applied.

        The accumulator is empty afterwards, and its step is larger by 1.

        Parameters
        ----------
        num_required : scalar int32 Tensor
            Number of gradients to wait for, at least 1.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Tensor
            Of the accumulator's dtype and shape.

        Raises
        ------
        OpError
            When a step runs the operation, if `num_required` is not positive.
        """
        return apply(
            "AccumulatorTakeGradient",
            self.accumulator_ref,
            convert_to_tensor(num_required, dtypes.int32),
            name=name or "take_grad",
            dtype=self.dtype,
            shape=self.shape,
        )


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulator of rows of gradients, taken together as soon as there are enough; see `ConditionalAccumulator`.

    Parameters
    ----------
    dtype : dtype-like
        Of the gradients.
    shape : shape, optional
        Of the whole tensors with these rows; the first gradient fixes unknown dimensions.
    shared_name : str, optional
        Accumulators of the same shared name are the same accumulator in a session; by default the own name.
    name : str
        Name in the graph.
    reduction_type : {'MEAN', 'SUM'}
        Reduction of the gradients in a take. The mean of a row is over the gradients containing the row.

    Raises
    ------
    GraphError
        For another reduction.
    OpError
        When a step uses the accumulator, if another accumulator of this shared name differs.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     mean = tg.SparseConditionalAccumulator("float32", shape=[10, 1])
    ...     puts = [mean.apply_grad([3, 1], [[1.0], [2.0]]), mean.apply_grad([3], [[5.0]])]
    ...     indices, values, _ = mean.take_grad(2)
    >>> with tg.SyncSession(graph) as session:
    ...     for put in puts:
    ...         session.run(put)
    ...     [value.tolist() for value in session.run([indices, values])]
    [[1, 3], [[2.0], [3.0]]]
    """

    __slots__ = ()

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        super().__init__(dtype, shape, shared_name, name, reduction_type, sparse=True)

    @public
    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None) -> Operation:
        """Return an operation that adds rows, or drops rows whose `local_step` is before the accumulator's.

        Parameters
        ----------
        grad : IndexedSlices
            Of the accumulator's dtype.
        local_step : scalar int64 Tensor
            The step for which the gradient was computed.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation
            The output, a bool scalar, is true if the rows were added.

        Raises
        ------
        GraphError
            If `grad` is not IndexedSlices.
        DtypeError, ShapeError
            As in `apply_grad`.
        OpError
            When a step runs the operation, if `grad` does not fit the gradients before.
        """
        if not isinstance(grad, IndexedSlices):
            raise GraphError(
                "a sparse accumulator adds up IndexedSlices",
                wanted="IndexedSlices",
                got=grad,
                hint="apply_grad(indices, values), or a ConditionalAccumulator for gradients that are tensors",
            )
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    @public
    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that adds rows, or drops rows whose `local_step` is before the accumulator's.

        Parameters
        ----------
        grad_indices : int32 or int64 Tensor of shape [n]
            Indices of the rows, in any order; rows of the same index add up.
        grad_values : Tensor of shape [n, ...]
            The rows, of the accumulator's dtype.
        grad_shape : int32 or int64 Tensor of shape [rank], optional
            Shape of the whole tensor.
        local_step : scalar int64 Tensor
            The step for which the rows were computed.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation
            The output, a bool scalar, is true if the rows were added.

        Raises
        ------
        DtypeError, ShapeError
            If the rows are a tensor of another dtype, or indices, rows and shape are known not to fit.
        OpError
            When a step runs the operation, if indices, rows and shape do not fit each other, or the gradients before.
        """
        indices = convert_to_tensor(grad_indices, None if isinstance(grad_indices, Tensor) else dtypes.int64)
        values = convert_to_tensor(grad_values, None if isinstance(grad_values, Tensor) else self.dtype)
        if grad_shape is None:
            # An empty vector stands for an unknown shape.
            grad_shape = np.zeros(0, np.int64)
        shape = convert_to_tensor(grad_shape, None if isinstance(grad_shape, Tensor) else dtypes.int64)
        applied: Tensor = apply(
            "AccumulatorApplyRows",
            self.accumulator_ref,
            convert_to_tensor(local_step, dtypes.int64),
            values,
            indices,
            # Shapes of tensors are int32, the accumulator's operations take int64.
            shape if shape.dtype is dtypes.int64 else apply("Cast", shape, dtype=dtypes.int64),
            name=name or "apply_grad",
            dtype=self.dtype,
            shape=self.shape,
        )
        return applied.op

    @public
    def take_grad(self, num_required: Any, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean or sum of all gradients as soon as `num_required` were applied.

        The accumulator is empty afterwards, and its step is larger by 1.

        Parameters
        ----------
        num_required : scalar int32 Tensor
            Number of gradients to wait for, at least 1.
        name : str, optional
            Name of the operation.

        Returns
        -------
        indices : int64 Tensor of shape [n]
            Ascending and unique.
        values : Tensor of shape [n, ...]
            Of the accumulator's dtype.
        shape : int64 Tensor of shape [rank]
            Of the whole tensor; the first dimension is -1 if unknown.

        Raises
        ------
        OpError
            When a step runs the operation, if `num_required` is not positive.
        """
        indices, values, shape = apply(
            "AccumulatorTakeRows",
            self.accumulator_ref,
            convert_to_tensor(num_required, dtypes.int32),
            name=name or "take_grad",
            dtype=self.dtype,
            shape=self.shape,
        )
        return indices, values, shape

    @public
    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """Return the result of `take_grad` as IndexedSlices.

        Parameters
        ----------
        num_required : scalar int32 Tensor
            Number of gradients to wait for, at least 1.
        name : str, optional
            Name of the operation.

        Returns
        -------
        IndexedSlices

        Raises
        ------
        OpError
            When a step runs the operation, if `num_required` is not positive.
        """
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
