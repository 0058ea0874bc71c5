"""Epilogues of convolutions: add a bias, apply ReLU or a mask, sum the rows of an input, before results are stored.

In the field the epilogue is the work on a tile of a product before the tile is stored. The results are megabytes, which
separate operations would read and write once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...ir.builder import Builder
from ...ir.definition import definition_of
from ...ir.operation import Operation
from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...ir.program import Program, copy_program
from ...ir.rules.fusing import AddsBias, AppliesMask, SumsRows
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from .masks import above_zero, is_zero, mask_of
from .rules import steps_of_user

Waiting = dict[Operation, list[Operation]]
MOST_USERS = 1000  # operations after a sum to search before the search gives up


def add_epilogues(program: Program, has_own_kernel: HasOwnKernel = has_no_own_kernel) -> Program:
    """Return the program with convolutions that include the operations after them; `program` is used up.

    Convolutions are left alone if these, or operations close to them, have registered kernels.
    """
    hosts = [op for op in program.graph.root.walk() if _may_have_one(op) and not op.control_inputs]
    hosts = [op for op in hosts if not any(map(has_own_kernel, _with_users(op)))]
    kept = count_noninput_uses(program) if hosts else Counter[Tensor]()
    waiting = _find_control_users(program) if hosts else {}
    moved = dict(pair for op in hosts for pair in _fuse_epilogue(op, kept, waiting))
    substitute(program, moved)
    return copy_program(program) if moved else program


def _may_have_one(op: Operation) -> bool:
    return any(map(op.definition.has, (AddsBias, AppliesMask, SumsRows)))


def _with_users(op: Operation) -> Iterator[Operation]:
    """Yield an operation, the users of its result, their users, and the other users of its last input."""
    yield op
    yield from op.inputs[-1]._consumers
    for user in op.outputs[0]._consumers:
        yield user
        yield from (later for tensor in user.outputs for later in tensor._consumers)


def _find_control_users(program: Program) -> Waiting:
    """Return the operations that wait for an operation by a control input."""
    waiting: Waiting = {}
    for op in program.graph.root.walk():
        for before in op.control_inputs:
            waiting.setdefault(before, []).append(op)
    return waiting


def _fuse_epilogue(op: Operation, kept: Counter[Tensor], waiting: Waiting) -> list[tuple[Tensor, Tensor]]:
    """Return the tensors replaced by an operation with an epilogue, each with its replacement."""
    sums, bias, mask = op.rule(SumsRows), op.rule(AddsBias), op.rule(AppliesMask)
    if sums is not None:
        return _fuse_sum(op, sums.type, waiting)
    if bias is not None:
        return _fuse_bias(op, bias.type, kept)
    return [] if mask is None else _fuse_mask(op, mask.type, kept)


def _fuse_sum(op: Operation, joint: str, waiting: Waiting) -> list[tuple[Tensor, Tensor]]:
    """Return the results of `op` and of a sum of its last input, each with its replacement by a `joint` operation."""
    rows = op.inputs[-1]
    if not rows.rank or rows.rank < 2 or rows.shape[-1] is None:
        return []
    for user in rows._consumers:
        total = user.outputs[0] if user.definition is definition_of("SumTo") else None
        if total is None or user.region is not op.region or user.device != op.device or user.control_inputs:
            continue
        # If `op` waited for the sum, an operation for both would wait for itself.
        if total.rank == 1 and total.shape[0] == rows.shape[-1] and not _leads_to(total.op, op, waiting):
            both = Builder(op.region, op, "summed").emit(joint, *op.inputs, **op.attrs).outputs
            for one, other in ((op, total.op), (total.op, op)):  # from now on waiting for one means both
                waiting.setdefault(one, []).append(other)
            return [(op.outputs[0], both[0]), (total, both[1])]
    return []


def _leads_to(first: Operation, op: Operation, waiting: Waiting) -> bool:
    """Return True if `op` waits for `first`, or if the search gives up."""
    reached, work = {first}, [first]
    while work:
        here = work.pop()
        for user in [*waiting.get(here, ()), *(user for t in here.outputs for user in t._consumers)]:
            # A user in a region stands for the Cond or While around it, which waits for all its captures.
            while user.region is not op.region and user.region.owner is not None:
                user = user.region.owner
            if user is op or len(reached) > MOST_USERS:
                return True
            if user not in reached:
                reached.add(user)
                work.append(user)
    return False


def _fuse_mask(op: Operation, masking: str, kept: Counter[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return the masked result of `op`, with its replacement by a `masking` operation; none without a mask."""
    result = op.outputs[0]
    mask = mask_of(result, kept)
    where = None if mask is None else above_zero(mask.inputs[0].op)
    if mask is None or where is None or where.dtype is not result.dtype:
        return []
    if where.shape != result.shape or not where.shape.is_fully_known:
        return []
    extended = Builder(mask.region, op, "masked").tensor(masking, *op.inputs, where, **op.attrs)
    return [(mask.outputs[0], extended)]


def _fuse_bias(op: Operation, biased: str, kept: Counter[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return the result after a bias, and a ReLU if any, with its replacement of type `biased`; none without a bias."""
    result = op.outputs[0]
    bias = _joined_by("add", result, kept)
    channels = result.shape[-1] if result.rank else None
    if bias is None or channels is None or bias.rank != 1 or bias.shape[0] != channels:
        return []
    (user,) = result._consumers
    last = user.outputs[0]
    number = _joined_by("maximum", last, kept)
    relu = number is not None and is_zero(number)
    if relu:
        (after,) = last._consumers
        last = after.outputs[0]
    extended = Builder(user.region, op, "biased").tensor(biased, *op.inputs, bias, **op.attrs, relu=relu)
    return [(last, extended)]


def _joined_by(step: str, tensor: Tensor, kept: Counter[Tensor]) -> Tensor | None:
    """Return the other operand of the only use of a tensor, if the user is a single step of this name."""
    _, steps = steps_of_user(tensor, kept)
    if [name for name, *_ in steps] != [step]:
        return None
    first, second = steps[0][1]
    other = second if first is tensor else first
    return other if isinstance(other, Tensor) else None
