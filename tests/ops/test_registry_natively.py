"""Loops with each operation that computes: native or called, values and gradients with the bits of the step machine."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.monitoring.sample_loops import loop_of

from tests.ops.sample_loops import CHOSEN, NEITHER
from tests.ops.samples import flat
from tests.support.settings import ON
from tests.support.tiers import choose

BATCH = 32
PLAIN = replace(ON, straight=False)
NATIVE = {"straight": replace(ON, llvm=False), "llvm": ON}
NARROW = {tg.float64: tg.float32, tg.complex128: tg.complex64}
NO_GRADIENT = {"PreventGradient"}  # which refuses to be differentiated
# Gradients of these have operations whose shapes depend on values.
ON_STEPS = {"DynamicStitchGrad", "SegmentProdOthers"}
ONE_PRECISION = {"CustomGradient", "IdentityN"}  # their samples have functions of one dtype


def narrowed(sample):
    """Return a sample with inputs of half the precision, and the attributes that go with them."""

    def narrow(x):
        if isinstance(x, list):
            return [narrow(each) for each in x]
        array = np.asarray(x)
        dtype = tg.as_dtype(array.dtype)
        return array.astype(NARROW.get(dtype, dtype).numpy)

    attrs = {
        name: NARROW.get(value, value) if isinstance(value, tg.DType) else value for name, value in sample.attrs.items()
    }
    # What is expected is only looked at for its shapes.
    return replace(sample, inputs=[narrow(x) for x in sample.inputs], attrs=attrs)


def cases():
    """Return the first sample of each operation in both precisions, if it has numbers of these."""
    found = {}
    for definition, sample in CHOSEN:
        if definition.type not in NEITHER:
            found.setdefault((definition.type, False), (definition, sample))
            is_wide = any(tg.as_dtype(a.dtype) in NARROW for a in flat(sample.inputs))
            if is_wide and definition.type not in ONE_PRECISION:
                found.setdefault((definition.type, True), (definition, narrowed(sample)))
    return [found[key] for key in sorted(found)]


CASES = cases()


def with_gradients(definition, sample, feeds):
    """Return the results of a sample's loop, then its gradients if it has some."""
    before = set(feeds)
    ys = loop_of(definition, sample, feeds, is_shaped=True)
    mine = [p for p in feeds if p not in before and p.dtype.is_differentiable]
    targets = [y for y in ys if y.dtype.is_differentiable]
    has_gradient = targets and mine and definition.type not in NO_GRADIENT
    found = tg.gradients(targets, mine) if has_gradient else []
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
