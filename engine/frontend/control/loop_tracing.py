"""Construction of loops: predicate and body are traced and checked against the loop variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import nest
from ...base.dtypes import DType, bool_, int32
from ...base.errors import DtypeError, GraphError, LoopVariableError, ShapeError, TagloomError
from ...base.shapes import SCALAR, Shape
from ...base.source_lines import user_source
from ...ir import scopes
from ...ir.apply import apply, constant, constant_of, convert_to_tensor, discard, strengthened
from ...ir.loop_dependence import find_carried
from ...ir.region import Region
from ...ir.structured import new_region
from ...ir.tensor import Tensor
from ...ir.weak import gives_way, is_weak, mark_weak, settle
from ..tracing.function_scope import Attempts, keep_effects
from ..tracing.leaves import (
    Retyped,
    dtype_to_begin_with,
    from_tensor,
    is_literal,
    is_weak_leaf,
    to_tensor,
    trace_function,
)


class TracedLoop:
    """A loop under construction: the structure of the loop variables, their initial tensors, the two regions."""

    def __init__(self, loop_vars: Any, shape_invariants: Any, maximum_iterations: Any) -> None:
        self.source = user_source()
        self.loop_vars = loop_vars
        self.is_sequence = type(loop_vars) in (list, tuple)
        self.paths = [path or "the loop variable" for path, _ in nest.walk(loop_vars)]
        self.leaves = nest.flatten(loop_vars)
        # Initial values belong to the region around the loop.
        self.inits = [to_tensor(leaf) for leaf in self.leaves]
        # Variables whose dtype the body may still choose: they begin with literals or weak tensors.
        self.weak = {i for i, leaf in enumerate(self.leaves) if is_weak_leaf(leaf)}
        self.retyped: dict[int, DType] = {}  # initial dtypes of literals, as required by the body
        self.still_weak: set[int] = set()  # the retyped literals that only met other literals
        self.given_way: list[tuple[int, Tensor]] = []  # weak results, in their dtypes before the cast to a variable's
        self.shapes = self._shape_invariants(shape_invariants)
        self.maximum = None if maximum_iterations is None else _convert_maximum(maximum_iterations)
        if self.maximum is not None:
            # The bound is a hidden counter, a loop variable after the user's.
            self.inits.append(constant(0, int32))
            self.shapes.append(SCALAR)
        self.labels = [f"variable {i}" for i in range(len(self.inits))]
        self.cond = self._make_region("loop predicate")
        self.body = self._make_region("loop body")

    def trace(self, predicate: Callable[..., Any], body: Callable[..., Any]) -> None:
        """Build predicate and body, repeatedly while the body requires other initial dtypes of literals."""
        if not self.weak:
            self._trace_once(predicate, body)
            return
        graph, attempts = self.body.graph, Attempts()
        while True:
            noted = graph.note_attempt()
            try:
                with attempts.open_attempt():
                    self._trace_once(predicate, body)
            # Raised by the step of a scan around this loop's literals: the scan builds everything again, with other
            # arrays.
            except Retyped:
                graph.give_up(noted, [self.cond, self.body])
                raise
            if not self.retyped:
                # A literal's dtype may change until the last attempt, so results that gave way are checked only now.
                for i, result in self.given_way:
                    self._require_invariant(i, self.body.params[i], result)
                return
            graph.give_up(noted, [self.cond, self.body])
            self._begin_again()

    def _trace_once(self, predicate: Callable[..., Any], body: Callable[..., Any]) -> None:
        self.name_variables(body)
        self.trace_predicate(predicate)
        self.trace_body(body)

    def _begin_again(self) -> None:
        """Build the literals in the dtypes required by the body; dtypes only rise in kind, so the attempts end."""
        for i, dtype in self.retyped.items():
            leaf, before = self.leaves[i], self.inits[i]
            try:
                self.inits[i] = constant_of(leaf, dtype) if is_literal(leaf) else strengthened(leaf, dtype)
            except DtypeError as error:
                raise LoopVariableError(
                    f"loop variable {self.paths[i]} begins with a literal that its dtype in the body does not have",
                    wanted=dtype,
                    got=repr(leaf),
                    operation=before.op,
                    source=self.source,
                    hint=f"begin with a value that {dtype} has, or cast the new value",
                ) from error
            # A literal's constant has no other readers; a weak tensor belongs to an outer loop's body.
            if is_literal(leaf):
                discard(before.op)
            # The required dtype is a tensor's, hence final.
            if i not in self.still_weak:
                self.weak.discard(i)
        # New regions, because the operations of the failed attempt have the old dtypes.
        self.retyped, self.still_weak, self.given_way = {}, set(), []
        self.cond = self._make_region("loop predicate")
        self.body = self._make_region("loop body")

    def settle(self, outputs: Sequence[Tensor]) -> None:
        """Make all values of the loop strong, except results whose initial values are weak in an outer loop's body."""
        if self.weak:
            settle([self.cond, self.body])
        for i in self.weak:
            if not is_literal(self.leaves[i]):
                mark_weak(outputs[i])

    def _make_region(self, role: str) -> Region:
        """Return a new region with a parameter for each loop variable."""
        region = new_region(role)
        for i, (tensor, shape) in enumerate(zip(self.inits, self.shapes, strict=True)):
            param = region.add_param(tensor.dtype, shape, f"{role.split()[1]}_{tensor.op.name.rsplit('/', 1)[-1]}")
            param.op.note(initial=tensor)
            param.op.source = self.source
            if i in self.weak:
                mark_weak(param)
        return region

    def _shape_invariants(self, given: Any) -> list[Shape]:
        """Return the shape invariant of each variable, the initial shape by default."""
        if given is None:
            return [t.shape for t in self.inits]
        shapes = _flatten_shapes(self.loop_vars, given)
        for path, tensor, shape in zip(self.paths, self.inits, shapes, strict=True):
            if not shape.includes(tensor.shape):
                raise LoopVariableError(
                    f"the initial value of loop variable {path} is not compatible with its shape invariant",
                    wanted=shape,
                    got=tensor.shape,
                    operation=tensor.op,
                    source=self.source,
                    hint="use None for the dimensions that change",
                )
        return shapes

    def _pack_arguments(self, region: Region) -> Any:
        # A single variable outside a list or tuple is passed to predicate and body as their only argument.
        params = region.params[: len(self.leaves)]
        packed = nest.pack_as(
            self.loop_vars, [from_tensor(leaf, p) for leaf, p in zip(self.leaves, params, strict=True)]
        )
        return packed if self.is_sequence else (packed,)

    def name_variables(self, body: Callable[..., Any]) -> None:
        """Label the variables with the names of the body's parameters, for errors and reports."""
        names = _parameter_names(body)
        for i, path in enumerate(self.paths):
            # A path of a sequence begins with the argument's number, as in "[1].total".
            argument, rest = path[1:].split("]", 1) if self.is_sequence else ("0", path if path[0] in "[." else "")
            if int(argument) < len(names):
                self.labels[i] = names[int(argument)] + rest
        for region in (self.cond, self.body):
            for label, param in zip(self.labels, region.params, strict=True):
                param.op.note(label=label)

    def require_independence(self) -> None:
        """Refuse variables that make an iteration depend on the previous iteration's result."""
        for chain in find_carried(self.cond, self.body):
            label = self.labels[chain.variable]
            last = label if chain.carried else "the predicate"
            raise GraphError(
                f"loop variable {label} lets no iteration start before the one before it is done",
                wanted="independent iterations: counters, and TensorArrays written at indices that differ",
                got=" -> ".join([label, *chain.path, last]),
                operation=self.body.results[chain.variable].op,
                source=self.source,
                hint="write results to a TensorArray, or leave independent=True out",
            )

    def trace_predicate(self, function: Callable[..., Any]) -> None:
        """Trace the predicate, and check its dtype and rank; the bound of iterations is part of the predicate."""
        result = trace_function(self.cond, function, self._pack_arguments(self.cond), "the predicate of while_loop")
        # With a bound, a predicate that is always true makes a for loop.
        if isinstance(result, (bool, np.bool_)) and self.maximum is None:
            raise GraphError(
                "the predicate of while_loop is a Python bool, which is the same in every iteration",
                got=result,
                wanted="a bool tensor made of the loop variables",
                source=self.source,
                hint="compare the variables with something, as in i < n; or pass maximum_iterations as well",
            )
        with scopes.inside(self.cond):
            predicate = convert_to_tensor(result)
            if predicate.dtype is not bool_:
                raise DtypeError(
                    "the predicate of while_loop must be bool",
                    wanted="bool",
                    got=predicate.dtype,
                    operation=predicate.op,
                    hint="compare the variables with something, as in i < n",
                )
            if predicate.rank not in (0, None):
                raise ShapeError(
                    "the predicate of while_loop must be a scalar",
                    wanted="[]",
                    got=predicate.shape,
                    operation=predicate.op,
                    hint="use reduce_all or reduce_any",
                )
            if self.maximum is not None:
                # The hidden counter is the last parameter, after the user's variables.
                predicate = apply("LogicalAnd", self.cond.params[-1] < self.maximum, predicate)
            self.cond.results.append(predicate)
            keep_effects(self.cond, self.cond.results)

    def trace_body(self, function: Callable[..., Any]) -> None:
        """Trace the body, and check its results against the loop variables."""
        structure = trace_function(self.body, function, self._pack_arguments(self.body), "the body of while_loop")
        # A body of a single variable may return the new value without its list.
        if self.is_sequence and len(self.loop_vars) == 1 and type(structure) not in (list, tuple):
            structure = [structure]
        difference = nest.difference(self.loop_vars, structure)
        if difference:
            raise LoopVariableError(
                "the loop body does not return the structure of the loop variables",
                wanted=f"{len(self.leaves)} values in the structure of loop_vars",
                got=difference,
                source=self.source,
                hint="return one new value for each loop variable, in the same lists, tuples and dicts",
            )
        with scopes.inside(self.body):
            for i, leaf in enumerate(nest.flatten_as(self.loop_vars, structure)):
                self.body.results.append(self._convert_result(i, leaf))
            keep_effects(self.body, self.body.results)
            if self.maximum is not None:
                # In the position of the hidden counter's parameter, so after the user's results.
                self.body.results.append(self.body.params[-1] + 1)

    def _convert_result(self, i: int, leaf: Any) -> Tensor:
        """Return the tensor of a result of the body, or note the initial dtype that the variable needs instead."""
        param = self.body.params[i]
        # The handle of an array is the same in all iterations; the loop variable is only its flow.
        if hasattr(self.leaves[i], "with_flow") and getattr(leaf, "handle", None) is not self.leaves[i].handle:
            raise LoopVariableError(
                f"loop variable {self.paths[i]} is a TensorArray, and the body returns something else for it",
                wanted="the same array",
                got=leaf,
                source=self.source,
                operation=param.op,
                hint="return what its write gives, or the array as it was given",
            )
        dtype = dtype_to_begin_with(param, leaf)
        if dtype is not None:
            self.retyped[i] = dtype
            if is_weak_leaf(leaf):
                self.still_weak.add(i)
            # The attempt goes on with a result of the new dtype, to find all variables to retype at once.
            return to_tensor(leaf, dtype)  # the body is built again
        if isinstance(leaf, Tensor) and is_weak(leaf) and gives_way(leaf.dtype, param.dtype):
            self.given_way.append((i, leaf))
        try:
            result = to_tensor(leaf, param.dtype)
        except DtypeError as error:
            raise LoopVariableError(
                f"loop variable {self.paths[i]} changes its dtype",
                wanted=param.dtype,
                got=error.got,
                operation=param.op,
                source=self.source,
                hint=f"return a value of dtype {param.dtype}, or start the variable with another",
            ) from error
        self._require_invariant(i, param, result)
        return result

    def _require_invariant(self, i: int, param: Tensor, result: Tensor) -> None:
        """Raise LoopVariableError if a variable's dtype or shape differs after an iteration."""
        if result.dtype is not param.dtype:
            raise LoopVariableError(
                f"loop variable {self.paths[i]} changes its dtype",
                wanted=param.dtype,
                got=result.dtype,
                operation=result.op,
                hint=f"use cast(..., '{param.dtype}') in the body",
            )
        # A narrower shape is allowed: the variable keeps its invariant.
        if not param.shape.includes(result.shape):
            raise LoopVariableError(
                f"loop variable {self.paths[i]} changes its shape",
                wanted=param.shape,
                got=result.shape,
                operation=result.op,
                hint=f"pass shape_invariants with {param.shape.relax(result.shape)} for it",
            )


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of positional parameters; none for callables without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _flatten_shapes(loop_vars: Any, given: Any) -> list[Shape]:
    """Flatten shapes along the structure of `loop_vars`: a shape is itself a list."""
    parts = nest.children(loop_vars)
    if parts is None:
        return [Shape(given)]
    shapes: list[Shape] = []
    if isinstance(loop_vars, dict) and isinstance(given, dict):
        # Dicts match by key, whatever their order; other keys fail the check of lengths below.
        given = [given[key] for key in loop_vars] if set(given) == set(loop_vars) else ()
    inner = given if isinstance(given, (list, tuple)) else [c for _, c in nest.children(given) or []]
    if len(inner) != len(parts):
        raise LoopVariableError(
            "shape_invariants do not have the structure of loop_vars",
            got=given,
            wanted=f"a shape for each of {loop_vars}",
            hint="give one shape for each loop variable, in the same lists, tuples and dicts",
        )
    for (_, child), shape in zip(parts, inner, strict=True):
        shapes += _flatten_shapes(child, shape)
    return shapes


def _convert_maximum(value: Any) -> Tensor:
    """Return `maximum_iterations` as an int32 scalar tensor; GraphError for anything but an integer scalar."""
    try:
        tensor = convert_to_tensor(value)
    except TagloomError as error:
        raise GraphError(
            "maximum_iterations must be an integer scalar",
            got=value,
            wanted="an integer, or an integer tensor of rank 0",
            hint="leave it out for no bound",
        ) from error
    if not tensor.dtype.is_integer or tensor.rank not in (0, None):
        raise GraphError(
            "maximum_iterations must be an integer scalar",
            got=tensor,
            wanted="an integer, or an integer tensor of rank 0",
            operation=tensor.op,
            hint="cast it, or take one element",
        )
    return apply("Cast", tensor, dtype=int32)
