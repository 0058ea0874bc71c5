"""Operations whose samples give on a GPU the results of a CPU: `test_gpu.py` writes them to ``verified.json``."""

import json
from pathlib import Path

FILE = Path(__file__).with_name("verified.json")


def read_verified(file=FILE):
    """Return the ``device`` and the ``commit`` of each operation type that was verified."""
    return json.loads(file.read_text())


def write_verified(found, file=FILE):
    """Write the types that were verified beside those in the file."""
    text = json.dumps({**read_verified(file), **found}, indent=1, sort_keys=True)
    file.write_text(text + "\n")
