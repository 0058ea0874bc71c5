"""The command line: ``tagloom demo``, ``tagloom info``, ``tagloom top``, ``tagloom graph`` and ``tagloom trace``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from . import __version__

# Commands import the parts of the engine that they need, so `--version` and `--help` answer at once.

_INTERRUPTED = 130  # exit status of a process ended by SIGINT, as shells report it: 128 + 2
_CLOSED = 141  # exit status of a process ended by SIGPIPE: 128 + 13
_PACKAGES = ("numpy", "scipy", "ml_dtypes")
_EXTRAS = (
    ("uvloop", "demo"),
    ("rich", "top"),
    ("llvmlite", "jit"),
    ("pillow", "images"),
    ("opentelemetry-api", "opentelemetry"),
    ("prometheus_client", "prometheus"),
)
_HALF = "float16 and bfloat16 halve memory; on a CPU, NumPy computes with them far more slowly than with float32"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 after an error, 130 when interrupted, 141 if the reader left."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.command(parsed)
        sys.stdout.flush()  # here, where a BrokenPipeError is handled, and not while Python exits
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest at exit, without error
        return _CLOSED
    except (OSError, ValueError) as error:
        print(f"tagloom: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        from .base.errors import TagloomError

        if not isinstance(error, TagloomError):
            raise
        print(f"tagloom: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; each sets `command` to the function that runs it."""
    parser = argparse.ArgumentParser(prog="tagloom", description=sys.modules[__name__.rpartition(".")[0]].__doc__)
    parser.add_argument("--version", action="version", version=f"tagloom {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands.add_parser("demo", help="train a character-level LSTM on Python's help texts; let it write"))
    info = commands.add_parser("info", help="print versions, the build and devices")
    info.add_argument(
        "--operations",
        action="store_true",
        help="list where each operation runs in a session on a GPU",
    )
    info.add_argument("--passes", action="store_true", help="list the passes of the compiler in their order")
    info.add_argument(
        "--native",
        nargs="*",
        metavar="TYPE",
        help="run small loops, and list how native programs compute each operation; "
        "only types that match a pattern, as 'Sort*'",
    )
    info.add_argument("--json", action="store_true", help="with --native: print an array of objects")
    info.set_defaults(command=_print_info)
    _add_top(commands.add_parser("top", help="show what the sessions of running processes do"))
    _add_graph(commands.add_parser("graph", help="draw the text of a graph as a page"))
    _add_trace(commands.add_parser("trace", help="draw a saved trace as a page"))
    return parser


def _print_info(parsed: argparse.Namespace) -> int:
    """Print the table of ``tagloom info`` with the parsed options."""
    if parsed.native is not None:
        return _print_native(parsed.native, parsed.json)
    if parsed.json:
        raise ValueError("--json is an option of `tagloom info --native`")
    return _print(_passes() if parsed.passes else _operations() if parsed.operations else _facts())


def _add_graph(parser: argparse.ArgumentParser) -> None:
    parser.description = "Read what graph.save('g.txt') or graph.to_text() wrote, and write an HTML page, or DOT."
    parser.add_argument("file", type=Path, metavar="FILE", help="the text of a graph")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.html", help="or .dot, .txt (beside FILE, .html)")
    parser.set_defaults(command=_graph)


def _graph(parsed: argparse.Namespace) -> int:
    from . import Graph

    output = parsed.output or parsed.file.with_suffix(".html")
    Graph.from_text(parsed.file.read_text(encoding="utf-8")).save(output)
    print(output)
    return 0


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.description = "Read what trace.save('t.json') or trace.save('t.json.gz') wrote, and write an HTML page."
    parser.add_argument("file", type=Path, metavar="FILE", help="a trace in Chrome's format, made by tagloom")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.html", help="the page (beside FILE, .html)")
    parser.set_defaults(command=_trace)


def _trace(parsed: argparse.Namespace) -> int:
    from .runtime.observe.trace_file import read_trace

    stem = parsed.file.with_suffix("") if parsed.file.suffix == ".gz" else parsed.file
    output = parsed.output or stem.with_suffix(".html")
    output.write_text(read_trace(parsed.file), encoding="utf-8")
    print(output)
    return 0


def _add_top(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tagloom top``."""
    parser.description = (
        "Show steps, queues, memory and checkpoints of sessions that let themselves be observed: those of "
        "processes run with TAGLOOM_OBSERVE=1, or in `async with session.observe():`."
    )
    parser.add_argument("target", nargs="?", metavar="PID|PATH", help="a process, or a session's socket (all)")
    parser.add_argument("--once", action="store_true", help="look once")
    parser.add_argument("--json", action="store_true", help="print an array of what each session tells")
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="SECONDS", help="between two looks (%(default)s)"
    )
    parser.set_defaults(command=_top)


def _top(parsed: argparse.Namespace) -> int:
    from .monitoring.top import watch_sessions

    return watch_sessions(parsed.target, parsed.once, parsed.json, parsed.interval)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tagloom demo``, named like the fields of its Options."""
    from .demo.options import Options

    default = Options()
    for name, meaning in (
        ("units", "size of the LSTM's state"),
        ("batch", "streams of text read side by side"),
        ("length", "characters of each stream in a step"),
        ("steps", "steps of training"),
        ("seed", "of the weights, the order of the text and what is written"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=getattr(default, name), metavar="N", help=f"{meaning} (%(default)s)"
        )
    parser.add_argument(
        "--temperature",
        type=float,
        default=default.temperature,
        metavar="T",
        help="of the text written: lower is more probable (%(default)s)",
    )
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="of training, as 100MB; all but the text is then in the loop"
    )
    parser.add_argument(
        "--swap", action="store_true", help="let what the loop saves for its gradient leave that memory"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the loss (needs matplotlib)")
    parser.add_argument("--save", type=Path, metavar="FILE.npz", help="write the trained weights")
    parser.add_argument("--load", type=Path, metavar="FILE.npz", help="begin from saved weights and their size")
    parser.set_defaults(command=_demo)


def _demo(parsed: argparse.Namespace) -> int:
    """Run ``tagloom demo``."""
    from dataclasses import fields

    from threadpoolctl import threadpool_limits

    from .base.errors import TagloomError
    from .base.extras import install_hint, is_installed
    from .demo import Options, run

    if not is_installed("rich"):
        raise TagloomError("the demo shows its progress with rich, which is not installed", hint=install_hint("demo"))
    given = {f.name: getattr(parsed, f.name) for f in fields(Options) if hasattr(parsed, f.name)}
    # The matrices are small: a second BLAS thread gains little, and waits by spinning when the cores are busy.
    with threadpool_limits(1, user_api="blas"):
        _run(run(Options(**given)))
    return 0


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine under uvloop if installed, otherwise under asyncio's own loop."""
    import asyncio

    try:
        import uvloop
    except ImportError:
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)


def _print(table: Sequence[tuple[str, str]]) -> int:
    width = max(10, *(len(name) for name, _ in table))
    for name, value in table:
        print(f"{name:<{width}} {value}")
    return 0


_PLACES = {
    "executor": "done by the executors",
    "store": "keeps values where they are",
    "host": "runs on the host",
    "device": "computes on the GPU",
}


def _operations() -> list[tuple[str, str]]:
    """Return the rows of ``tagloom info --operations``."""
    from .ir.definition import all_definitions

    return [(definition.type, _PLACES[definition.runs_on]) for definition in all_definitions()]


def _print_native(patterns: Sequence[str], as_json: bool) -> int:
    """Print the rows of ``tagloom info --native``, with progress on the standard error."""
    from .monitoring.native_table import native_table

    def show_progress(done: int, count: int) -> None:
        end = "\n" if done == count else ""
        print(f"\r{done} of {count} loops", end=end, file=sys.stderr, flush=True)

    rows = native_table(patterns, progress=show_progress)
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps([asdict(row) for row in rows], indent=2))
        return 0
    first, second = (max(len(text) for text in texts) for texts in zip(*((r.operation, r.dtypes) for r in rows)))
    for row in rows:
        line = f"{row.operation:<{first}}  {row.dtypes:<{second}}  {' or '.join(row.ways):<6}  {row.reason}"
        print(line.rstrip())
    return 0


def _passes() -> list[tuple[str, str]]:
    """Return the rows of ``tagloom info --passes``: passes with their stages and switches."""
    from .compile import PIPELINE
    from .compile.passes import with_registered

    return [(row.name, row.describe()) for row in with_registered(PIPELINE)]


def _facts() -> list[tuple[str, str]]:
    """Return the rows of ``tagloom info``: versions, the build, and devices."""
    import platform

    from .kernels.scheduler.state import live_counts

    flavour = "debug" if "allocated" in live_counts() else "release"  # only a debug build counts allocations
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        ("tagloom", f"{__version__} ({flavour} build)"),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, _version(name) or "not installed") for name in _PACKAGES),
        *((name, _version_or_hint(name, extra)) for name, extra in _EXTRAS),
        ("vectors", _vectors()),
        ("cache", _cache()),
        ("devices", f"cpu:0 ({cores} cores)"),
        ("half", _HALF),
        *(("cuda", line) for line in _cuda()),
        *_outside_kinds(),
    ]


def _outside_kinds() -> list[tuple[str, str]]:
    """Return lines with the number of devices of each kind, except GPUs."""
    from .streams.kinds import DeviceUnavailable, device_kinds

    lines = []
    for kind in device_kinds():
        if kind.count is not None and kind.name != "GPU":
            try:
                lines.append((kind.name.lower(), str(kind.count())))
            except DeviceUnavailable as error:
                lines.append((kind.name.lower(), error.what))
    return lines


def _vectors() -> str:
    """Return the width of the vectors used by matrix products and elementary functions."""
    from .kernels.cpu.linear import vector_bits

    bits = vector_bits()
    return f"{bits} bits; products by our own kernels" if bits else "none of our own here; products by BLAS"


def _cache() -> str:
    """Return the directory of compiled code as text."""
    from .kernels.native.jit.cache import cache_directory

    path = cache_directory()
    return "off: TAGLOOM_CACHE is empty" if path is None else str(path)


def _cuda() -> list[str]:
    """Return a line for each GPU found by pycuda, or the reason for their absence."""
    from .base.extras import install_hint, is_installed
    from .streams import CudaUnavailable, cuda_devices

    if not is_installed("pycuda"):
        return [f"pycuda is not installed: {install_hint('cuda')}"]
    try:
        found = cuda_devices()
    except CudaUnavailable as error:
        return [error.what]
    return [
        f"cuda:{d.index} ({d.name}, {d.nbytes / 2**30:.0f} GiB, compute capability {d.capability[0]}.{d.capability[1]})"
        for d in found
    ] or ["pycuda finds no device"]


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _version_or_hint(package: str, extra: str) -> str:
    from .base.extras import install_hint

    return _version(package) or f"not installed: {install_hint(extra)}"
