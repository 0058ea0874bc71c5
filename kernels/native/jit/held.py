"""Values that the function of a run's steps holds in variables: their numbers, their types, and their writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from .listed import ListedStep, StepCode
from .types import element_type, size_of, vector_of


@dataclass(slots=True)
class Held:
    """Memory of the steps that the function holds in a variable while it runs, so that steps need no loads and stores.

    Attributes
    ----------
    number : int
        Number of the value.
    type : str
        LLVM's type of an element, or of a vector of all elements.
    step, operand : int
        Step with the address of the memory, and the number of the operand, or of the matrix of the step's product.
    is_factor : bool
        True if `operand` is the number of a matrix of the product.
    in_cell : bool
        True for an element in a cell of eight bytes.
    """

    number: int
    type: str
    step: int
    operand: int
    is_factor: bool
    in_cell: bool

    @property
    def name(self) -> str:
        """The function's variable, which LLVM turns into registers."""
        return f"%value{self.number}"


def find_values(steps: Sequence[ListedStep]) -> dict[int, Held]:
    """Return the held values of steps by number. Both sides of a copy have one type if no step needs another."""
    types: dict[int, str] = {}
    for step in steps:
        for number, type_ in _types_of(step):
            if type_:
                types.setdefault(number, type_)
    _propagate_types(
        types, [s.values[:2] for s in steps if s.code in (StepCode.COPY, StepCode.COPY_8) and _copies_same_kind(s)]
    )
    values: dict[int, Held] = {}
    for held in chain(_find_operands(steps), _find_factors(steps)):  # operands first: only they know of cells
        number = held.number
        if number not in values:
            values[number] = held
            held.type = types.get(number, held.type)
    return values


def _find_operands(steps: Sequence[ListedStep]) -> Iterator[Held]:
    for i, step in enumerate(steps):
        for k, number in enumerate(step.values):
            if number >= 0:
                # bytes, unless a step knows the type
                default = "i64" if step.in_cells[k] else f"<{step.sizes[k]} x i8>"
                yield Held(number, default, i, k, False, step.in_cells[k])


def _find_factors(steps: Sequence[ListedStep]) -> Iterator[Held]:
    for i, step in enumerate(steps):
        for k, number in enumerate(step.product.factors if step.product else ()):
            if number >= 0:
                yield Held(number, "", i, k, True, False)


def _copies_same_kind(step: ListedStep) -> bool:
    """Return True for a copy between two held elements in cells, or between two other held values."""
    return min(step.values[:2]) >= 0 and step.in_cells[0] == step.in_cells[1]


def _propagate_types(types: dict[int, str], copies: list[tuple[int, ...]]) -> None:
    """Propagate types along copies, in both directions."""
    # forwards and backwards: most chains of copies are found in either order
    for _ in range(2):
        for target, source in copies:
            if target in types or source in types:
                known = types.get(target) or types[source]
                types.setdefault(target, known)
                types.setdefault(source, known)
        copies.reverse()


def _types_of(step: ListedStep) -> Iterator[tuple[int, str]]:
    """Yield the values used by a step as elements of a type, with the types."""
    if step.product is not None and step.product.is_small:
        product, type_ = step.product, element_type(step.dtypes[1])
        whole = product.rows * product.columns
        counts = (product.rows * product.inner, product.inner * product.columns, whole, whole)
        yield from ((n, vector_of(type_, count)) for n, count in zip(product.factors, counts, strict=True) if n >= 0)
    for k, (number, type_) in enumerate(zip(step.values, _elements_of(step), strict=False)):
        if number >= 0 and type_:
            yield number, type_ if step.in_cells[k] else vector_of(type_, step.sizes[k] // size_of(type_))


def _elements_of(step: ListedStep) -> list[str]:
    """Return the element types of a step's operands, as far as known from the step."""
    if step.code == StepCode.APPLY:
        return [element_type(dtype) for dtype in step.dtypes]
    if step.code == StepCode.ADD_ONE:
        return ["i64"]
    if step.code == StepCode.GO_UNLESS:
        return ["i8"]
    if step.code == StepCode.GO_TO:
        return ["i8" if step.amount == 1 else "i32"]  # `amount` is the size of the element: bool or int32
    return []


def writes_to(step: ListedStep) -> list[int]:
    """Return the numbers of the held values that a step may change."""
    if step.product is not None:
        places = [step.product.factors[2]]
    elif step.code == StepCode.APPLY:
        places = [step.values[len(step.dtypes) - 1]] if step.dtypes else list(step.values)
    elif step.code in (StepCode.COPY, StepCode.COPY_8, StepCode.ADD_ONE, StepCode.WORK_TO):
        places = [step.values[0]]
    elif step.code == StepCode.READ_ROW:
        places = [step.values[1]]
    elif step.code == StepCode.CALL:
        places = list(step.values)
    else:
        places = []
    return [number for number in places if number >= 0]
