"""``--device cuda``: what it needs, and the benches of loops there, beside the same loop operation by operation."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from .experiment import OURS, PEER_MODULES, BenchError, Case, Experiment, Factory, Step

DEVICE = "/gpu:0"


def torch_has_cuda() -> bool:
    """Say whether PyTorch sees a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def require_gpu(name: str, peers: Sequence[str]) -> None:
    """Raise a BenchError that names what an experiment on a GPU lacks."""
    from tagloom.streams import CudaUnavailable, cuda_devices
    from tagloom.streams.cuda.arrays import load_cupy

    try:
        load_cupy(True)
        found = cuda_devices()
    except CudaUnavailable as error:
        raise BenchError(f"{name} needs a GPU: {error}") from error
    if not found:
        raise BenchError(f"{name} needs a GPU, and pycuda finds none")
    for peer in peers:
        if PEER_MODULES[peer] == "torch" and not torch_has_cuda():
            raise BenchError(f"peer '{peer}' is installed without CUDA, or finds no GPU")


def loop_on_cuda(experiment: Experiment, peers: Sequence[str]) -> Experiment:
    """Return a bench of a loop on a GPU: its engine tagloom takes options of sessions, those of PyTorch a device."""
    from tagloom.base.settings import Settings

    name = f"{experiment.name} --device cuda"
    require_gpu(name, peers)
    ours = experiment.engines[OURS]
    engines: dict[str, Factory] = {
        OURS: partial(ours, devices=[DEVICE]),
        "launches": partial(ours, devices=[DEVICE], settings=Settings(straight=False, cluster=False)),
    }
    for peer, factory in experiment.engines.items():
        if PEER_MODULES.get(peer) == "torch":
            engines[peer] = partial(factory, device="cuda")
        if peer == "jax":
            engines[peer] = partial(jax, factory)
    return replace(experiment, name=name, engines=engines)


def jax(factory: Factory, case: Case, stack: AsyncExitStack) -> Step | Awaitable[Step]:
    """Let JAX work on the GPU, with products in float32."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the others want memory too
    import jax

    if jax.default_backend() != "gpu":
        raise BenchError("peer 'jax' is installed without CUDA, or finds no GPU")
    jax.config.update("jax_default_matmul_precision", "highest")
    return factory(case, stack)
