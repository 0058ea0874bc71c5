"""The source of a kernel, from the parts that were written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .values import c_type

if TYPE_CHECKING:
    from .writer import Writer

NAME = "native"
_HEADER = 3  # words of the state before the variables: status, next block, register without room


def text_of(w: Writer) -> tuple[str, int]:
    """Return the source, to be compiled after ``native.cu``, and the number of the kernel's parameters."""
    # constant arrays are named a0, a1, ...; those that only determined shapes do not occur in the lines
    used = set(re.findall(r"\ba\d+\b", "\n".join(w.lines)))
    constants = [f"static __device__ const {text}" for name, text in w.arrays.items() if name in used]
    functions = [text.replace("NAME", name, 1) for text, name in w.functions.items()]
    parameters = list(_list_parameters(w))
    body = ["{", *_opening_lines(w), "for (;;) {", "switch (pc) {", *w.lines, "}", "}", *_closing_lines(w), "}"]
    kernel = [f"KERNEL {NAME}({', '.join(parameters)})", *body]
    return "\n".join([*constants, *functions, *_indent_lines(kernel)]) + "\n", len(parameters)


def _list_parameters(w: Writer) -> Iterator[str]:
    """Yield the declarations of the kernel's parameters, in the order of the launch's arguments."""
    yield from ("long long* state", "long long budget", "unsigned char* memory")
    yield from (f"const {c_type(each.dtype)}* c{k}" for k, each in enumerate(w.made.constants))
    yield from w.parameters
    yield from (f"{c_type(dtype)}* p{register}" for register, (_, dtype) in w.made.results.items())


def _opening_lines(w: Writer) -> Iterator[str]:
    """Yield the lines at the start of a launch."""
    yield "int status = SUSPENDED, pc = (int)state[1];"
    yield from ["bool failed = false;"] * w.may_fail
    # a word of 8 bytes for each variable, whatever its type
    for word, (kind, name) in enumerate(w.variables, _HEADER):
        yield f"{kind} {name} = *(const {kind}*)(state + {word});"
    yield from w.pointers
    yield "__syncthreads();"  # all threads read the state before any writes to it


def _closing_lines(w: Writer) -> Iterator[str]:
    """Yield the lines at the end of a launch."""
    yield from ("leave:", "if (threadIdx.x == 0) {", "state[0] = status;", "state[1] = pc;")
    for word, (kind, name) in enumerate(w.variables, _HEADER):
        yield f"*({kind}*)(state + {word}) = {name};"
    yield "}"


def _indent_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines, each indented by the number of open braces."""
    depth = 0
    for line in lines:
        depth -= line.startswith("}")
        yield "    " * (depth - line.endswith(":")) + line
        depth += line.endswith("{")
