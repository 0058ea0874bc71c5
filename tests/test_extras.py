"""A plain install, in which the libraries of the extras are missing: its commands work, errors say what to install."""

import json
import os
import subprocess
import sys

import pytest

EXTRAS = ["PIL", "cupy", "llvmlite", "matplotlib", "opentelemetry"]
EXTRAS += ["prometheus_client", "pycuda", "rich", "safetensors", "uvloop"]
BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""
COMMAND = "import runpy; sys.argv = ['tagloom', *{arguments!r}]; runpy.run_module('tagloom', run_name='__main__')"
FAILS = """
import tagloom as tg
try:
    {code}
except tg.TagloomError as error:
    print(error)
else:
    raise AssertionError("no error")
"""


def run(code, names=EXTRAS):
    """Run code in a process that has none of some modules from its start."""
    code = BLOCK.format(names=tuple(names)) + code
    environment = {k: v for k, v in os.environ.items() if k != "TAGLOOM_OBSERVE"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("names", [EXTRAS, *([each] for each in EXTRAS)], ids="-".join)
def test_info_works_without(names):
    done = run(COMMAND.format(arguments=["info"]), names)
    assert (done.returncode, done.stderr) == (0, "")
    for fact in ("vectors", "cache", "llvmlite", "devices", "cuda"):
        assert f"\n{fact}" in done.stdout
    assert 'pip install "tagloom[cuda]"' in done.stdout or "pycuda" not in names


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


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("tg.monitoring.Spans()", "opentelemetry"),
        ("tg.monitoring.Collector({})", "prometheus"),
        ("tg.data.decode_image(b'')", "images"),
        ("tg.streams.CudaDevice(0)", "cuda"),
        ("from tagloom.monitoring.top import _shown; _shown(False).__enter__()", "top"),
        ("from tagloom.demo.plot import require_matplotlib; require_matplotlib()", "bench"),
    ],
)
def test_what_needs_an_extra_says_which(code, extra):
    done = run(FAILS.format(code=code))
    assert done.returncode == 0, done.stderr
    assert f'pip install "tagloom[{extra}]"' in done.stdout


def test_the_demo_says_what_to_install():
    done = run(COMMAND.format(arguments=["demo"]))
    assert done.returncode == 1
    assert 'pip install "tagloom[demo]"' in done.stderr


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
