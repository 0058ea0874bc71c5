"""The walk over the operations of a function, which builds each for all examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..base.errors import VectorizationError
from ..ir import scopes
from ..ir.accesses import key_of, plain_read
from ..ir.builder import clone_operation
from ..ir.examples import Examples, batched_shape, spread
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.vectorizing import Vectorize
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from ..ir.traits import Effect
from .batched import BatchedTensors

Rule = Callable[["Vectorization", Operation], Sequence[Tensor]]

# Operations with regions, arrays, saved values and effects; filled by the modules of this package.
RULES: dict[str, Rule] = {}

_HARMLESS = Effect.READS | Effect.RANDOM | Effect.INSTANCE


def _rule_of(name: str) -> Rule | None:
    """Return the walk's own rule for an operation type."""
    return RULES.get(name)


class Vectorization:
    """A function built for all examples, in the current region.

    Parameters
    ----------
    region : Region
        The function for a single example.
    arguments : mapping of Tensor to Tensor
        For mapped parameters, the arguments of all examples.
    count : Tensor of int32, scalar
        Number of examples.
    before : Vectorization, optional
        The vectorization of operations used by `region`.
    """

    def __init__(
        self,
        region: Region,
        arguments: Mapping[Tensor, Tensor],
        count: Tensor,
        before: Vectorization | None = None,
    ) -> None:
        self.region = region
        self.count = count
        known: dict[Tensor, Tensor] = {} if before is None else before._values
        self.batched: BatchedTensors = BatchedTensors(
            region, [*arguments, *(t for t in known if before and t in before.batched)]
        )
        self._values: dict[Tensor, Tensor] = {**known, **arguments}
        self._built: dict[Operation, list[Operation]] = {}
        self.stacks: dict[Tensor, Tensor] = {}  # the slots of a series as an array, by the series

    def run(self) -> None:
        """Build all operations of the function."""
        self.walk(self.region)

    def walk(self, region: Region) -> None:
        """Build the operations of a region in the current region."""
        for op in topological_order(region.operations):
            if not op.is_param:
                self._build(op)

    def value(self, tensor: Tensor) -> Tensor:
        """Return the stand-in for a tensor of the function; a tensor from outside stands for itself."""
        return scopes.current_region().resolve(self._values.get(tensor, tensor))

    def inner_value(self, tensor: Tensor) -> Tensor:
        """Return the stand-in for a tensor of a branch or body, to be saved by its Cond or While."""
        return self._values.get(tensor, tensor)

    def spread_value(self, tensor: Tensor) -> Tensor:
        """Return the stand-in for a tensor for all examples, a common value repeated."""
        value = self.value(tensor)
        if tensor in self.batched:
            return value
        if tensor.dtype.is_value:
            return spread(value, self.count)
        if value.op.inputs or value.op.is_param:
            raise _cannot_repeat(tensor)
        return value  # a series without slots, of an operation without inputs, has room for any values

    def set_value(self, tensor: Tensor, value: Tensor) -> None:
        """Set the stand-in for a tensor of the function."""
        self._values[tensor] = value

    @contextmanager
    def replaced(self, values: Mapping[Tensor, Tensor]) -> Iterator[None]:
        """Replace the stand-ins for some tensors within a `with` block."""
        before = {t: self._values[t] for t in values}
        self._values.update(values)
        try:
            yield
        finally:
            self._values.update(before)

    def continued(self, region: Region, arguments: Mapping[Tensor, Tensor]) -> Vectorization:
        """Return the vectorization of operations on tensors of this vectorization."""
        return Vectorization(region, arguments, self.count, self)

    def examples(self, op: Operation) -> Examples:
        """Return an operation with its operands for all examples."""
        return Examples(op, [self.value(t) for t in op.inputs], [t in self.batched for t in op.inputs], self.count)

    def _build(self, op: Operation) -> None:
        """Build an operation for all examples, on its device, after its control inputs, with its line of code."""
        region = scopes.current_region()
        before = len(region.operations)
        controls = [made for c in op.control_inputs for made in self._built.get(c, [c])]
        scope = scopes.current()
        device = (*scope.device, op.device) if op.device else scope.device
        name = op.name.rpartition("/")[0]
        with scopes.within(control_inputs=(*scope.control_inputs, *controls), device=device, name=name):
            outputs = self._outputs(op)
        self._built[op] = region.operations[before:]
        for made in self._built[op]:
            made.source = op.source
        for old, new in zip(op.outputs, outputs, strict=True):
            shape = batched_shape(old.shape, self.count) if old in self.batched else old.shape
            if new.dtype.is_value:
                new.set_shape(shape)
            self._values[old] = new

    def _outputs(self, op: Operation) -> Sequence[Tensor]:
        """Build an operation by its rule, or copy an operation with common inputs."""
        rule = _rule_of(op.type)
        if rule is not None:
            return rule(self, op)
        effects = op.definition.effects
        if effects & ~_HARMLESS:
            raise _has_effects(op)
        if not self.batched.any((*op.inputs, *op.outputs)):
            return self.copy(op)
        vectorize = op.rule(Vectorize)
        if vectorize is None:
            raise _has_no_rule(op)
        return vectorize.rule(self.examples(op))

    def copy(self, op: Operation) -> Sequence[Tensor]:
        """Copy an operation, the same for all examples; reads of a variable are shared where nothing was written."""
        key = key_of(op)
        region = scopes.current_region()

        def make(home: Region) -> Tensor:
            return clone_operation(op, home, [self.value(t) for t in op.inputs]).outputs[0]

        if key is not None and len(op.outputs) == 1 and not op.control_inputs:
            return [plain_read(region, key, make)]
        controls = scopes.current().control_inputs
        return clone_operation(op, region, [self.value(t) for t in op.inputs], control_inputs=controls).outputs


def _cannot_repeat(tensor: Tensor) -> VectorizationError:
    """Return the error for common saved values beside values of each example."""
    return VectorizationError(
        "values saved for all examples meet values saved for each",
        wanted="a gradient whose parts all depend on the mapped arguments, or none",
        got=tensor.name,
        operation=tensor.op,
        source=tensor.op.source,
        hint="take the gradient outside of the vectorized function",
    )


def _has_effects(op: Operation) -> VectorizationError:
    """Return the error for an operation with effects."""
    return VectorizationError(
        f"a vectorized function cannot contain {op.type}, which has effects",
        wanted="operations that only compute",
        got=op.name,
        operation=op,
        source=op.source,
        hint="move it out of the function, or use map_fn, which calls the function for each element",
    )


def _has_no_rule(op: Operation) -> VectorizationError:
    """Return the error for an operation without a rule."""
    return VectorizationError(
        f"{op.type} cannot be computed for many examples at once",
        wanted="an operation with the rule Vectorize",
        got=op.name,
        operation=op,
        source=op.source,
        hint="use map_fn, or register Vectorize(...) in the rules of the operation's definition",
    )
