"""Legality of a graph at each stage of the pipeline: a table, and the loop for checking a graph.

A fact is a small function which raises GraphError, or returns a complaint (problem, wanted, got) about an operation.
A new stage or fact is a line in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base import dtypes
from ..base.errors import DtypeError, GraphError
from .definition import definition_of
from .frames import assign_frames
from .gradient_overrides import OVERRIDE
from .graph import Graph
from .operation import Operation
from .region import Region
from .structured import SavedOutput, is_structured, num_results, saved_outputs
from .tensor import Tensor
from .traits import STRUCTURED, Role

Complaint = tuple[str, Any, Any] | None

OF_ALL_TYPES = frozenset({"colocate", OVERRIDE})  # attributes that scopes give to operations of any type
Fact = Callable[[Operation], Complaint]

_MISTAKE = "if no operation was made or changed by hand, this is a mistake of a pass; please report it"


@dataclass(frozen=True, slots=True)
class Stage:
    """The legal contents of a graph between two passes.

    Attributes
    ----------
    forbidden : frozenset of str
        Forbidden operation types; all other declared types are legal.
    facts : sequence of callable
        Facts about each operation.
    of_role : mapping of Role to sequence of callable
        Facts about the operations of a role.
    whole : sequence of callable
        Checks of the list of all operations; they raise GraphError.
    """

    forbidden: frozenset[str]
    facts: Sequence[Fact]
    of_role: Mapping[Role, Sequence[Fact]] = field(default_factory=dict)
    whole: Sequence[Callable[[list[Operation]], object]] = ()


def _registered_by_name(op: Operation) -> Complaint:
    if op.graph._by_name.get(op.name) is not op:
        return "an operation is not the one its graph has by that name", op.name, op.graph._by_name.get(op.name)
    return None


def _inputs_in_scope(op: Operation) -> Complaint:
    return _first_outside(op.region, op.inputs, "an input")


def _first_outside(region: Region, tensors: Sequence[Tensor], role: str) -> Complaint:
    """Return a complaint about the first tensor outside the graph, not an output, or out of scope."""
    for tensor in tensors:
        made = tensor.op
        # By identity: a pass may leave an operation behind whose name another one has now.
        if made.graph is not region.graph or made.graph._by_name.get(made.name) is not made:
            return f"{role} is not in the graph", "a tensor of the graph", tensor
        if made.outputs[tensor.index] is not tensor:
            return f"{role} is not an output of the operation it names", made.outputs[tensor.index], tensor
        if not region.sees(tensor):
            wanted = f"a tensor of the {region.path()} or of a region around it"
            return f"{role} is out of scope", wanted, f"{tensor.name} of the {made.region.path()}"
    return None


def _controls_in_scope(op: Operation) -> Complaint:
    for control in op.control_inputs:
        if op.graph._by_name.get(control.name) is not control or not control.region.encloses(op.region):
            where = f"an operation of the {op.region.path()} or of a region around it"
            return "a control input is out of scope", where, f"{control.name} of the {control.region.path()}"
    return None


def _fits_signature(op: Operation) -> Complaint:
    """Return a complaint if the number or the dtypes of the inputs do not fit the signature."""
    # Conds and Whiles have any number of inputs and facts of their own.
    if is_structured(op):
        return None
    signature = definition_of(op.type).signature
    flat = signature.flat(len(op.inputs))
    if len(flat) != len(op.inputs):
        return "an operation has the wrong number of inputs", [p.name for p in signature.inputs], len(op.inputs)
    try:
        signature.check([(p, t.dtype) for p, t in zip(flat, op.inputs, strict=True)], op.name)
    except DtypeError as error:
        return error.what, error.wanted, error.got
    return None


def _only_owners_have_regions(op: Operation) -> Complaint:
    """Return a complaint if regions belong to another type than Cond and While, or owner and parent do not agree."""
    if not op.regions:
        return None
    if op.role not in STRUCTURED:
        return "an operation owns regions", "regions in Cond and While alone", op.type
    for region in op.regions:
        if region.owner is not op or region.parent is not op.region:
            return "a region is not where its owner is", op.region, region.parent
    return None


def _params_belong(op: Operation) -> Complaint:
    if not any(t is op.outputs[0] for t in op.region.params):
        return "a Param is not a parameter of its region", op.region.params, op
    return None


def _dtype_names(tensors: Sequence[Tensor]) -> list[str]:
    return [t.dtype.name for t in tensors]


def _cond_agrees(op: Operation) -> Complaint:
    """Return a complaint if predicate, branches and results of a Cond do not agree."""
    if len(op.inputs) != 1 or op.inputs[0].dtype not in (dtypes.bool_, dtypes.int32):
        return "a Cond has one bool or int32 predicate", "bool or int32", _dtype_names(op.inputs)
    if not op.regions or (op.inputs[0].dtype is dtypes.bool_ and len(op.regions) != 2):
        return "a Cond has the wrong number of branches", "two, or one or more for an int32", len(op.regions)
    for region in op.regions:
        if region.params:
            return "a branch has parameters", [], region.params
        complaint = _results_agree(op, region, _dtype_names(op.outputs[: num_results(op)]))
        if complaint:
            return complaint
    return None


def _while_agrees(op: Operation) -> Complaint:
    if len(op.regions) != 2:
        return "a While has a predicate and a body", 2, len(op.regions)
    variables = _dtype_names(op.outputs[: num_results(op)])
    for what, tensors in (("initial values", op.inputs), *((f"{r.role} parameters", r.params) for r in op.regions)):
        if _dtype_names(tensors) != variables:
            return f"the {what} of a While do not agree with its results", variables, _dtype_names(tensors)
    return _results_agree(op, op.regions[0], ["bool"]) or _results_agree(op, op.regions[1], variables)


def _results_agree(op: Operation, region: Region, wanted: list[str]) -> Complaint:
    if _dtype_names(region.results) != wanted:
        return f"the results of the {region.role} do not agree with {op.name}", wanted, _dtype_names(region.results)
    return _first_outside(region, region.results, f"a result of the {region.role}")


_EXTRA_KINDS = {Role.COND: ("maybe",), Role.WHILE: ("series", "trip")}


def _extras_agree(op: Operation) -> Complaint:
    for extra, output in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
        complaint = _extra_agrees(op, extra, output)
        if complaint:
            return complaint
    return None


def _extra_agrees(op: Operation, extra: SavedOutput, output: Tensor) -> Complaint:
    """Return a complaint if kind, value, dtype, branch or scope of a saved value is wrong."""
    if extra.kind not in _EXTRA_KINDS[op.role]:
        return "a saved value is of the wrong kind", _EXTRA_KINDS[op.role], extra.kind
    if (extra.value is None) != (extra.kind == "trip"):
        return "a saved value has no value", "a tensor, unless it is a trip count", extra
    # A saved value without a value is a trip count, as checked above.
    wanted = dtypes.int64 if extra.value is None else dtypes.series if extra.kind == "series" else extra.value.dtype
    if output.dtype is not wanted:
        return "a saved value has the wrong dtype", wanted, output.dtype
    if op.is_cond and not 0 <= extra.branch < len(op.regions):
        return "a saved value is of a branch that is not there", f"0 to {len(op.regions) - 1}", extra.branch
    region = op.regions[extra.branch if op.is_cond else 1]
    return _first_outside(region, [t for t in (extra.value, extra.index) if t is not None], "a saved value")


def _merge_has_inputs(op: Operation) -> Complaint:
    return None if op.inputs else ("a Merge has no inputs", "at least one", 0)


def _in_root(op: Operation) -> Complaint:
    if op.region is not op.graph.root:
        return "an operation is in a region", "the root region", op.region.path()
    return None


def _attrs_are_declared(op: Operation) -> Complaint:
    """Return a complaint about attributes that neither the type nor all types have; passes leave notes instead."""
    unknown = sorted(op.attrs.keys() - op.definition.attrs.keys() - OF_ALL_TYPES)
    if unknown:
        return "an attribute is not declared by the type", "attributes of the definition, or notes", ", ".join(unknown)
    return None


_ANYWHERE = (
    _registered_by_name,
    _attrs_are_declared,
    _inputs_in_scope,
    _controls_in_scope,
    _fits_signature,
    _only_owners_have_regions,
)
_PRIMITIVE = (*_ANYWHERE, _in_root)
_OF_ROLE: Mapping[Role, Sequence[Fact]] = {Role.MERGE: (_merge_has_inputs,)}

# Each stage forbids what its passes have replaced, and what only later passes make.
STAGES = {
    "structured": Stage(
        forbidden=frozenset({"SeriesPush", "SeriesExit", "TripCount", "Send", "Recv"}),
        facts=_ANYWHERE,
        of_role={
            **_OF_ROLE,
            Role.PARAM: (_params_belong,),
            Role.COND: (_cond_agrees, _extras_agree),
            Role.WHILE: (_while_agrees, _extras_agree),
        },
    ),
    "lowered": Stage(
        forbidden=frozenset({"Cond", "While", "Param", "Send", "Recv"}),
        facts=_PRIMITIVE,
        of_role=_OF_ROLE,
        whole=(assign_frames,),
    ),
    "partitioned": Stage(
        forbidden=frozenset({"Cond", "While", "Param"}),
        facts=_PRIMITIVE,
        of_role=_OF_ROLE,
        whole=(assign_frames,),
    ),
}


def complaint_of(op: Operation) -> Complaint:
    """Return the first complaint about an operation by the facts of the structured stage; None if legal."""
    rules = STAGES["structured"]
    for fact in (*rules.facts, *rules.of_role.get(op.role, ())):
        complaint = fact(op)
        if complaint is not None:
            return complaint
    return None


def check(graph: Graph, stage: str) -> None:
    """Check a graph against the table of its stage.

    Parameters
    ----------
    graph : Graph
    stage : str
        A key of ``STAGES``: "structured" before lowering, "lowered" after, "partitioned" once cut by device.

    Raises
    ------
    GraphError
        If an operation of the graph is not legal at that stage; the error names the operation.
    """
    try:
        rules = STAGES[stage]
    except KeyError:
        raise GraphError("no such stage", wanted=list(STAGES), got=stage, hint="use one of these") from None
    operations = graph.get_operations()
    for op in operations:
        _check_operation(op, stage, rules)
    for whole in rules.whole:
        whole(operations)


def _check_operation(op: Operation, stage: str, rules: Stage) -> None:
    if op.type in rules.forbidden:
        raise GraphError(f"a {stage} graph may not hold a {op.type}", operation=op, hint=_MISTAKE)
    for fact in (*rules.facts, *rules.of_role.get(op.role, ())):
        complaint = fact(op)
        if complaint is not None:
            what, wanted, got = complaint
            raise GraphError(f"{what} (in a {stage} graph)", wanted=wanted, got=got, operation=op, hint=_MISTAKE)
