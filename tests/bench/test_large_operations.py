"""Every registered operation has a program that runs it on many elements, or a reason why not."""

import subprocess
import sys
from pathlib import Path

from tests.support.tiers import choose

ROOT = Path(__file__).parents[2]
# In a process of its own, since some programs declare an operation for themselves.
ALL = """
import asyncio, sys
from bench import large_operations, loop_lag

async def main():
    every = large_operations.programs
    large_operations.programs = lambda: dict(list(every().items())[:: int(sys.argv[2])])
    step = await loop_lag.every_operation({"elements": int(sys.argv[1])})
    assert len({name.partition(":")[0] for name in every()}) > 150
    assert await step() == [len(large_operations.programs())]
    assert set(step.figures) == {loop_lag.P99, loop_lag.WORST} and all(step.figures.values())
    print(step.notes()[loop_lag.SLOWEST])

asyncio.run(main())
"""


def test_all_of_them_run():
    done = subprocess.run(
        [sys.executable, "-c", ALL, str(choose(thorough=20_000, default=2_000)), str(choose(1, 12))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" ms") == 8
