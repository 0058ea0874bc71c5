"""The table of ``tagloom info --native``: how native programs compute each operation, by dtype.

The samples of the definitions run in small loops, and the counts of the loops tell how each operation was computed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.settings import Settings
from ..ir.apply import constant
from ..ir.definition import OpDefinition, Sample, all_definitions
from ..ir.graph import Graph
from ..ir.rules.native import RunsAs
from ..ir.tensor import Tensor
from ..ir.traits import Role
from ..runtime.session.session import Session
from ..runtime.steps.report import LoopReport
from .sample_loops import build_operation, expected_results, flatten_inputs, is_numeric, loop_of

NATIVE, TRACED, CALLED, NOT = "native", "traced", "called", "not"
WAYS = (NATIVE, TRACED, CALLED, NOT)  # best first

_SAMPLES = 3  # of an operation in the dtypes of its definition
_BATCH = 32  # loops of a step
_FAMILIES = (
    (dtypes.float64, dtypes.float32, dtypes.float16, dtypes.bfloat16),
    (dtypes.complex128, dtypes.complex64),
    (dtypes.int64, dtypes.int32),
)
# Operations for which programs have instructions or registers instead of kernels.
_WITHOUT_KERNEL = frozenset({Role.COND, Role.CONST, Role.PARAM, Role.WHILE})
_SLOW = "is better called in a thread"  # ends the reason why a program gave up calling a kernel

Case = tuple[OpDefinition, Sample]


@dataclass(frozen=True, slots=True)
class NativeRow:
    """How native programs compute an operation for inputs of some dtypes.

    Attributes
    ----------
    operation : str
        Type of the operation.
    dtypes : str
        Dtypes of the inputs, each once; empty if the operation was not run.
    ways : tuple of str
        Of "native" (by a C kernel), "traced" (by the inner loops of its Python kernel), "called" (its Python kernel,
        in each iteration) and "not" (on the step machine), best first; several if samples differ.
    reason : str
        Why the operation is called, or not native; empty for other operations.
    """

    operation: str
    dtypes: str
    ways: tuple[str, ...]
    reason: str = ""


def native_table(
    patterns: Sequence[str] = (), all_dtypes: bool = True, progress: Callable[[int, int], None] | None = None
) -> list[NativeRow]:
    """Return the rows of the operations whose types match a pattern, by type.

    Parameters
    ----------
    patterns : sequence of str, optional
        Patterns of types, such as ``Sort*``, in the syntax of fnmatch; none for all operations.
    all_dtypes : bool, optional
        False for the dtypes of the samples alone, not those of other precision.
    progress : callable, optional
        Called as ``progress(done, all)`` after each step, with numbers of loops.

    Raises
    ------
    ValueError
        If a pattern matches no operation.
    """
    definitions = _match_definitions(patterns)
    cases = [case for definition in definitions for case in _cases_of(definition, all_dtypes)]
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    done = 0
    while done < len(cases):
        batch = cases[done : done + _BATCH]
        for (definition, sample), outcome in zip(batch, _run_to_end(batch), strict=True):
            if outcome is not None:
                found.setdefault((definition.type, _dtypes_of(sample)), []).append(outcome)
        done += len(batch)
        if progress is not None:
            progress(done, len(cases))
    seen = {type for type, _ in found}
    rows = [_make_row(type, names, outcomes) for (type, names), outcomes in found.items()]
    by_name = {definition.type: definition for definition in definitions}
    rows += [_row_without_loop(name, definition) for name, definition in by_name.items() if name not in seen]
    return sorted(rows, key=lambda row: row.operation)


def _match_definitions(patterns: Sequence[str]) -> list[OpDefinition]:
    """Return the definitions whose types match a pattern; ValueError for a pattern without any."""
    everything = all_definitions()
    for pattern in patterns:
        if not any(fnmatchcase(definition.type, pattern) for definition in everything):
            raise ValueError(f"no operation type matches {pattern!r}; `tagloom info --operations` lists the types")
    return [d for d in everything if not patterns or any(fnmatchcase(d.type, pattern) for pattern in patterns)]


def _cases_of(definition: OpDefinition, all_dtypes: bool) -> Iterator[Case]:
    """Yield the first samples of an operation that are numbers, and the first one in other precisions."""
    if definition.stateful and not definition.only_computes:
        return
    samples = [sample for sample in definition.samples if is_numeric(sample)][:_SAMPLES]
    seen = {_dtypes_of(sample) for sample in samples}
    yield from ((definition, sample) for sample in samples)
    for sample in samples[:1] if all_dtypes else ():
        for family in _FAMILIES:
            for dtype in family:
                other = _convert_sample(definition, sample, family, dtype)
                if _dtypes_of(other) not in seen and _is_defined(definition, other):
                    seen.add(_dtypes_of(other))
                    yield definition, other


def _convert_sample(
    definition: OpDefinition, sample: Sample, family: Sequence[dtypes.DType], dtype: dtypes.DType
) -> Sample:
    """Return a sample whose inputs of a family of dtypes have another dtype of the family, where that is free."""
    signature = definition.signature
    by_place = {id(p): signature.is_variable(p.type) for p in signature.inputs}

    def convert_input(x: Any, is_free: bool) -> Any:
        if isinstance(x, list):
            return [convert_input(each, is_free) for each in x]
        array = np.asarray(x)
        return array.astype(dtype.numpy) if is_free and dtypes.as_dtype(array.dtype) in family else x

    inputs = [convert_input(x, by_place[id(p)]) for p, x in zip(signature.inputs, sample.inputs, strict=True)]
    attrs = {
        name: dtype if isinstance(value, dtypes.DType) and value in family else value
        for name, value in sample.attrs.items()
    }
    return replace(sample, inputs=inputs, attrs=attrs)


def _is_defined(definition: OpDefinition, sample: Sample) -> bool:
    """Return True if an operation takes a sample's inputs, with the shapes that its results should have."""
    try:
        with Graph().as_default():
            made = build_operation(definition, sample, constant).outputs
        wanted = [np.shape(value) for value in expected_results(sample)]
    except Exception:  # an operation refuses dtypes by a TagloomError, functions of other libraries as they like
        return False
    return all(not t.shape.is_fully_known or t.shape.as_tuple() == w for t, w in zip(made, wanted, strict=True))


def _dtypes_of(sample: Sample) -> str:
    """Return the names of a sample's input dtypes, each once."""
    return ", ".join(dict.fromkeys(dtypes.as_dtype(array.dtype).name for array in flatten_inputs(sample.inputs)))


def _run_to_end(cases: Sequence[Case]) -> list[tuple[str, str] | None]:
    """Return a way and its reason for each case; None where the operation does not compute the sample."""
    try:
        return asyncio.run(_run_loops(cases))
    except Exception:  # of one of the samples: some kernels, and expected results, exist in few dtypes
        if len(cases) == 1:
            return [None]
        middle = len(cases) // 2
        return _run_to_end(cases[:middle]) + _run_to_end(cases[middle:])


async def _run_loops(cases: Sequence[Case]) -> list[tuple[str, str] | None]:
    """Return a way and its reason for each case, from one step with a loop for each."""
    feeds: dict[Tensor, Any] = {}
    with Graph().as_default() as graph:
        loops = [loop_of(definition, sample, feeds) for definition, sample in cases]
    with np.errstate(all="ignore"):
        async with Session(graph, settings=Settings(llvm=False)) as session:
            await session.run(loops, feeds)
            reports = {loop.name: loop for loop in session.report().loops}
    return [_find_way(definition, reports[ys[0].op.name]) for (definition, _), ys in zip(cases, loops, strict=True)]


def _find_way(definition: OpDefinition, loop: LoopReport) -> tuple[str, str]:
    """Return how a loop computed its operation, and the reason."""
    if loop.limited_by != "native":
        reason = re.sub(rf"^\S+: |^\S+ \((?:{definition.type}|While)\) ", "", loop.not_native or "")
        return (CALLED if reason.endswith(_SLOW) else NOT), reason.removeprefix(f"{definition.type} ")
    if loop.called:
        return CALLED, loop.untraced[0]
    return (TRACED if loop.traced else NATIVE), ""


def _make_row(type: str, names: str, outcomes: Iterable[tuple[str, str]]) -> NativeRow:
    """Return the row of the outcomes of samples with the same dtypes."""
    outcomes = sorted(set(outcomes), key=lambda outcome: WAYS.index(outcome[0]))
    ways = tuple(dict.fromkeys(way for way, _ in outcomes))
    return NativeRow(type, names, ways, "; ".join(dict.fromkeys(reason for _, reason in outcomes if reason)))


def _row_without_loop(name: str, definition: OpDefinition) -> NativeRow:
    """Return the row of an operation without a sample of numbers."""
    if definition.role in _WITHOUT_KERNEL or definition.has(RunsAs):
        return NativeRow(name, "", (NATIVE,))
    if definition.kernel is None:
        return NativeRow(name, "", (NOT,), "is done by the executors")
    kinds = {p.type for p in (*definition.signature.inputs, *definition.signature.outputs)}
    if not definition.only_computes:
        reason = "does more than compute"
    elif handles := sorted(kinds & {"resource", "series"}):
        reason = f"has values of dtype {handles[0]}"
    else:
        reason = "has values that are no numbers" if definition.samples else "has no sample"
    return NativeRow(name, "", (NOT,), reason)
