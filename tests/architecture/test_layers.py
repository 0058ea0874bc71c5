"""Imports point down, and nothing is left lying about."""

import re

import pytest

from tests.architecture.layers import ROOT, imports, sources, violations

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
        ("from ..base.errors import GraphError", "tagflow.ir.graph", ".py", {"tagflow.base.errors.GraphError"}),
        ("from . import nest", "tagflow.base.__init__", ".py", {"tagflow.base.nest"}),
        ("def f():\n    import tagflow.runtime", "tagflow.ir.graph", ".py", {"tagflow.runtime"}),
        (
            "from .plan cimport Node, Edge",
            "tagflow.kernels.scheduler.step",
            ".pyx",
            {"tagflow.kernels.scheduler.plan.Node", "tagflow.kernels.scheduler.plan.Edge"},
        ),
        (
            "cimport numpy as cnp, tagflow.kernels.cpu.x",
            "tagflow.kernels.scheduler.step",
            ".pxd",
            {"numpy", "tagflow.kernels.cpu.x"},
        ),
        (
            "from .a cimport b, c as d\nfrom .e cimport (  # f\n    g,\n    h,\n)\ncdef int from_i",
            "tagflow.kernels.cpu.x",
            ".pyx",
            {f"tagflow.kernels.cpu.{name}" for name in ("a.b", "a.c", "e.g", "e.h")},
        ),
    ],
)
def test_imports_are_found(text, module, suffix, names):
    assert imports(text, module, suffix) == names


@pytest.mark.parametrize(
    ("text", "module", "suffix", "wrong"),
    [
        ("from ..frontend import cond", "tagflow.ir.graph", ".py", True),
        ("from ..lower import lower", "tagflow.gradients.reverse", ".py", True),
        ("from ...ir import graph", "tagflow.kernels.cpu.blas", ".pyx", True),
        ("import tagflow", "tagflow.runtime.session", ".py", True),
        ("from .. import base", "tagflow.ir.graph", ".py", False),
        ("from .other import name", "tagflow.frontend.loops", ".py", False),
        ("from .runtime.session import Session", "tagflow.__init__", ".py", False),
        ("x = 1", "tagflow.cellar.wine", ".py", True),
        ("from ..core.table cimport Node", "tagflow.kernels.memory.pool", ".pyx", False),
        ("from ..memory.pool cimport Pool", "tagflow.kernels.core.table", ".pxd", True),
        ("def f():\n    from ..scheduler import plan", "tagflow.kernels.cpu.arrays", ".pyx", True),
        ("from ..cpu import registry", "tagflow.kernels.cuda.registry", ".py", True),
        ("from ..kernels.core.table import Kind", "tagflow.ir.graph", ".py", True),
        ("from ...kernels.core.table import Kind", "tagflow.compile.plan.plan", ".py", False),
    ],
)
def test_violations_are_found(text, module, suffix, wrong):
    assert bool(violations(text, module, suffix)) is wrong
