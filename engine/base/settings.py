"""Every tunable of the engine, with its unit and the reason for its default."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from .errors import GraphError
from .registrations import REGISTERED_PASSES

AUTO = "auto"  # parallel_iterations of a loop whose iterations start as memory allows
MOST = 256  # iterations at once under AUTO: enough to hide latencies, few enough to keep the engine's tables small
WINDOW = 32  # default parallel_iterations of a loop; the graph's, not a session's (Yu et al., 2018, section 4.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Switches and bounds of the compiler's passes and of the step machine, for tests, measurements and debugging.

    No switch changes results, except for rounding. ``Settings(fuse=False)`` is short for
    ``Settings(switches=Switches(fuse=False))``.

    Attributes
    ----------
    fold : bool
        Compute values depending on constants alone at compile time.
    fold_bytes : int
        Largest constant that folding may create.
    merge : bool
        Merge operations with the same value.
    batch : bool
        Collect the factors of summed products of a loop, such as gradients of its weights, and multiply many
        at once.
    accumulate : bool
        Add products to running sums in place, for gradients of a loop's weights.
    loop_invariants : bool
        Read unchanging loop variables from outside their loop.
    hoist : bool
        Move constants out of loops, and loop-invariant values out of loops certain to run.
    merge_products : bool
        Merge products of a loop that share a factor, or are summed, into a single product.
    hoist_bytes : int
        Most bytes of values computed before a loop for all its iterations at once, such as the products of all its
        inputs; 0 for never. Under a memory limit, at most a share of the limit.
    block_bytes : int
        Most bytes of a block of fed rows, or of their products, processed by a loop at once where all rows would be
        too many; 0 for never. Under a memory limit, at most a share of the limit.
    narrow : bool
        Compute only the used columns of a product.
    broadcast_sums : bool
        Omit sums over dimensions without broadcasting, which gradients contain when the batch size is unknown.
    forward_assignments : bool
        Compute with the value assigned to a variable without waiting for the assignment.
    fuse : bool
        Run connected elementwise operations as a single operation.
    release : bool
        Free a saved value after its read by a backward loop; if off, when none of the loop's values are needed.
    keep_products : bool
        Leave products in loops whose native programs multiply as fast as before the loop, wherever the loop runs.
    straight : bool
        Run loops of purely computing operations as native programs, without a token for each value and iteration.
    cluster : bool
        Run connected, purely computing operations, outside of such loops, as native programs.
    llvm : bool
        Compile long-running native programs, if LLVM is installed (``pip install tagloom[jit]``).
    llvm_seconds : float
        Time of a loop's execution step by step before compilation on a thread other than the event loop's; 0 compiles
        the loop before its first run.
    coalesce_dead_signals : bool
        Send a single message for values between two devices dead together; if off, a message for each value.
    native : bool
        Call kernels in C, or in CUDA C on a GPU, where an operation has one; if off, the Python kernel of its
        definition.
    loops : bool
        Call inner loops, NumPy's and our own, on arrays and unboxed elements directly; if off, the functions around
        them.
    reuse : bool
        Write a result into an input without other references; if off, into a new array.
    pool : bool
        Allocate the data of arrays from a pool of the session, which counts every byte. If off, from NumPy.
    shuffle_seed : int or None
        Seed of a random ready order; None keeps first in, first out. Results never depend on the seed.
    check_passes : bool
        Check the graph against its stage's legality table between all passes; off by default, since the check only
        finds mistakes of the passes themselves. The environment variable TAGLOOM_CHECK_PASSES=1 turns the default on.
    passes_off : tuple of str
        Names of passes to leave out that outside packages register (``tagloom.operations.register_pass``), now or
        later; "all" for all of them.
    dump : str
        Names of passes, separated by commas, after which the program is printed to the standard error, or "all". The
        environment variable TAGLOOM_DUMP sets the default.

    Examples
    --------
    >>> import tagloom as tg
    >>> settings = tg.Settings(switches=tg.Switches(fuse=False))
    >>> settings == tg.Settings(fuse=False)
    True
    """

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
    keep_products: bool = True
    straight: bool = True
    cluster: bool = True
    llvm: bool = True
    llvm_seconds: float = 0.01
    coalesce_dead_signals: bool = True
    native: bool = True
    loops: bool = True
    reuse: bool = True
    pool: bool = True
    shuffle_seed: int | None = None
    check_passes: bool = field(default_factory=lambda: os.environ.get("TAGLOOM_CHECK_PASSES") == "1")
    passes_off: tuple[str, ...] = ()
    dump: str = field(default_factory=lambda: os.environ.get("TAGLOOM_DUMP", ""))


_SWITCHES = {each.name: each for each in fields(Switches)}


def _describe_unknown(name: str) -> str:
    """Return the message about a keyword that names neither a knob nor a switch."""
    near = get_close_matches(name, [*(each.name for each in fields(Settings)), *_SWITCHES], 1)
    return f"Settings() has no knob or switch {name!r}" + (f"; try: {near[0]}" if near else "")


@dataclass(frozen=True, slots=True, init=False)
class Settings:
    """Knobs of a session; pass ``Session(graph, settings=Settings(...))`` to change them.

    Attributes
    ----------
    drain_seconds : float
        Longest time a step runs on the event loop before yielding.
    admission_seconds : float
        Longest wait of a step for its place when a session has ``max_steps``; then Overloaded. 0 refuses at once.
    blocking_threads : int
        Blocking functions of a session running at once; functions outliving their step count until they end. The
        threads belong to the session, since such functions may wait for functions of another session.
    workers : int or None
        Threads for long kernels, next to the event loop; None for the number of cores, 0 for none. All sessions
        of the process with an equal number share the threads. While a session has workers, the BLAS called by kernels
        is limited to a single thread of its own.
    offload_seconds : float
        Least estimated time of a kernel sent to a worker; ten times as long where no two workers could share
        the kernel and nothing else can go on meanwhile. The round trip took about 15 us on a virtual machine of two
        cores, and 400 to 500 us on another machine, where the worker slept.
    close_seconds : float
        Longest wait of a closing session for functions which cannot be interrupted, and for the cleanup of the
        user's generators.
    step_cache_size : int
        Compiled steps kept per session; the least recently used step is evicted first.
    specialize : int
        Number of shape combinations of its feeds, each fed for the second time, for which a step with feeds of unknown
        sizes is compiled again, specialized to these sizes; 0 for none. More would cost more than they save if the
        shapes of each step differ.
    pool_bytes : int
        Most bytes of freed arrays kept in the pool for new ones.
    observe : bool, optional
        Allow `tagloom top`, and others permitted by this user, to inspect the open session: see
        :meth:`Session.observe`. The environment variable TAGLOOM_OBSERVE=1 turns the default
        on.
    switches : Switches, optional
        Switches of the passes and of the step machine. Each of them may also be given, and read, by its own name:
        ``Settings(fuse=False).fuse``.

    Raises
    ------
    TypeError
        If there is no such knob or switch.

    Examples
    --------
    >>> import tagloom as tg
    >>> settings = tg.Settings(drain_seconds=0.005, workers=0)
    >>> with tg.Graph().as_default() as graph, tg.SyncSession(graph, settings=settings) as session:
    ...     int(session.run(tg.reduce_sum(tg.range(5))))
    10
    """

    drain_seconds: float
    admission_seconds: float
    blocking_threads: int
    workers: int | None
    offload_seconds: float
    close_seconds: float
    step_cache_size: int
    specialize: int
    pool_bytes: int
    observe: bool
    switches: Switches

    def __init__(
        self,
        drain_seconds: float = 1e-3,
        admission_seconds: float = 5.0,
        blocking_threads: int = 8,
        workers: int | None = None,
        offload_seconds: float = 150e-6,
        close_seconds: float = 5.0,
        step_cache_size: int = 256,
        specialize: int = 8,
        *,
        pool_bytes: int = 1 << 30,
        observe: bool | None = None,
        switches: Switches | None = None,
        **single: Any,
    ) -> None:
        chosen = Switches() if switches is None else switches
        if not isinstance(chosen, Switches):
            raise GraphError(
                "switches are an object of their own",
                wanted="Switches",
                got=repr(switches),
                hint="as Settings(switches=Switches(fuse=False)), or short: Settings(fuse=False)",
            )
        if unknown := single.keys() - _SWITCHES.keys():
            raise TypeError(_describe_unknown(min(unknown)))
        if observe is None:
            observe = os.environ.get("TAGLOOM_OBSERVE") == "1"
        knobs = (
            *(drain_seconds, admission_seconds, blocking_threads, workers, offload_seconds, close_seconds),
            *(step_cache_size, specialize, pool_bytes, observe),
            replace(chosen, **single) if single else chosen,
        )
        for each, value in zip(fields(self), knobs, strict=True):
            object.__setattr__(self, each.name, value)

    if not TYPE_CHECKING:  # the engine reads switches where they are, which type checkers then hold

        def __getattr__(self, name):
            # Called for names without a slot, and while an object that is unpickled has no values yet.
            if name in _SWITCHES:
                return getattr(self.switches, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def without(self, *names: str) -> Settings:
        """Return these settings with fast paths switched off.

        Parameters
        ----------
        *names : str
            Names of fast paths, keys of ``FAST_PATHS``, or of registered passes; "all" for all of them.

        Returns
        -------
        Settings

        Raises
        ------
        GraphError
            If a name is no fast path and no registered pass.

        Examples
        --------
        >>> import tagloom as tg
        >>> tg.Settings().without("fuse", "native").fuse
        False
        """
        registered = REGISTERED_PASSES.entries
        for name in names:
            if name not in FAST_PATHS and name not in registered and name != "all":
                known = ", ".join([*FAST_PATHS, *map(str, registered)])
                raise GraphError("no such fast path", wanted=known, got=name, hint="or all of them: all")
        wanted = FAST_PATHS if "all" in names else [name for name in names if name in FAST_PATHS]
        # "all" stands for passes that are registered later, too.
        off = {*self.switches.passes_off, *(name for name in names if name not in FAST_PATHS)}
        changed: dict[str, Any] = {"passes_off": tuple(sorted(off)), **{name: FAST_PATHS[name] for name in wanted}}
        return replace(self, **changed)

    def runs_pass(self, name: str) -> bool:
        """Return True unless a registered pass is left out.

        Examples
        --------
        >>> import tagloom as tg
        >>> tg.Settings(passes_off=("slow_pass",)).runs_pass("slow_pass")
        False
        """
        return name not in self.switches.passes_off and "all" not in self.switches.passes_off


# Knobs and switches that make steps fast and change results by rounding at most: each with the value that turns it off.
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
    "keep_products": False,
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
