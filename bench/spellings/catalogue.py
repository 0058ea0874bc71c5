"""All programs by name, and the cases of a run."""

from __future__ import annotations

from collections.abc import Iterator

from ..experiment import Case
from .cells import CELLS
from .decoding import DECODING
from .filters import FILTERS
from .program import VARIANTS, Program
from .solvers import SOLVERS

PROGRAMS: dict[str, Program] = {**SOLVERS, **FILTERS, **CELLS, **DECODING}


def spellings(program: Program) -> Iterator[str]:
    """Yield each spelling with a batch of known and of unknown size, and the first under each other variant."""
    first, *_ = program.spellings
    for name in program.spellings:
        for variant in VARIANTS:
            if name == first or variant in ("", "unknown_batch"):
                yield f"{name} {variant}".strip()


def cases(size: str, *names: str) -> tuple[Case, ...]:
    """Return the cases of the programs of these names, of value and gradient."""
    return tuple(
        {"program": name, "spelling": spelling, "gradient": gradient, "size": size}
        for name in names
        for gradient in ((False, True) if PROGRAMS[name].trained else (False,))
        for spelling in spellings(PROGRAMS[name])
    )
