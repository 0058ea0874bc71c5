"""``--device cuda`` of the benches of loops: a loop as one kernel, operation by operation, and the peers on the GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from .experiment import OURS, PEER_MODULES, BenchError, Case, Experiment, Factory, Step
from .lstm_memory_cuda import DEVICE, require_gpu


def on_cuda(experiment: Experiment, peers: Sequence[str]) -> Experiment:
    """Return an experiment on a GPU: its own engine takes options of sessions, those of PyTorch a device."""
    from tagflow.base.settings import Settings

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


def jax(factory: Factory, case: Case, stack: AsyncExitStack) -> Step:
    """Let JAX work on the GPU, with products in float32."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the others want memory too
    import jax

    if jax.default_backend() != "gpu":
        raise BenchError("peer 'jax' is installed without CUDA, or finds no GPU")
    jax.config.update("jax_default_matmul_precision", "highest")
    step = factory(case, stack)
    assert callable(step)
    return step
