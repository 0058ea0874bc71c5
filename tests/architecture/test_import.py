"""Importing the package loads nothing of the engine; using it loads nothing that most programs never need."""

import json
import subprocess
import sys

import pytest

from tests.architecture.public_names import FILE, text
from tests.architecture.type_modules import TABLE, table

LOADED = """
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
NEEDED = {"google_crc32c", "numpy", "ml_dtypes"}  # outside of the standard library, to build a graph and run it
MOST_MODULES = 100  # of these libraries; the number may only fall
WINGS = ("compat", "data", "losses", "metrics", "monitoring", "nest", "nn", "training")
# Of tagloom; the numbers may only fall.
MOST_IN_FIRST_GRAPH = 68
MOST_IN_FIRST_SESSION = 347
IN_FIRST_GRAPH = {"base", "ir", "kernels.elementary", "kernels.steps", "ops.control", "ops.math", "ops.support"}
NOT_IN_FIRST_SESSION = """
    base.safetensors base.record_files gradients public kernels.cuda kernels.native.cuda
    kernels.native.jit.compilation kernels.queues ops.image ops.linalg ops.nn ops.queues ops.random ops.strings
    runtime.functions runtime.observe.serving runtime.reference runtime.runners streams.cuda streams.distributions
    streams.simulated swap.swapper swap.tiers
"""
GRAPH = """
import tagloom as tg
with tg.Graph().as_default() as graph:
    x = tg.placeholder("float32", [2, 2])
    y = tg.reduce_sum(tg.matmul(x, x)) * 2 + tg.constant(1.0)
"""
RUN = """
import tagloom as tg
with tg.Graph().as_default() as graph:
    x = tg.placeholder("float32", [2, 2])
    y = tg.reduce_sum(tg.matmul(x, x))
with tg.SyncSession(graph) as session:
    assert session.run(y, {x: [[1, 2], [3, 4]]}) == 54
"""


def loaded_by(code):
    """Return the names of the modules that some code loads in a process of its own."""
    done = subprocess.run([sys.executable, "-c", LOADED.format(code=code)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def others(names):
    """Return the packages among modules that are neither ours nor the standard library's."""
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"tagloom"}


def test_the_package_loads_nothing_but_its_version():
    names = loaded_by("import tagloom")
    assert others(names) == set()
    assert [n for n in names if n.startswith("tagloom")] == ["tagloom", "tagloom.base", "tagloom.base.version"]
    assert {"asyncio", "dataclasses", "inspect", "logging"}.isdisjoint(names)


def ours(names):
    """Return the names of the package's modules, without that of the package."""
    return {name.removeprefix("tagloom.") for name in names if name.startswith("tagloom.")}


def without_packages(names):
    """Return the modules that are no packages of others: a further room for the same modules loads nothing more."""
    return {name for name in names if not any(other.startswith(f"{name}.") for other in names)}


def inside(rooms, names):
    """Return the modules that are rooms, or in one."""
    return {name for name in names if any(name == room or name.startswith(f"{room}.") for room in rooms)}


def test_the_first_graph_loads_numpy_and_the_modules_of_its_operations():
    names = loaded_by(GRAPH)
    assert {name for name in others(names) if "cython" not in name} <= NEEDED  # modules that Cython makes
    assert sum(name.partition(".")[0] in NEEDED for name in names) <= MOST_MODULES
    assert "asyncio" not in names
    loaded = ours(names)
    assert loaded - inside(IN_FIRST_GRAPH, loaded) == {"kernels", "ops", "ops.type_modules"}
    assert len(without_packages(loaded)) <= MOST_IN_FIRST_GRAPH


def test_the_first_session_loads_no_wing_that_it_does_not_use():
    names = ours(loaded_by(RUN))
    assert inside([*WINGS, *NOT_IN_FIRST_SESSION.split()], names) == set()
    assert len(without_packages(names)) <= MOST_IN_FIRST_SESSION


def test_pipelines_load_lines_of_waits_without_the_numeric_kernels():
    names = ours(loaded_by("import tagloom; tagloom.data.from_arrays"))
    assert "kernels.queues.queue_lines" in names
    assert inside(["kernels.cpu", "kernels.cuda", "kernels.native", "kernels.queues.queue_kernels"], names) == set()


def test_interfaces_of_tensorflow_1_are_loaded_when_asked_for():
    names = ours(loaded_by("import tagloom.public, tagloom.nn, tagloom.data"))
    assert inside(["compat"], names) == set()


def test_a_saved_graph_finds_the_operations_of_tensorflow_1(tmp_path):
    path = tmp_path / "graph"
    loaded_by(
        "import pickle, tagloom as tg\n"
        "with tg.Graph().as_default() as g: area = tg.compat.tf1.StagingArea('int32')\n"
        "with g.as_default(): ends = area.put(7), area.get()\n"
        f"open({str(path)!r}, 'wb').write(pickle.dumps((g, *ends)))"
    )
    loaded_by(
        "import pickle, tagloom as tg\n"
        f"g, put, taken = pickle.load(open({str(path)!r}, 'rb'))\n"
        "with tg.SyncSession(g) as s: s.run(put); assert s.run(taken) == [7]"
    )


def test_no_operation_is_built_by_the_modules_that_a_name_loads():
    """Names are first used where a graph is open."""
    loaded_by(
        "import tagloom as tg\n"
        "with tg.Graph().as_default() as graph: import tagloom.public\n"
        "assert graph.get_operations() == []"
    )


def test_each_name_loads_its_own_module_alone():
    loaded_by(
        "import tagloom\n"
        "found = {name: getattr(tagloom, name) for name in reversed(dir(tagloom))}\n"
        "assert 'tagloom.public' not in sys.modules\n"
        "import tagloom.public\n"
        "assert all(found[n] is v for n, v in vars(tagloom.public).items() if not n.startswith('_'))"
    )


def test_the_table_of_types_is_what_would_be_written():
    assert TABLE.read_text() == table(), "make operations"


def test_the_list_of_public_names_is_what_would_be_written():
    assert FILE.read_text() == text(), "make names"


def test_an_operation_of_a_user_takes_no_type_of_the_package_that_is_not_loaded_yet():
    loaded_by(
        "from tagloom.operations import NotDifferentiable, define\n"
        "from tagloom.base.errors import GraphError\n"
        "try: define('Resize', 'x: T -> y: T', shape=None, kernel=None, gradient=NotDifferentiable('')) \n"
        "except GraphError as error: assert 'declared twice' in str(error)\n"
        "else: raise AssertionError"
    )


def test_a_program_that_multiplies_needs_no_scipy():
    """Where products are computed by vector instructions; BLAS, which SciPy brings, is for others."""
    from tagloom.kernels.cpu.linear import is_own_product

    if not is_own_product(2):
        pytest.skip("all products are BLAS's here")
    names = loaded_by(RUN)
    assert {"scipy", "threadpoolctl", "llvmlite", "PIL", "rich", "optree"}.isdisjoint(others(names))


def test_a_library_that_a_kernel_loads_takes_no_memory_of_the_session():
    loaded_by(
        "import tagloom as tg\n"
        "import numpy as np\n"
        "with tg.Graph().as_default() as graph:\n"
        "    x = tg.placeholder('float64', [3, 3])\n"
        "    y = tg.reduce_sum(tg.erf(x)) + tg.reduce_sum(tg.matrix_triangular_solve(x, x))\n"
        "with tg.SyncSession(graph) as session:\n"
        "    session.run(y, {x: np.eye(3)})\n"
        "    assert {'scipy.special', 'scipy.linalg'} <= set(sys.modules)\n"
        "    assert session.statistics().live_bytes == 0"
    )


@pytest.mark.sampled(every=7)
@pytest.mark.parametrize("module", [*WINGS, "streams"])
def test_modules_for_users_are_imported_in_any_way(module):
    loaded_by(f"import tagloom; assert tagloom.{module}.__name__ == 'tagloom.{module}'")
    loaded_by(f"from tagloom import {module}; assert {module}.__all__")
    loaded_by(f"import tagloom.{module}; assert tagloom.{module}.__all__")


def test_a_public_name_is_the_function_though_a_module_is_called_the_same():
    loaded_by("import tagloom.gradients.api, tagloom; assert tagloom.gradients.__name__ == 'gradients'")
    loaded_by("from tagloom.training import Optimizer; from tagloom import gradients; assert callable(gradients)")


def test_threads_may_use_the_first_names_at_once():
    loaded_by(
        "import tagloom\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "names = ['constant', 'Graph', 'nn', 'while_loop', 'float32', 'TagloomError', 'Session', 'training'] * 4\n"
        "with ThreadPoolExecutor(len(names)) as threads:\n"
        "    assert all(threads.map(lambda name: getattr(tagloom, name), names))"
    )


def test_all_operations_are_declared_with_the_public_names():
    loaded_by(
        "import pkgutil, sys, tagloom.ops, tagloom.public\n"
        "rooms = pkgutil.walk_packages(tagloom.ops.__path__, 'tagloom.ops.')\n"
        "assert {r.name for r in rooms} - set(sys.modules) <= {'tagloom.ops.type_modules'}"
    )


def test_a_pickled_graph_may_be_the_first_that_uses_the_package(tmp_path):
    path = tmp_path / "graph"
    make = "import pickle, tagloom as tg\nwith tg.Graph().as_default() as g: tg.cos(tg.constant(1.0)) + 1\n"
    loaded_by(make + f"open({str(path)!r}, 'wb').write(pickle.dumps(g))")
    load = f"import pickle; g = pickle.load(open({str(path)!r}, 'rb'))"
    loaded_by(f"{load}; assert 'Cos' in {{op.type for op in g.get_operations()}}")


def test_a_name_that_does_not_exist_is_refused_with_a_hint_before_any_other_is_used():
    loaded_by(
        "import tagloom\n"
        "try: tagloom.konstant\n"
        "except AttributeError as error: assert 'try: tagloom.constant' in str(error)"
    )
