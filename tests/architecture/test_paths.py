"""The pictures of the paths through the code agree with their table, and the table with the sources."""

import re
import runpy

import pytest

from tests.architecture.layers import ROOT

PICTURE = runpy.run_path(str(ROOT / "docs" / "draw_paths.py"))
PATHS, WIDTH = PICTURE["PATHS"], PICTURE["WIDTH"]


def defines(text, name):
    """Return True if a Python or Cython source defines a function, method or class `name`."""
    return bool(re.search(rf"^\s*(?:async )?(?:def|class|cp?def\b[^=\n(]*?) \*?{name}\b\s*[(:]", text, re.M))


@pytest.mark.parametrize("name", PATHS)
def test_modules_and_symbols_exist(name):
    missing = []
    for _, place in PATHS[name][1]:
        module, symbol = PICTURE["split_place"](place)
        file = ROOT / module
        text = file.read_text() if file.is_file() else ""
        if not text or not all(defines(text, part) for part in symbol.split(".") if part):
            missing.append(place)
    assert missing == []


@pytest.mark.parametrize("name", PATHS)
def test_pictures_are_those_of_the_table(name):
    file = PICTURE["FOLDER"] / f"{name}.svg"
    assert file.read_text() == PICTURE["draw"](*PATHS[name]), "python docs/draw_paths.py draws it anew"


def test_architecture_shows_each_picture_once():
    shown = re.findall(r"!\[[^\]]+\]\(docs/paths/(\w+)\.svg\)", (ROOT / "ARCHITECTURE.md").read_text())
    assert shown == list(PATHS)
    assert sorted(file.stem for file in PICTURE["FOLDER"].iterdir()) == sorted(PATHS)


@pytest.mark.parametrize("name", PATHS)
def test_labels_and_boxes_fit(name):
    character = PICTURE["CHARACTER"]
    for label, place in PATHS[name][1]:
        assert PICTURE["LABEL"] + len(label) * character <= PICTURE["PLACE"], label
        assert PICTURE["PLACE"] + len(place) * character + 16 <= WIDTH - PICTURE["MARGIN"], place


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("async def read(self):", "read", True),
        ("class Swapper(Base):", "Swapper", True),
        ("cdef class StepMachine(StepState):", "StepMachine", True),
        ("    cpdef bint is_swappable(self, value) except -1:", "is_swappable", True),
        ("cdef inline Endpoint* match(", "match", True),
        ("cdef inline Endpoint** find(", "find", True),
        ("found = read(text)", "read", False),
        ("def read_all(self):", "read", False),
        ("cdef int size = read(text)", "read", False),
    ],
)
def test_definitions_are_found(text, name, found):
    assert defines(text, name) is found
