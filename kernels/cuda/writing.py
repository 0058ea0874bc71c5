"""CUDA C of fused elementwise operations: one function for what an operation ``Fused`` does.

What steps and registers are stands in ``kernels/steps.py``. The columns of a register are cut into pieces where a
concat below it changes from one operand to the next. So column c of a piece needs one column of each operand, and one
thread computes it for all pieces of one length: of an LSTM's gates, all that belongs to a unit. Nothing is kept between
threads but the result of a reduction; what is needed on both sides of one is computed again.

See docs/design/0017-cuda-kernels.md.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from ..steps import STEPS, RowLoop, Step, StepCode, StepKind, StepOp, result_width

NAME = "fused"


class Input(NamedTuple):
    """What one input is.

    Attributes
    ----------
    width : int
        Its last dimension; 0 for one number.
    has_rows : bool
        Whether it has all rows. If not, it has one for all.
    is_value : bool
        Whether the number itself is given, not where it is.
    """

    width: int
    has_rows: bool
    is_value: bool = False


class Piece(NamedTuple):
    """Some columns of a register: in a loop over them, or the first as a number of the row.

    Attributes
    ----------
    register, start : int
        Which, and the column that it begins with.
    is_row : bool
        Whether it is one number, the same for all threads of a row.
    """

    register: int
    start: int
    is_row: bool


def find_widths(steps: Sequence[Step], inputs: Sequence[Input]) -> list[int]:
    """Return the width of each register: first the inputs, then one for each step.

    Raises
    ------
    ValueError
        If the operands of a step do not go together.
    """
    widths = [each.width for each in inputs]
    have_rows = [each.has_rows for each in inputs] + [True] * len(steps)
    for name, operands, columns in steps:
        given = [widths[i] for i in operands], [have_rows[i] for i in operands]
        widths.append(result_width(STEPS[name], *given, columns))
    return widths


def has_reductions(steps: Sequence[Step]) -> bool:
    """Say whether the threads of a row work together."""
    return any(STEPS[name].kind is StepKind.REDUCE for name, *_ in steps)


def is_flat(steps: Sequence[Step], inputs: Sequence[Input]) -> bool:
    """Say whether rows do not matter: elements at the same places of inputs of one width become one."""
    elementwise = all(STEPS[name].is_elementwise for name, *_ in steps)
    widths = {each.width for each in inputs if each.width}
    return elementwise and len(widths) == 1 and all(each.has_rows for each in inputs if each.width)


def write_fused(steps: Sequence[Step], inputs: Sequence[Input], results: Sequence[int], inside: bool = False) -> str:
    """Return CUDA C of the function ``fused(rows, inputs..., results...)``; it wants what is in ``prelude.cu``.

    Parameters
    ----------
    steps : sequence of (name, registers it takes, columns)
        As the attribute of the operation.
    inputs : sequence of Input
        The first registers; constants among them.
    results : sequence of int
        Registers that are written out.
    inside : bool
        Whether it is not a kernel but a function of one, ``NAME<T>``, which all threads of its only block call: others
        of its instructions write what this one reads.
    """
    return _Writer(steps, inputs, results, inside).write()


class _Writer:
    def __init__(self, steps: Sequence[Step], inputs: Sequence[Input], results: Sequence[int], inside: bool) -> None:
        self.inside = inside
        self.steps = steps
        self.inputs = inputs
        self.results = results
        self.widths = find_widths(steps, inputs)
        self.cuts = self._all_cuts()
        self.lines: list[str] = []
        self.row: dict[Piece, str] = {}  # what is known of the row, and its name

    def write(self) -> str:
        loops = self._by_length(enumerate(self.results))
        if has_reductions(self.steps):
            self.lines = ["EACH_ROW(r, rows) {"]
            for length, pieces in loops.items():
                self._add_loop(length, pieces, self._stored)
            self.lines.append("}")
        else:
            for length, pieces in loops.items():
                self._add_flat_loop(length, pieces)
        head = "template <class T> __device__ void NAME" if self.inside else f"KERNEL {NAME}"
        head += f"({', '.join(self._parameters())})"
        return _indented([head, "{", *self.lines, "}"])

    def _parameters(self) -> Iterator[str]:
        alone = "" if self.inside else "__restrict__ "
        yield "Index rows"
        for i, each in enumerate(self.inputs):
            yield f"T x{i}" if each.is_value else f"const T* {alone}x{i}"
        yield from (f"T* {alone}y{k}" for k in range(len(self.results)))

    def _all_cuts(self) -> list[list[int]]:
        """Return for each register the columns at which its pieces begin, and its width."""
        found = [[0, max(each.width, 1)] for each in self.inputs]
        for at, (name, operands, columns) in enumerate(self.steps, len(self.inputs)):
            step, width = STEPS[name], max(self.widths[at], 1)
            inner: Iterable[int] = ()
            if step.code is StepCode.SLICE:
                inner = (b - columns[0] for b in found[operands[0]])
            elif step.code is StepCode.CONCAT:
                inner = (start + b for start, i in self._side_by_side(operands) for b in found[i])
            elif step.is_elementwise:
                inner = (b for i in operands if self.widths[i] == width for b in found[i])
            found.append(sorted({0, width, *(b for b in inner if 0 < b < width)}))
        return found

    def _side_by_side(self, operands: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield each operand of a concat behind the column where it begins."""
        return zip(accumulate((self.widths[i] for i in operands), initial=0), operands)

    def _by_length(self, registers: Iterable[tuple[int, int]]) -> dict[int, list[tuple[int, Piece]]]:
        """Return the pieces of numbered registers by their length, each behind the number."""
        found: dict[int, list[tuple[int, Piece]]] = defaultdict(list)
        for number, register in registers:
            for start, stop in pairwise(self.cuts[register]):
                found[stop - start].append((number, Piece(register, start, is_row=stop - start == 1)))
        return found

    def _add_flat_loop(self, length: int, pieces: list[tuple[int, Piece]]) -> None:
        """Compute and store pieces where each thread does a column of all of them."""
        self.row = {}
        self.lines.append(f"EACH_ELEMENT(i, rows * {length}) {{")
        self.lines.append(f"Index r = i / {length}, c = i % {length};" if length > 1 else "Index r = i;")
        computed, names = self._computed([piece for _, piece in pieces])
        self.lines += [*computed, *map(self._stored, pieces, names), "}"]

    def _add_loop(self, length: int, pieces: list[tuple[int, Piece]], used: Callable[..., str]) -> None:
        """Compute pieces of a row and use them, where the threads of the row do some columns each."""
        computed, names = self._computed([piece for _, piece in pieces])
        self.lines += [f"EACH_COLUMN(c, {length}) {{", *computed, *map(used, pieces, names), "}"]

    def _stored(self, piece: tuple[int, Piece], name: str) -> str:
        k, (register, start, is_row) = piece
        return f"y{k}[{_index(self.widths[register], True, start, is_row)}] = {name};"

    def _computed(self, pieces: list[Piece]) -> tuple[list[str], list[str]]:
        """Return lines that compute pieces, and their names; what is the same in all columns is added to the row."""
        lines: list[str] = []
        names: dict[Piece, str] = {}
        both = ChainMap(names, self.row)
        for piece in self._needed(pieces):
            if piece not in both:
                line, name = self._named(piece, both)
                known, into = (self.row, self.lines) if piece.is_row else (names, lines)
                known[piece] = name
                into.extend(line)
        return lines, [both[piece] for piece in pieces]

    def _needed(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Return pieces and all that they are computed from, in that order, but for what reductions need."""
        needed: dict[int, set[Piece]] = defaultdict(set)
        for piece in pieces:
            needed[piece.register].add(piece)
        for register in range(len(self.widths) - 1, -1, -1):
            for piece in needed[register]:
                for operand in self._operands(piece):
                    needed[operand.register].add(operand)
        return [piece for register in sorted(needed) for piece in sorted(needed[register])]

    def _operands(self, piece: Piece) -> list[Piece]:
        """Return what a piece is made from at once."""
        if piece.register < len(self.inputs):
            return []
        name, operands, columns = self.steps[piece.register - len(self.inputs)]
        step = STEPS[name]
        if step.kind is StepKind.REDUCE:
            return []
        if step.code is StepCode.CONCAT:
            offset, operand = [(s, i) for s, i in self._side_by_side(operands) if s <= piece.start][-1]
            return [self._part(operand, piece.start - offset, piece.is_row)]
        start = piece.start + columns[0] if step.code is StepCode.SLICE else piece.start
        return [self._part(operand, start, piece.is_row) for operand in operands]

    def _part(self, register: int, start: int, is_row: bool) -> Piece:
        is_one = self.widths[register] <= 1
        return Piece(register, 0 if is_one else start, is_row or is_one)

    def _named(self, piece: Piece, names: Mapping[Piece, str]) -> tuple[list[str], str]:
        """Return lines that compute a piece, none if that needs none, and what it is called."""
        at = piece.register - len(self.inputs)
        if at < 0 and self.inputs[piece.register].is_value:
            return [], f"x{piece.register}"
        operands = [names[operand] for operand in self._operands(piece)]
        step = STEPS[self.steps[at][0]] if at >= 0 else None
        if step is not None and step.kind is StepKind.MOVE:
            return [], operands[0]
        name = f"{'w' if piece.is_row else 'v'}{piece.register}_{piece.start}"
        if step is None:
            each = self.inputs[piece.register]
            index = _index(each.width, each.has_rows, piece.start, piece.is_row)
            return [f"T {name} = x{piece.register}[{index}];"], name
        if isinstance(step.cuda, RowLoop):
            return [self._reduced(step, step.cuda, self.steps[at][1][0], name)], name
        assert step.cuda is not None
        kind = "bool" if step.kind is StepKind.COMPARE else "T"
        return [f"{kind} {name} = {step.cuda.format(*operands)};"], name

    def _reduced(self, step: StepOp, loop: RowLoop, register: int, name: str) -> str:
        """Add the loops of a reduction to the row; return the line that ends it."""
        begin, join = loop
        self.lines.append(f"T {name}_own = {begin};")
        for length, pieces in self._by_length([(0, register)]).items():
            self._add_loop(length, pieces, lambda _, value: f"{name}_own = {join}::of({name}_own, {value});")
        divided = f" / {self.widths[register]}" if step.code is StepCode.MEAN else ""
        return f"T {name} = over_row<{join}>({name}_own, LANE, LANES){divided};"


def _indented(lines: Iterable[str]) -> str:
    """Return C with each line as far in as it has open braces before it."""
    text, depth = "", 0
    for line in lines:
        depth -= line == "}"
        text += "    " * depth + line + "\n"
        depth += line.endswith("{")
    return text


def _index(width: int, has_rows: bool, start: int, is_row: bool) -> str:
    """Return C of where a column is that begins a piece, or (not `is_row`) is `c` behind."""
    row = ("r" if width <= 1 else f"r * {width}") if has_rows else ""
    columns = [str(start) if start else "", "c" if width > 1 and not is_row else ""]
    return " + ".join(filter(None, [row, *columns])) or "0"
