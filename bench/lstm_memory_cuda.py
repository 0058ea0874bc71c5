"""``bench lstm_memory --device cuda``: the training step of `lstm_memory` on a GPU, in a part of its memory.

The limit is what the plain step takes at some length, and 5 % more. ``host`` swaps what the gradient needs to
page-locked memory, PyTorch by ``save_on_cpu``; ``recompute`` saves the loop variables of every 25th iteration only.
PyTorch has no limit; the side "torch-eager" keeps everything on the GPU in all modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from . import lstm_memory
from .experiment import Case, Experiment, Observed
from .lstm_memory import BEYOND, EVERY, MEMORY, SWAP, problem
from .lstm_train import cell
from .on_cuda import DEVICE, require_gpu

MARGIN = 1.05  # of the limit, over what fits
FITS, FITS_QUICKLY = 200, 50  # steps that fit


async def limited(case: Case, stack: AsyncExitStack) -> Observed:
    """Train within the limit."""
    import tagloom as tg

    limit = int(MARGIN * await plain_bytes(tg, case["fits"]))
    notes = {BEYOND: await beyond(tg, case["fits"], limit)} if case["mode"] == "none" else {}
    session, device, step = await trained(tg, case, stack, memory_limit=limit, **_swap(tg, case))

    def noted() -> dict[str, str]:
        text = f"device at most {device.peak_bytes / 1e6:.1f} of {limit / 1e6:.1f} MB"
        return {**notes, MEMORY: text, SWAP: "; ".join(map(str, session.report().swap)) or "off"}

    return Observed(step, {}, noted)


async def unlimited(case: Case, stack: AsyncExitStack) -> Observed:
    """Run the same program without a limit."""
    import tagloom as tg

    _, device, step = await trained(tg, case, stack)
    return Observed(step, {}, lambda: {MEMORY: f"device at most {device.peak_bytes / 1e6:.1f} MB"})


async def trained(tg: Any, case: Case, stack: AsyncExitStack, **options: Any) -> tuple[Any, Any, Callable[[], Any]]:
    """Return a session with options on a GPU, that, and the training step."""
    from tagloom.streams import CudaDevice

    device = await stack.enter_async_context(CudaDevice(DEVICE, computes=True))
    given = problem(case["length"])
    session, step = await lstm_memory.trained(tg, given, case["mode"], stack, devices=[device], **options)
    return session, device, step


async def plain_bytes(tg: Any, length: int) -> int:
    """Return what the plain step takes at most on the device."""
    async with AsyncExitStack() as stack:
        _, device, step = await trained(tg, {"length": length, "mode": "none"}, stack)
        await step()
        return int(device.peak_bytes)


async def beyond(tg: Any, fits: int, limit: int) -> str:
    """Say what becomes of a step that is a fifth longer than what fits."""
    case = {"length": fits * 6 // 5, "mode": "none"}
    async with AsyncExitStack() as stack:
        _, _, step = await trained(tg, case, stack, memory_limit=limit)
        return await lstm_memory.ending(tg, case["length"], step)


def _swap(tg: Any, case: Case) -> dict[str, Any]:
    return {"swap": tg.SwapPolicy()} if case["mode"] == "host" else {}


def torch(case: Case, stack: AsyncExitStack) -> Observed:
    """Train with PyTorch in its way of each mode."""
    return _torch(case, case["mode"])


def torch_eager(case: Case, stack: AsyncExitStack) -> Observed:
    """Train with PyTorch and keep everything on the GPU."""
    return _torch(case, "none")


def _torch(case: Case, mode: str) -> Observed:
    import torch

    save_on_cpu = torch.autograd.graph.save_on_cpu
    torch.backends.cuda.matmul.allow_tf32 = False
    given = {name: torch.from_numpy(value) for name, value in problem(case["length"]).items()}
    rows = [given[name].pin_memory() for name in ("inputs", "targets")]
    w, b = (given[name].cuda().requires_grad_() for name in ("kernel", "bias"))
    start = given["state"].cuda()

    def step() -> list[np.ndarray]:
        inputs, targets = (each.to("cuda", non_blocking=True) for each in rows)
        with save_on_cpu(pin_memory=True) if mode == "host" else nullcontext():
            loss = _forward(torch, mode, (w, b), start, inputs, targets)
        return [v.detach().cpu().numpy() for v in (loss, *torch.autograd.grad(loss, [w, b]))]

    def noted() -> dict[str, str]:
        return {MEMORY: f"device at most {torch.cuda.max_memory_allocated() / 1e6:.1f} MB"}

    return Observed(step, {}, noted)


def _forward(torch: Any, mode: str, weights: tuple[Any, Any], start: Any, inputs: Any, targets: Any) -> Any:
    """Return the loss of a Python loop, over pieces that are computed again if the mode says so."""
    from torch.utils.checkpoint import checkpoint

    w, b = weights

    def piece(h: Any, c: Any, loss: Any, xs: Any, ys: Any) -> tuple[Any, ...]:
        for x, y in zip(xs, ys, strict=True):
            h, c = cell(torch, (torch.cat([x, h], 1) @ w + b).chunk(4, 1), c)
            loss = loss + (h - y).square().mean()
        return h, c, loss

    values: tuple[Any, ...] = start, start, torch.zeros((), device=start.device)
    if mode != "recompute":
        return piece(*values, inputs, targets)[2]
    for k in range(0, len(inputs), EVERY):
        rows = slice(k, k + EVERY)
        values = checkpoint(piece, *values, inputs[rows], targets[rows], use_reentrant=False)
    return values[2]


def unable(case: Case) -> dict[str, str]:
    """Return who does nothing of its own in a mode."""
    return {"torch-eager": "that is what torch does in this mode"} if case["mode"] == "none" else {}


def cases(fits: int) -> tuple[Case, ...]:
    """Return the cases of a limit: what fits, and up to four times that."""
    lengths = [(fits, "none"), (fits, "host"), (2 * fits, "host"), (4 * fits, "host"), (4 * fits, "recompute")]
    return tuple({"fits": fits, "length": length, "mode": mode} for length, mode in lengths)


def on_cuda(experiment: Experiment, peers: Sequence[str]) -> Experiment:
    """Return the experiment on a GPU; BenchError names what is missing for that."""
    name = f"{experiment.name} --device cuda"
    require_gpu(name, peers)
    return replace(
        experiment,
        name=name,
        cases=cases(FITS),
        quick_cases=cases(FITS_QUICKLY),
        engines={"tagloom": limited, "unlimited": unlimited, "torch": torch, "torch-eager": torch_eager},
        unable=unable,
        peak=None,
        tolerances={},
        baseline="the longest that fits",
    )
