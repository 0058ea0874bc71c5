"""``python -m bench.gpu``: what needs a GPU, in slices: the tests marked ``gpu`` and benches, each in its own process.

Results go to ``bench/results/gpu-DEVICE.json`` after each; what a bench measures, to a file of its own. A slice ends
when its time is over, with status 2 if something is left. The next one goes on there, unless the commit is another.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

SLICE = 480.0  # seconds
LEFT = 2  # the status when there is more to do
RESULTS = Path(__file__).parent / "results"
BENCHES = ("bench lstm_memory --device cuda",)
LEAST = 300.0  # seconds that a bench should have
AROUND = 120.0  # of which it builds, and ends

Run = Callable[[str, float], str]


def run_slice(names: Iterable[str], record: Path, subject: dict[str, str], seconds: float, run: Run) -> list[str]:
    """Run what has no result yet until the time is over; return the names left.

    Parameters
    ----------
    names : iterable of str
    record : Path
        The JSON file that says what was run.
    subject : dict
        Commit and device; results of another one are dropped.
    seconds : float
        After which nothing is begun, and what runs is ended.
    run : callable
        Gets a name and the seconds left; returns "passed", "failed", or "timeout" when it was ended.
    """
    end = time.monotonic() + seconds
    results = _results(record, subject)
    left = [name for name in names if name not in results]
    whole = True  # whether the next has the whole slice
    while left and (remaining := end - time.monotonic()) > 0:
        began = time.monotonic()
        outcome = run(left[0], remaining)
        if outcome == "timeout" and not whole:
            break  # it has all the time of the next slice
        results[left[0]] = {"outcome": outcome, "seconds": round(time.monotonic() - began, 3)}
        _write(record, {**subject, "results": results})
        del left[0]
        whole = False
    return left


def _results(record: Path, subject: dict[str, str]) -> dict[str, Any]:
    if not record.exists():
        return {}
    found = json.loads(record.read_text())
    return found["results"] if all(found.get(key) == value for key, value in subject.items()) else {}


def _write(record: Path, content: dict[str, Any]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    temporary = record.with_suffix(".part")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(record)


def gpu_tests(folder: str = "tests") -> list[str]:
    """Return the names of the tests below a folder that are marked ``gpu``."""
    done = _pytest("--collect-only", "-q", "-m", "gpu", folder)
    return [line for line in done.stdout.splitlines() if "::" in line]


def run_test(name: str, seconds: float) -> str:
    """Run one test; skipped is failed, as it says nothing of the GPU."""
    try:
        done = _pytest("-q", name, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "passed" if done.returncode == 0 and re.search(r"^1 passed", done.stdout, re.M) else "failed"


def _pytest(*arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def run_bench(name: str, seconds: float, record: Path, subject: dict[str, str]) -> str:
    """Run a bench, with PyTorch beside it where that is; write what it measured, a line for each record."""
    if seconds < LEAST:
        return "timeout"
    peers = ["--peer", "torch"] if importlib.util.find_spec("torch") else []
    command = [sys.executable, "-m", *name.split(), *peers, "--json", f"--seconds={seconds - AROUND:.0f}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return "failed"
    record.write_text(json.dumps(subject) + "\n" + done.stdout)
    return "passed"


def run_one(name: str, seconds: float, subject: dict[str, str]) -> str:
    """Run a test or a bench."""
    if name not in BENCHES:
        return run_test(name, seconds)
    return run_bench(name, seconds, RESULTS / f"{_slug(name)}-{_slug(subject['device'])}.jsonl", subject)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", name)


def subject_of_this_run() -> dict[str, str]:
    """Return the commit and the device that results are of."""
    from tagloom.streams import cuda_devices

    device = cuda_devices()[0].name
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    return {"commit": asked.stdout.strip() or "unknown, as this is no checkout", "device": device}


def main(arguments: list[str] | None = None) -> int:
    """Run a slice; 0 when all has passed, 1 when something failed or there is no GPU, 2 when something is left."""
    from tagloom.streams import CudaUnavailable

    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SLICE, help="of this slice (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        subject = subject_of_this_run()
    except (CudaUnavailable, IndexError) as error:
        print(f"bench.gpu: no GPU: {error}", file=sys.stderr)
        return 1
    record = RESULTS / f"gpu-{_slug(subject['device'])}.json"
    run = partial(run_one, subject=subject)
    left = run_slice([*gpu_tests(), *BENCHES], record, subject, options.seconds, run)
    results = _results(record, subject)
    for name, result in results.items():
        print(f"{result['outcome']:8} {result['seconds']:8.2f} s  {name}")
    print(f"{len(left)} left; {record}")
    failed = any(result["outcome"] != "passed" for result in results.values())
    return LEFT if left else int(failed or not results)


if __name__ == "__main__":
    sys.exit(main())
