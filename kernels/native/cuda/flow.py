"""Control flow and moves in kernels of native programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..program import Code, Instruction
from .emitting import emits_code
from .values import Value, c_type

if TYPE_CHECKING:
    from .writer import Writer


@emits_code(Code.COMPUTE)
def _emit_compute(w: Writer, i: int, each: Instruction) -> None:
    assert each.computation is not None
    w.compute(each.computation, each)


@emits_code(Code.MOVE)
def _emit_move(w: Writer, i: int, each: Instruction) -> None:
    """Copy registers to registers, as if at once: a source that another copy overwrites is saved first."""
    pairs = [pair for pair in zip(each.inputs, each.outputs, strict=True) if pair[0] != pair[1]]
    sources = [w.value(source) for source, _ in pairs]
    targets = [w.make(target, value.shape) for (_, target), value in zip(pairs, sources, strict=True)]
    memories = [target.memory for target in targets]
    for k, source in enumerate(sources):
        others = memories[:k] + memories[k + 1 :]
        if source.memory and source.memory in others:
            sources[k] = _save_array(w, f"m{i}_{k}", source)
    for source, target in zip(sources, targets, strict=True):
        if not source.is_element:
            _copy_array(w, source, target)
    _move_elements(w, [(s, t) for s, t in zip(sources, targets, strict=True) if s.is_element])


def _copy_array(w: Writer, source: Value, target: Value) -> None:
    w.note_access(source)
    w.note_access(target, written=True)
    w.assign(target, f"{source.code}[i]")


def _save_array(w: Writer, name: str, source: Value) -> Value:
    """Return a copy of an array in new memory with a name."""
    saved = Value(source.dtype, source.shape, w.allocate_memory(name, source.dtype, source.size), name)
    _copy_array(w, source, saved)
    return saved


def _move_elements(w: Writer, pairs: Sequence[tuple[Value, Value]]) -> None:
    """Copy variables to variables, through temporaries for sources that are targets as well."""
    codes = {target.code for _, target in pairs}
    saved = [k for k, (source, _) in enumerate(pairs) if source.code in codes]
    # a scope for the temporaries, if any: several moves may use equal names
    w.lines += ["{"] * bool(saved)
    for k in saved:
        w.add_line(f"{c_type(pairs[k][0].dtype)} t{k} = {pairs[k][0].code};")
    for k, (source, target) in enumerate(pairs):
        w.add_line(f"{target.code} = {f't{k}' if k in saved else source.code};")
    w.lines += ["}"] * bool(saved)


@emits_code(Code.COUNT)
def _emit_count(w: Writer, i: int, each: Instruction) -> None:
    w.add_line(f"{w.value(each.outputs[0]).code} += 1;")


@emits_code(Code.JUMP)
def _emit_jump(w: Writer, i: int, each: Instruction) -> None:
    """Jump; a jump back counts an iteration, and suspends a launch that has used up its budget of iterations."""
    (target,) = each.targets
    if target <= i:
        w.check_failures(i)
        w.add_barrier_if_needed()
        w.add_line(f"{_loop_counters(w, each.name)[1]} += 1;")
        w.lines += ["if (--budget <= 0)", f"    LEAVE(SUSPENDED, {target})"]
    _go_to(w, str(target))


@emits_code(Code.UNLESS)
def _emit_unless(w: Writer, i: int, each: Instruction) -> None:
    """Leave a loop; the condition is the same in all threads."""
    w.add_barrier_if_needed()
    w.lines += [f"if (!{w.value(each.inputs[0]).code}) {{", f"{_loop_counters(w, each.name)[0]} += 1;"]
    _go_to(w, str(each.targets[0]))
    w.add_line("}")


@emits_code(Code.SELECT)
def _emit_select(w: Writer, i: int, each: Instruction) -> None:
    """Jump to the target whose number an element has, a bool as 0 or 1; to the last target for any other number."""
    choice, last = w.value(each.inputs[0]).code, len(each.targets) - 1
    chosen = str(each.targets[last])
    for k in reversed(range(last)):
        chosen = f"{choice} == {k} ? {each.targets[k]} : {chosen}"
    _go_to(w, chosen)


def _go_to(w: Writer, target: str) -> None:
    # a block begins without pending accesses, whichever jump leads there
    w.add_barrier_if_needed()
    w.lines += [f"pc = {target};", "break;"]


def _loop_counters(w: Writer, loop: str) -> tuple[str, str]:
    """Return the variables that count a loop's exits and its jumps back, declared on first use."""
    place = list(w.made.loops).index(loop) if loop in w.made.loops else len(w.made.loops)
    names = f"ended{place}", f"back{place}"
    if loop not in w.made.loops:
        w.made.loops[loop] = w.declare_state("long long", names[0]), w.declare_state("long long", names[1])
    return names
