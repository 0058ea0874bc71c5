"""On which GPU the samples of each operation gave what they should, as the tests marked ``gpu`` wrote it down."""

from __future__ import annotations

import json
from pathlib import Path

from ..ir.definition import OpDefinition, all_definitions

FILE = Path(__file__).with_name("verified.json")
_ELSEWHERE = {
    "executor": "done by the executors",
    "store": "keeps values where they are",
    "host": "runs on the host",
}


def read_verified(file: Path = FILE) -> dict[str, dict[str, str]]:
    """Return, for each operation type that was verified, the ``device`` and the ``commit``."""
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def write_verified(found: dict[str, dict[str, str]], file: Path = FILE) -> None:
    """Write down what was verified, beside what the file has of other operations."""
    text = json.dumps({**read_verified(file), **found}, indent=1, sort_keys=True)
    file.write_text(text + "\n")


def describe_operations(file: Path = FILE) -> list[tuple[str, str]]:
    """Return each operation type, and whether it was verified on a GPU, on which and at which commit.

    Parameters
    ----------
    file : Path
        As `write_verified` leaves it.

    Returns
    -------
    list of (str, str)
        By name.
    """
    known = read_verified(file)
    return [(d.type, _describe_verification(d, known.get(d.type))) for d in all_definitions()]


def _describe_verification(definition: OpDefinition, found: dict[str, str] | None) -> str:
    if definition.runs_on != "device":
        return _ELSEWHERE[definition.runs_on]
    return f"verified on {found['device']} at {found['commit'][:12]}" if found else "not verified on a GPU"
