"""Loops with each operation that computes: native or called, values and gradients with the bits of the step machine."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.ops.sample_loops import CHOSEN, NEITHER, loop_of
from tests.ops.samples import build, flat
from tests.support.settings import ON
from tests.support.tiers import choose

BATCH = 32
PLAIN = replace(ON, straight=False)
NATIVE = {"straight": replace(ON, llvm=False), "llvm": ON}
NARROW = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
# Gradients of these have operations whose shapes depend on values.
ON_STEPS = {"DynamicStitchGrad", "SegmentProdOthers"}
ONE_PRECISION = {"CustomGradient", "IdentityN"}  # their samples have functions of one dtype


def narrowed(sample):
    """Return a sample with inputs of half the precision."""

    def narrow(x):
        if isinstance(x, list):
            return [narrow(each) for each in x]
        array = np.asarray(x)
        return array.astype(NARROW.get(array.dtype, array.dtype))

    inputs = [narrow(x) for x in sample.inputs]
    # What is expected is only looked at for its shapes.
    return replace(sample, inputs=inputs)


def builds(definition, sample):
    """Return True if a sample's operation takes its inputs."""
    with tg.Graph().as_default():
        try:
            build(definition, sample, tg.constant)
        except tg.TagloomError:
            return False
    return True


def cases():
    """Return the first sample of each operation in both precisions, if it has numbers of these."""
    found = {}
    for definition, sample in CHOSEN:
        if definition.type not in NEITHER:
            found.setdefault((definition.type, False), (definition, sample))
            has_other = any(a.dtype in NARROW for a in flat(sample.inputs)) and definition.type not in ONE_PRECISION
            if has_other and builds(definition, narrowed(sample)):
                found.setdefault((definition.type, True), (definition, narrowed(sample)))
    return [found[key] for key in sorted(found)]


CASES = cases()


def with_gradients(definition, sample, feeds):
    """Return the results of a sample's loop, then its gradients if it has some."""
    before = set(feeds)
    ys = loop_of(definition, sample, feeds, is_shaped=True)
    mine = [p for p in feeds if p not in before and p.dtype.is_differentiable]
    targets = [y for y in ys if y.dtype.is_differentiable]
    try:
        found = tg.gradients(targets, mine) if targets and mine else []
    except tg.TagloomError:  # no gradient is defined
        found = []
    return [*ys, *(g for g in found if g is not None)]


async def run_loops(chosen, settings):
    """Return, for each case, its results, and the reports of all loops by name."""
    with tg.Graph().as_default() as graph:
        feeds, fetches = {}, []
        for number, (definition, sample) in enumerate(chosen):
            with tg.name_scope(f"case_{number}"):
                fetches.append(with_gradients(definition, sample, feeds))
    async with tg.Session(graph, settings=settings) as session:
        return await session.run(fetches, feeds), session.report().loops


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bits_of_values_and_gradients_are_those_of_the_step_machine():
    every = choose(thorough=1, default=24)
    chosen, unequal, on_steps = CASES[::every], [], []
    for start in range(0, len(chosen), BATCH):
        batch = chosen[start : start + BATCH]
        wanted, _ = asyncio.run(run_loops(batch, PLAIN))
        for name, settings in NATIVE.items():
            found, loops = asyncio.run(run_loops(batch, settings))
            for (definition, _), ours, theirs in zip(batch, found, wanted, strict=True):
                if [np.asarray(a).tobytes() for a in ours] != [np.asarray(a).tobytes() for a in theirs]:
                    unequal.append((definition.type, name))
            for loop in loops:
                if loop.limited_by != "native":
                    definition, _ = batch[int(loop.name.partition("/")[0].removeprefix("case_"))]
                    on_steps.append((definition.type, loop.name, loop.not_native))
    assert unequal == []
    assert [each for each in on_steps if each[0] not in ON_STEPS] == []
