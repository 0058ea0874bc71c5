"""``python -m bench NAME [--peer tf --peer jax --peer torch] [--device cuda] [--quick] [--json] [--plot FILE]``."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import bench

from . import report, side_by_side
from .experiment import PEER_MODULES, BenchError, Experiment
from .protocol import FULL, QUICK, run


def experiments() -> dict[str, Experiment]:
    """Return the experiments by name: every module here that has an ``EXPERIMENT``."""
    names = (m.name for m in pkgutil.iter_modules(bench.__path__) if m.name != "__main__")
    modules = (importlib.import_module(f"bench.{name}") for name in names)
    return {m.EXPERIMENT.name: m.EXPERIMENT for m in modules if hasattr(m, "EXPERIMENT")}


def pair(text: str) -> tuple[str, str]:
    """Return key and value of ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"wanted KEY=VALUE, got {text!r}")
    return key, value


def parse(arguments: list[str] | None, names: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure tagloom beside other engines.")
    parser.add_argument("name", choices=names, metavar="NAME", help=f"one of: {', '.join(names)}")
    parser.add_argument("--peer", action="append", default=[], choices=list(PEER_MODULES), help="measure this too")
    parser.add_argument(
        "--quick", action="store_true", help="end in under 50 seconds, or in two minutes where many cases are compared"
    )
    parser.add_argument(
        "--only", action="append", default=[], type=pair, metavar="KEY=VALUE", help="run the cases that have this value"
    )
    parser.add_argument("--device", metavar="NAME", help="where, if not on the CPU: cuda")
    parser.add_argument("--seconds", type=float, metavar="N", help="add no rounds after so many")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the medians, or what says more")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, experiment: Experiment) -> None:
    """Run an experiment and show its records as they come."""
    if options.device:
        experiment = experiment.on(options.device, options.peer)
    engines = experiment.chosen(options.peer)
    effort = QUICK if options.quick else FULL
    if options.quick:
        if experiment.quick_seconds:
            effort = replace(effort, seconds=experiment.quick_seconds, most_rounds=FULL.most_rounds)
        experiment = experiment.quick()
    if options.only:
        experiment = experiment.only(**dict(options.only))
    if options.seconds:
        effort = replace(effort, seconds=options.seconds)
    report.require("rich", "uvloop", *(["matplotlib"] if options.plot else []))
    records = []
    with report.progress(experiment.name) as progress:
        measured = side_by_side.run if experiment.together else run
        for record in measured(experiment, engines, effort, progress):
            records.append(record)
            if options.json:
                report.print_json(record)
    for found in filter(None, (bar.record(experiment.name, records) for bar in experiment.bars)):
        records.append(found)
        if options.json:
            report.print_json(found)
    if not options.json:
        report.print_table(records)
    if options.plot:
        (experiment.picture or partial(report.plot, records))(options.plot)
        print(f"plot written to {options.plot}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 1 when an experiment can not be run or its engines disagree."""
    known = experiments()
    options = parse(arguments, list(known))
    try:
        measure(options, known[options.name])
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
