"""A plain install, in which the libraries of the extras are missing: its commands work, errors say what to install."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXTRAS = ["PIL", "cupy", "llvmlite", "matplotlib", "opentelemetry"]
EXTRAS += ["prometheus_client", "pycuda", "rich", "safetensors", "uvloop"]
BLOCK = """
import sys
class Blocked:
    names = {names!r}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
COMMAND = "import runpy; sys.argv = ['tagloom', *{arguments!r}]; runpy.run_module('tagloom', run_name='__main__')"


def run(code, names=EXTRAS):
    """Run code in a process that has none of some modules from its start."""
    code = BLOCK.format(names=tuple(names)) + code
    environment = {k: v for k, v in os.environ.items() if k != "TAGLOOM_OBSERVE"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def information():
    """Return what `tagloom info` prints without all extras, and without each one, in one process: info imports none."""
    done = run(f"""
import contextlib, io, json
from tagloom.cli import main
told = {{}}
for names in {[EXTRAS, *([each] for each in EXTRAS)]!r}:
    sys.meta_path[0].names = names
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["info"]) == 0
    told["-".join(names)] = out.getvalue()
    assert not {{module.partition(".")[0] for module in sys.modules}} & {{*{EXTRAS!r}}}
print(json.dumps(told))
""")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("names", [EXTRAS, *([each] for each in EXTRAS)], ids="-".join)
def test_info_works_without(information, names):
    told = information["-".join(names)]
    for fact in ("vectors", "cache", "llvmlite", "devices", "cuda"):
        assert f"\n{fact}" in told
    assert 'pip install "tagloom[cuda]"' in told or "pycuda" not in names


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["demo", "--help"], ["top", "--help"]], ids=" ".join)
def test_questions_are_answered_without_the_engine(arguments):
    engine = ("numpy", "scipy", "asyncio", "ml_dtypes")
    done = run(COMMAND.format(arguments=arguments), [*EXTRAS, *engine])
    assert (done.returncode, done.stderr) == (0, "")
    assert "tagloom" in done.stdout


def test_top_tells_json_without_rich():
    program = """
import asyncio, os, runpy, sys
import tagloom as tg
with tg.Graph().as_default() as graph:
    y = tg.constant(1.0) + 1.0
async def main():
    async with tg.Session(graph) as session, session.observe():
        await session.run(y)
        from tagloom.cli import main
        assert await asyncio.to_thread(main, ["top", str(os.getpid()), "--once", "--json"]) == 0
asyncio.run(main())
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 1


IMAGE = "tg.constant(np.zeros((2, 2, 3), np.uint8))"
NEEDS = [  # what is done, and the extra that an error names
    ("tg.monitoring.Spans()", "opentelemetry"),
    ("tg.monitoring.Collector({})", "prometheus"),
    ("tg.data.decode_image(b'')", "images"),
    ("tg.function(lambda: tg.decode_image(b'')).sync()", "images"),
    (f"tg.function(lambda: tg.encode_png({IMAGE})).sync()", "images"),
    (f"tg.function(lambda: tg.encode_jpeg({IMAGE})).sync()", "images"),
    ("tg.streams.CudaDevice(0)", "cuda"),
    ("tg.SyncSession(tg.Graph(), devices=['/gpu:0']).__enter__()", "cuda"),
    ("from tagloom.monitoring.top import _open_display; _open_display(False).__enter__()", "top"),
    ("command(['demo'])", "demo"),
    ("from tagloom.demo.plot import require_matplotlib; require_matplotlib()", "bench"),
    ("experiments(['null_ops', '--quick'])", "bench"),
    ("experiments(['null_ops', '--quick', '--plot', 'plot.png'])", "bench"),
]
OTHERWISE = {
    "cuda12": "the modules of cuda, for another version of CUDA",
    "jit": "nothing fails without it: test_a_long_loop_runs_without_llvm",
    "test": "no part of the package needs it",
    "docs": "no part of the package needs it",
}


@pytest.fixture(scope="module")
def errors():
    """Return the error of everything that needs an extra, in one process in which none has been installed."""
    done = run(f"""
import contextlib, io, json
import numpy as np
import tagloom as tg
import bench.__main__
from tagloom.cli import main
def told(run, arguments):
    with contextlib.redirect_stderr(io.StringIO()) as out:
        assert run(arguments) == 1
    raise tg.TagloomError(out.getvalue())
def command(arguments): told(main, arguments)
def experiments(arguments): told(bench.__main__.main, arguments)
found = []
for code in {[code for code, _ in NEEDS]!r}:
    try: exec(code)
    except tg.TagloomError as error: found.append(str(error))
    else: raise AssertionError(code)
print(json.dumps(found))
""")
    assert done.returncode == 0, done.stderr
    return dict(zip((code for code, _ in NEEDS), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("code", "extra"), NEEDS)
def test_what_needs_an_extra_says_which(errors, code, extra):
    assert re.search(rf"""pip install ["']tagloom\[{extra}\]""", errors[code]), errors[code]


def test_each_extra_is_tried_where_it_is_missing():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert set(extras) == {extra for _, extra in NEEDS} | set(OTHERWISE)


def test_commands_work_outside_of_the_repository_without_extras(tmp_path):
    """A graph's page and a trace's; `python -m tagloom` is the same command line."""
    done = run(
        f"""
import os
import tagloom as tg
from tagloom.cli import main
os.chdir({str(tmp_path)!r})
with tg.Graph().as_default() as graph:
    y = tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
graph.save("graph.txt")
with tg.SyncSession(graph) as session:
    trace = tg.Trace()
    session.run(y, trace=trace)
trace.save("trace.json.gz")
assert main(["graph", "graph.txt"]) == main(["trace", "trace.json.gz"]) == main(["info", "--operations"]) == 0
"""
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"graph.html", "trace.html"}


def test_a_long_loop_runs_without_llvm():
    done = run("""
import tagloom as tg
@tg.function
def count():
    return tg.while_loop(lambda i, a: i < 5000, lambda i, a: (i + 1, a + 0.5), [0, tg.constant(0.0)])
assert count.sync()[1] == 2500
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_reader_that_stops_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m tagloom info --operations | head -n 1", shell=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
