"""Every tunable of the engine, once, with its unit and the reason for its default."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import GraphError

AUTO = "auto"  # parallel_iterations of a loop whose iterations begin as memory allows
MOST = 256  # of them at once: enough to hide latencies, and few enough that the engine's own tables stay small
WINDOW = 32  # parallel_iterations of a loop unless given; the graph's, not a session's (Yu et al., 2018, section 4.3)


@dataclass(frozen=True, slots=True)
class Settings:
    """Knobs of a session; pass ``Session(graph, settings=Settings(...))`` to change one.

    Attributes
    ----------
    drain_seconds : float
        Longest time a step runs on the event loop before it yields.
    admission_seconds : float
        Longest wait of a step for its place when a session has ``max_steps``; then Overloaded. 0 refuses at once.
    blocking_threads : int
        How many blocking functions of a session run at once; those that outlive their step count until they end. Their
        threads are the session's own, as such functions may wait for those of another.
    workers : int or None
        Threads that do long kernels, next to the event loop; None for as many as there are cores, 0 for none. All
        sessions of the process that want equally many share them. While a session has some, the BLAS that kernels call
        is kept to one thread of its own.
    offload_seconds : float
        What a kernel should take at least to be given to a worker; ten times as long where no two workers could share
        it and nothing else can go on meanwhile. The way there and back took about 15 us on a virtual machine of two
        cores, and 400 to 500 on another one, where the worker slept.
    close_seconds : float
        Longest time that closing a session waits for functions that cannot be interrupted, and for what generators of
        the user do at their end.
    step_cache_size : int
        Compiled steps kept per session, least recently used first out.
    specialize : int
        For how many combinations of shapes of its feeds, each fed for the second time, a step with feeds of unknown
        sizes is compiled once more, for these sizes alone; 0 for none. More would cost more than they save where each
        step has other shapes.
    fold : bool
        Compute while compiling what depends on constants alone.
    fold_bytes : int
        Largest constant that folding may create.
    merge : bool
        Let operations that compute the same value be one.
    batch : bool
        Gather what a loop multiplies and adds up, as gradients of its weights, and multiply much of it at once.
    accumulate : bool
        Add products to running sums, as gradients of a loop's weights, where they stand.
    loop_invariants : bool
        Read loop variables that never change from outside their loop.
    hoist : bool
        Move constants out of loops, and what is the same in all iterations out of those that surely run.
    merge_products : bool
        Let products of a loop that share a factor, or are added up, be one product.
    hoist_bytes : int
        Most bytes of what is computed for all iterations of a loop at once in front of it, as the products of all its
        inputs; 0 for never. Under a limit of memory at most a part of that.
    block_bytes : int
        Most bytes of a block of fed rows, or of their products, that a loop takes at once where all of them would be
        too many; 0 for never. Under a limit of memory at most a part of that.
    narrow : bool
        Compute only the columns of a product that are used.
    broadcast_sums : bool
        Leave out sums over dimensions that were not broadcast, as gradients have where the batch is not known.
    forward_assignments : bool
        Compute with the value that a variable is assigned without waiting for the assignment.
    fuse : bool
        Run connected elementwise operations as one.
    release : bool
        Let go of a saved value when a backward loop has read it; off, when none of that loop's values are needed.
    straight : bool
        Run loops of operations that only compute as native programs, without a token for each value of each iteration.
    cluster : bool
        Run connected operations that only compute, outside of such loops, as native programs.
    llvm : bool
        Compile native programs that run long, where LLVM is installed (``pip install tagloom[jit]``).
    llvm_seconds : float
        How long a loop runs step by step before it is compiled on a thread of the event loop's; 0 compiles it when it
        first runs, and waits.
    coalesce_dead_signals : bool
        Let one message say for all values between two devices that are dead together that they are; off, one for each.
    native : bool
        Call kernels in C, or in CUDA C on a GPU, where an operation has one; off, the Python kernel of its definition.
    loops : bool
        Call inner loops, NumPy's and our own, on arrays and unboxed elements directly; off, the functions around them.
    reuse : bool
        Write a result into an input that nobody else holds; off, into a new array.
    pool : bool
        Take the data of arrays from a pool of the session, which counts them to the byte. Off, NumPy's own memory.
    pool_bytes : int
        Most bytes of freed arrays that the pool keeps for new ones.
    shuffle_seed : int or None
        Seed of a random ready order; None keeps first in, first out. Results never depend on it.
    check_passes : bool
        Hold the graph against its stage's legality table between all passes; off, because it only finds mistakes
        of the passes themselves. The environment variable TAGLOOM_CHECK_PASSES=1 turns the default on.
    dump : str
        Names of passes, separated by commas, behind which the program is printed to the standard error, or "all". The
        environment variable TAGLOOM_DUMP gives the default.
    observe : bool
        Let `tagloom top`, and whoever else this user lets, look at the session while it is open: see
        :meth:`Session.observe`. The environment variable TAGLOOM_OBSERVE=1 turns the default on.

    Examples
    --------
    >>> import tagloom as tg
    >>> settings = tg.Settings(drain_seconds=0.005, workers=0)
    >>> with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
    ...     int(session.run(tg.reduce_sum(tg.range(5))))
    10
    """

    drain_seconds: float = 1e-3
    admission_seconds: float = 5.0
    blocking_threads: int = 8
    workers: int | None = None
    offload_seconds: float = 150e-6
    close_seconds: float = 5.0
    step_cache_size: int = 256
    specialize: int = 8
    fold: bool = True
    fold_bytes: int = 1 << 20
    merge: bool = True
    batch: bool = True
    accumulate: bool = True
    loop_invariants: bool = True
    hoist: bool = True
    merge_products: bool = True
    hoist_bytes: int = 1 << 25
    block_bytes: int = 1 << 23
    narrow: bool = True
    broadcast_sums: bool = True
    forward_assignments: bool = True
    fuse: bool = True
    release: bool = True
    straight: bool = True
    cluster: bool = True
    llvm: bool = True
    llvm_seconds: float = 0.01
    coalesce_dead_signals: bool = True
    native: bool = True
    loops: bool = True
    reuse: bool = True
    pool: bool = True
    pool_bytes: int = 1 << 30
    shuffle_seed: int | None = None
    check_passes: bool = field(default_factory=lambda: os.environ.get("TAGLOOM_CHECK_PASSES") == "1")
    dump: str = field(default_factory=lambda: os.environ.get("TAGLOOM_DUMP", ""))
    observe: bool = field(default_factory=lambda: os.environ.get("TAGLOOM_OBSERVE") == "1")

    def without(self, *names: str) -> Settings:
        """Return these settings with fast paths switched off.

        Parameters
        ----------
        *names : str
            Fields that are fast paths, keys of ``FAST_PATHS``; "all" for all of them.

        Returns
        -------
        Settings

        Raises
        ------
        GraphError
            If there is no such fast path.

        Examples
        --------
        >>> import tagloom as tg
        >>> tg.Settings().without("fuse", "native").fuse
        False
        """
        wanted = [*FAST_PATHS] if "all" in names else names
        for name in wanted:
            if name not in FAST_PATHS:
                raise GraphError(
                    "no such fast path", wanted=", ".join(FAST_PATHS), got=name, hint="or all of them: all"
                )
        return replace(self, **{name: FAST_PATHS[name] for name in wanted})


# What makes steps fast, and changes no result but for rounding: each field with the value that switches it off.
FAST_PATHS: dict[str, Any] = {
    "specialize": 0,
    "fold": False,
    "merge": False,
    "loop_invariants": False,
    "hoist": False,
    "merge_products": False,
    "hoist_bytes": 0,
    "block_bytes": 0,
    "narrow": False,
    "batch": False,
    "accumulate": False,
    "broadcast_sums": False,
    "forward_assignments": False,
    "fuse": False,
    "release": False,
    "straight": False,
    "cluster": False,
    "llvm": False,
    "coalesce_dead_signals": False,
    "native": False,
    "loops": False,
    "reuse": False,
    "pool": False,
    "workers": 0,
}

DEFAULTS = Settings()
