"""Imports point down, and nothing is left lying about."""

import re
import runpy

import pytest

from tests.architecture.layers import LAYERS, ROOT, imports, sources, violations

CHECKED = ("engine", "kernels", "streams", "swap", "tests", "bench", "examples")
FORBIDDEN = {
    "unfinished work": re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"),
    "a path of one machine": re.compile(r"[\"'\s](/ho" + r"me/|/ro" + r"ot/|/Us" + r"ers/|/wo" + r"rk/)"),
    "a folder imported by its own name": re.compile(r"^\s*(from|import|cimport) (engine|kernels|streams|swap)\b", re.M),
}


def files():
    paths = (p for folder in CHECKED for p in sorted((ROOT / folder).rglob("*")))
    return [p for p in paths if p.suffix in (".py", ".pyi", ".pyx", ".pxd", ".h")]


def test_imports_point_down():
    wrong = [v for path, module in sources() for v in violations(path.read_text(), module, path.suffix)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_sources_are_free_of(what):
    found = [
        f"{p.relative_to(ROOT)}: {m.group().strip()}" for p in files() for m in FORBIDDEN[what].finditer(p.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "module", "suffix", "names"),
    [
        ("from ..base.errors import GraphError", "tagloom.ir.graph", ".py", {"tagloom.base.errors.GraphError"}),
        ("from . import nest", "tagloom.base.__init__", ".py", {"tagloom.base.nest"}),
        ("def f():\n    import tagloom.runtime", "tagloom.ir.graph", ".py", {"tagloom.runtime"}),
        (
            "from .plan cimport Node, Edge",
            "tagloom.kernels.scheduler.step",
            ".pyx",
            {"tagloom.kernels.scheduler.plan.Node", "tagloom.kernels.scheduler.plan.Edge"},
        ),
        (
            "cimport numpy as cnp, tagloom.kernels.cpu.x",
            "tagloom.kernels.scheduler.step",
            ".pxd",
            {"numpy", "tagloom.kernels.cpu.x"},
        ),
        (
            "from .a cimport b, c as d\nfrom .e cimport (  # f\n    g,\n    h,\n)\ncdef int from_i",
            "tagloom.kernels.cpu.x",
            ".pyx",
            {f"tagloom.kernels.cpu.{name}" for name in ("a.b", "a.c", "e.g", "e.h")},
        ),
    ],
)
def test_imports_are_found(text, module, suffix, names):
    assert imports(text, module, suffix) == names


@pytest.mark.parametrize(
    ("text", "module", "suffix", "wrong"),
    [
        ("from ..frontend import cond", "tagloom.ir.graph", ".py", True),
        ("from ..lower import lower", "tagloom.gradients.reverse", ".py", True),
        ("from ...ir import graph", "tagloom.kernels.cpu.blas", ".pyx", True),
        ("import tagloom", "tagloom.runtime.session", ".py", True),
        ("from .. import base", "tagloom.ir.graph", ".py", False),
        ("from .other import name", "tagloom.frontend.control.loops", ".py", False),
        ("from .runtime.session import Session", "tagloom.__init__", ".py", False),
        ("x = 1", "tagloom.cellar.wine", ".py", True),
        ("from ..core.table cimport Node", "tagloom.kernels.memory.pool", ".pyx", False),
        ("from ..memory.pool cimport Pool", "tagloom.kernels.core.table", ".pxd", True),
        ("def f():\n    from ..scheduler import plan", "tagloom.kernels.cpu.arrays", ".pyx", True),
        ("from ..cpu import registry", "tagloom.kernels.cuda.registry", ".py", True),
        ("from ..kernels.core.table import Kind", "tagloom.ir.graph", ".py", True),
        ("from ...kernels.core.table import Kind", "tagloom.compile.plan.plan", ".py", False),
    ],
)
def test_violations_are_found(text, module, suffix, wrong):
    assert bool(violations(text, module, suffix)) is wrong


def test_the_picture_is_that_of_the_table():
    picture = runpy.run_path(str(ROOT / "docs" / "draw_layers.py"))
    assert picture["FILE"].read_text() == picture["draw"](LAYERS), "python docs/draw_layers.py draws it anew"
