"""What a run shows: JSON lines or a table, a picture, and how far it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tagloom.base.extras import install_hint, is_installed

from .experiment import BenchError
from .protocol import Progress, describe

Record = dict[str, Any]

_ROW = {"bench", "case", "engine", "metric", "median", "p5", "p95", "runs"}  # keys of a row; others are notes


def print_json(record: Record) -> None:
    """Print a record as one line."""
    print(json.dumps(record), flush=True)


def print_table(records: list[Record]) -> None:
    """Print medians with their spread, and how many times better tagloom is."""
    ratios = {(describe(r["case"]), r["ratio_to"], r["metric"]): r["value"] for r in records if "ratio_to" in r}
    from rich.console import Console
    from rich.table import Table

    table = Table("case", "engine", "metric", "median", "p5", "p95", "runs", "tagloom is better by")
    for r in (r for r in records if "engine" in r):
        better = ratios.get((describe(r["case"]), r["engine"], r["metric"]))
        numbers = [f"{r[key]:,.4g}" for key in ("median", "p5", "p95")]
        factor = f"{better:.2f}x" if better is not None else ""
        table.add_row(describe(r["case"]), r["engine"], r["metric"], *numbers, str(r["runs"]), factor)
    console = Console()
    console.print(table)
    shown = {(describe(r["case"]), r["engine"]) for r in records if "engine" in r}
    for r in (r for r in records if "ratio_to" in r and (describe(r["case"]), r["ratio_to"]) not in shown):
        console.print(f"{describe(r['case'])}: {r['value']:.2f}x {r['ratio_to']}")
    for r in (r for r in records if "note" in r):
        console.print(f"{describe(r['case'])}: {r['by']} {r['note']} {r['text']}")
    for r in (r for r in records if "engine" in r):
        for name in (key for key, text in r.items() if key not in _ROW and text):
            console.print(f"{describe(r['case'])}: {r['engine']} {name} {r[name]}")
    for r in (r for r in records if "bar" in r):
        kept = "met" if r["met"] else "NOT met"
        console.print(f"{r['statistic']} ratio to {r['bar']}: {r['value']:.2f}, wanted {r['wanted']:.2f}: {kept}")


@contextmanager
def progress(name: str) -> Iterator[Progress]:
    """Show what is being measured on stderr, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(name) as status:
        yield lambda text: status.update(f"{name}: {text}")


def require(*modules: str) -> None:
    """Raise BenchError, which names the extra of the package, unless all libraries are installed."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise BenchError(f"{' and '.join(missing)} not installed; try: {install_hint('bench')}")


def plot(records: list[Record], path: Path) -> None:
    """Draw medians with their spread, one panel per metric: as lines where a number is varied, else as bars."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    measured = [r for r in records if "engine" in r]
    metrics = list(dict.fromkeys(r["metric"] for r in measured))
    figure, panels = pyplot.subplots(len(metrics), squeeze=False, figsize=(8, 4 * len(metrics)), layout="constrained")
    for axes, metric in zip(panels[:, 0], metrics, strict=True):
        rows = [r for r in measured if r["metric"] == metric]
        x = _abscissa(rows)
        if x is None:
            _bars(axes, rows)
        else:
            _lines(axes, rows, x)
        axes.set_ylabel(metric.replace("_", " "))
    figure.suptitle(measured[0]["bench"])
    figure.savefig(path)
    pyplot.close(figure)


def _abscissa(rows: list[Record]) -> str | None:
    """Return the key that goes from left to right: the first number with three values or more, if any."""
    for key, first in rows[0]["case"].items():
        values = {r["case"][key] for r in rows}
        if len(values) >= 3 and type(first) is int and all(type(value) is int for value in values):
            return str(key)
    return None


def _lines(axes: Any, rows: list[Record], x: str) -> None:
    """Draw a line for each engine and each other choice that comes with more than one value of `x`."""
    switches = [key for key, value in rows[0]["case"].items() if isinstance(value, (bool, str))]
    groups: dict[str, list[Record]] = {}
    for r in rows:
        groups.setdefault(" ".join([r["engine"], *(f"{key}={r['case'][key]}" for key in switches)]), []).append(r)
    for label, mine in groups.items():
        places = [r["case"][x] for r in mine]
        axes.plot(places, [r["median"] for r in mine], marker="o", label=label)
        axes.fill_between(places, [r["p5"] for r in mine], [r["p95"] for r in mine], alpha=0.2)
    axes.set_xscale("log", base=2)
    medians = [r["median"] for r in rows]
    if max(medians) > 3 * min(medians):
        axes.set_yscale("log", nonpositive="mask")
    axes.yaxis.set_major_formatter("{x:,g}")
    if max(medians) < 30 * min(medians):
        axes.yaxis.set_minor_formatter("{x:,g}")
    ticks = sorted({r["case"][x] for r in rows})
    axes.set_xticks(ticks, ticks)
    axes.set_xlabel(x.replace("_", " "))
    axes.legend()


def _bars(axes: Any, rows: list[Record]) -> None:
    cases = list(dict.fromkeys(describe(r["case"]) for r in rows))
    engines = list(dict.fromkeys(r["engine"] for r in rows))
    width = 0.8 / len(engines)
    for k, engine in enumerate(engines):
        mine = [r for r in rows if r["engine"] == engine]
        spread = [[r["median"] - r["p5"] for r in mine], [r["p95"] - r["median"] for r in mine]]
        places = [cases.index(describe(r["case"])) + k * width for r in mine]
        axes.bar(places, [r["median"] for r in mine], width, yerr=spread, label=engine)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(cases))], cases)
    axes.legend()
