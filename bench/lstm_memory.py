"""How long a sequence an LSTM can be trained on in a memory that plain execution fills at 50 steps.

Batch 64, 512 units; the inputs are rows of a feed, and the loss is summed up in the loop (Yu et al., 2018, Table 1).
Modes: ``none`` keeps what the gradient needs in the device's memory; ``host`` swaps it to memory outside the limit;
``disk`` half of it to a file; ``recompute`` saves the loop variables of every 25th iteration only. The side "unlimited"
runs the same program without a limit; peers have none and do each mode in their own way, or can not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed, Step
from .lstm_train import cell
from .memory import PeakMemory

BATCH, UNITS = 64, 512
FITS = 50  # steps
LIMIT = 128_000_000  # bytes: FITS steps fit, 60 do not
EVERY = 25
SAVED = 1_100_000  # bytes saved in an iteration, at most
HOST_STEPS = 800
MEMORY, SWAP, BEYOND = "memory", "swap", "beyond"

Problem = Mapping[str, np.ndarray]


def problem(length: int) -> Problem:
    """Draw the numbers of a case, all float32."""
    random = np.random.default_rng(0)
    return {
        "inputs": random.standard_normal((length, BATCH, UNITS), np.float32),
        "targets": random.standard_normal((length, BATCH, UNITS), np.float32),
        "kernel": random.standard_normal((2 * UNITS, 4 * UNITS), np.float32) / np.float32(np.sqrt(2 * UNITS)),
        "bias": random.standard_normal(4 * UNITS, np.float32) / np.float32(10),
        "state": np.zeros((BATCH, UNITS), np.float32),
    }


def training(tg: Any, given: Problem, mode: str) -> tuple[Any, Any, list[Any], list[Any]]:
    """Build the graph of a mode; return it, its initializer, feeds and fetches."""
    length = len(given["inputs"])
    how = {"none": {}, "recompute": {"checkpoint_every": EVERY}}.get(mode, {"swap_memory": True})
    with tg.Graph().as_default() as graph:
        feeds = [tg.placeholder("float32", given["inputs"].shape) for _ in range(2)]
        w, b = tg.Variable(given["kernel"]), tg.Variable(given["bias"])
        xs, ys = (tg.TensorArray("float32", length).unstack(feed) for feed in feeds)

        def body(t: Any, h: Any, c: Any, loss: Any) -> tuple[Any, ...]:
            gates = tg.split(tg.matmul(tg.concat([xs.read(t), h], 1), w) + b, 4, axis=1)
            h, c = cell(tg, gates, c)
            return t + 1, h, c, loss + tg.reduce_mean(tg.square(h - ys.read(t)))

        start = [0, tg.constant(given["state"]), tg.constant(given["state"]), 0.0]
        loss = tg.while_loop(lambda t, *_: t < length, body, start, **how)[3]
        return graph, tg.global_variables_initializer(), feeds, [loss, *tg.gradients(loss, [w, b])]


def policy(tg: Any, case: Case) -> Any:
    """Return where saved values go: to the host's memory, or half of them to a file."""
    if case["mode"] == "disk":
        return tg.SwapPolicy(host_limit=case["length"] * SAVED // 2, disk=tempfile.gettempdir())
    return tg.SwapPolicy(host_limit=HOST_STEPS * SAVED)


async def limited(case: Case, stack: AsyncExitStack) -> Observed:
    """Train within the limit."""
    import tagloom as tg

    notes = {}
    if case["mode"] == "none":
        notes[BEYOND] = await beyond(tg)
    given = problem(case["length"])
    grown = PeakMemory()
    rose = 0
    session, step = await trained(tg, given, case["mode"], stack, memory_limit=LIMIT, **_swap(tg, case))

    async def watched() -> Any:
        """Run the step; what the bench does with its values afterwards does not count."""
        nonlocal rose
        grown.forget()
        values = await step()
        rose = max(rose, grown.bytes())
        return values

    def noted() -> dict[str, str]:
        swap = session.report().swap
        host = sum(each.peak_bytes.get("host", 0) for each in swap)
        device = session.statistics().peak_bytes
        text = (
            f"device at most {device / 1e6:.1f} of {LIMIT / 1e6:.0f} MB; process grew by {rose / 1e6:.0f} MB, "
            f"limit and host tier are {(LIMIT + host) / 1e6:.0f} MB"
        )
        return {**notes, MEMORY: text, SWAP: "; ".join(map(str, swap)) or "off"}

    return Observed(watched, {}, noted)


async def unlimited(case: Case, stack: AsyncExitStack) -> Step:
    """Run the same program without a limit."""
    import tagloom as tg

    return (await trained(tg, problem(case["length"]), case["mode"], stack))[1]


async def trained(tg: Any, given: Problem, mode: str, stack: AsyncExitStack, **options: Any) -> tuple[Any, Step]:
    """Return a session with options and its training step."""
    graph, initialize, feeds, fetches = training(tg, given, mode)
    session = await stack.enter_async_context(tg.Session(graph, **options))
    await session.run(initialize)
    step = session.make_step(fetches, feeds)
    return session, lambda: step(given["inputs"], given["targets"])


async def beyond(tg: Any) -> str:
    """Say what becomes of a step that is a fifth longer than what fits."""
    length = FITS * 6 // 5
    async with AsyncExitStack() as stack:
        _, step = await trained(tg, problem(length), "none", stack, memory_limit=LIMIT)
        return await ending(tg, length, step)


async def ending(tg: Any, length: int, step: Step) -> str:
    """Say how a step of so many iterations ends."""
    try:
        await step()
    except tg.DeviceMemoryError as error:
        return f"{length} steps end with DeviceMemoryError: {error.details()[0][1] or 'no room'}"
    return f"{length} steps fit too"


def _swap(tg: Any, case: Case) -> dict[str, Any]:
    return {"swap": policy(tg, case)} if case["mode"] in ("host", "disk") else {}


def torch(case: Case, stack: AsyncExitStack) -> Callable[[], list[np.ndarray]]:
    """Train with PyTorch: a Python loop, with hooks that write saved tensors to a file each, or checkpoints."""
    import torch
    from torch.utils.checkpoint import checkpoint

    given = {name: torch.from_numpy(value) for name, value in problem(case["length"]).items()}
    w, b = given["kernel"].requires_grad_(), given["bias"].requires_grad_()
    context = _on_disk(torch, stack) if case["mode"] == "disk" else AsyncExitStack

    def piece(h: Any, c: Any, loss: Any, xs: Any, ys: Any) -> tuple[Any, ...]:
        for x, y in zip(xs, ys, strict=True):
            h, c = cell(torch, (torch.cat([x, h], 1) @ w + b).chunk(4, 1), c)
            loss = loss + (h - y).square().mean()
        return h, c, loss

    def forward() -> Any:
        values = given["state"], given["state"], torch.zeros(())
        if case["mode"] != "recompute":
            return piece(*values, given["inputs"], given["targets"])[2]
        for k in range(0, case["length"], EVERY):
            rows = slice(k, k + EVERY)
            values = checkpoint(piece, *values, given["inputs"][rows], given["targets"][rows], use_reentrant=False)
        return values[2]

    def step() -> list[np.ndarray]:
        if case["mode"] != "disk":
            loss = forward()
        else:
            with context():
                loss = forward()
        return [v.detach().numpy() for v in (loss, *torch.autograd.grad(loss, [w, b]))]

    return step


def _on_disk(torch: Any, stack: AsyncExitStack) -> Callable[[], Any]:
    """Return a context in which tensors saved for the gradient are written to files, and read when they are needed."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    count = 0

    def pack(tensor: Any) -> Any:
        nonlocal count
        if tensor.nbytes < SAVED // 100 or (tensor.requires_grad and tensor.is_leaf):
            return tensor
        count += 1
        path = f"{folder}/{count}.npy"
        np.save(path, tensor.detach().numpy())
        return path

    def unpack(packed: Any) -> Any:
        return torch.from_numpy(np.load(packed)) if isinstance(packed, str) else packed

    return lambda: torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def jax(case: Case, stack: AsyncExitStack) -> Callable[[], list[np.ndarray]]:
    """Train with JAX: a compiled scan, or a scan of rematerialised scans."""
    import jax
    import jax.numpy as jnp

    given = problem(case["length"])

    def body(weights: Any, carry: Any, row: Any) -> tuple[Any, None]:
        h, c, loss = carry
        x, y = row
        h, c = cell(jax.nn, jnp.split(jnp.concatenate([x, h], 1) @ weights[0] + weights[1], 4, axis=1), c)
        return (h, c, loss + jnp.mean(jnp.square(h - y))), None

    def piece(weights: Any, carry: Any, rows: Any) -> tuple[Any, None]:
        return jax.lax.scan(lambda values, row: body(weights, values, row), carry, rows)

    def loss(weights: Any, inputs: Any, targets: Any) -> Any:
        start = given["state"], given["state"], jnp.float32(0)
        if case["mode"] != "recompute":
            return piece(weights, start, (inputs, targets))[0][2]
        pieces = [each.reshape(-1, EVERY, *each.shape[1:]) for each in (inputs, targets)]
        remat = jax.checkpoint(piece)
        return jax.lax.scan(lambda carry, rows: remat(weights, carry, rows), start, tuple(pieces))[0][2]

    compiled = jax.jit(jax.value_and_grad(loss))
    weights = jax.device_put((given["kernel"], given["bias"]))

    def step() -> list[np.ndarray]:
        value, gradients = compiled(weights, given["inputs"], given["targets"])
        return [np.asarray(v) for v in (value, *gradients)]

    return step


def unable(case: Case) -> dict[str, str]:
    """Return who can not do a mode on a CPU."""
    return {
        "host": {
            "torch": "save_on_cpu moves nothing where tensors are on the CPU already",
            "jax": "offloading to the host needs a device with a memory of its own",
        },
        "disk": {"jax": "it has no way to save residuals to a file"},
    }.get(case["mode"], {})


def on_cuda(experiment: Experiment, peers: Sequence[str]) -> Experiment:
    """Return the experiment on a GPU."""
    from . import lstm_memory_cuda

    return lstm_memory_cuda.on_cuda(experiment, peers)


EXPERIMENT = Experiment(
    name="lstm_memory",
    cases=(
        {"length": 50, "mode": "none"},
        {"length": 50, "mode": "host"},
        {"length": 100, "mode": "host"},
        {"length": 200, "mode": "host"},
        {"length": 400, "mode": "host"},
        {"length": 800, "mode": "host"},
        {"length": 1600, "mode": "disk"},
        {"length": 800, "mode": "recompute"},
    ),
    quick_cases=(
        {"length": 50, "mode": "none"},
        {"length": 50, "mode": "host"},
        {"length": 200, "mode": "host"},
        {"length": 200, "mode": "disk"},
        {"length": 200, "mode": "recompute"},
    ),
    engines={"tagloom": limited, "unlimited": unlimited, "torch": torch, "jax": jax},
    metric="milliseconds_per_iteration",
    time_unit=1e3,
    amount=lambda case: float(case["length"]),
    peak="peak_bytes",
    tolerance=2e-3,
    # A limit changes no bit of our own products (docs/memory.md). On other processors products are those of BLAS, and
    # without a limit those of inputs are made in larger blocks, so that sums of float32 are rounded in another order.
    tolerances={"unlimited": 1e-5},
    unable=unable,
    notes=(MEMORY, SWAP, BEYOND),
    devices={"cuda": on_cuda},
)
