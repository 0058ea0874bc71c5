"""Checkpoints of a model with other sizes: what fits is restored, the rest keeps its values and is told."""

import logging

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import AdamOptimizer, Checkpointer, ExponentialMovingAverage, Mismatch

from tests.training.checkpoints.models import bits, variables

FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)


class Net:
    """A body and a head for some classes, trained by Adam."""

    def __init__(self, classes, first="body", optimizer=AdamOptimizer, dtype=np.float32):
        with tg.Graph().as_default() as self.graph:
            shapes = {"body": (3, 4), "head": (4, classes)}
            names = sorted(shapes) if first == "body" else sorted(shapes, reverse=True)
            own = {name: tg.Variable(np.ones(shapes[name], dtype), name=name) for name in names}
            loss = tg.reduce_sum(own["body"] @ own["head"])
            self.train = optimizer(0.1).minimize(loss)
            self.average = ExponentialMovingAverage(0.9).apply([own["head"]])
            self.init = tg.global_variables_initializer()


async def saved(directory, net, steps=3):
    async with tg.Session(net.graph) as session, Checkpointer(directory) as checkpointer:
        await session.run(net.init)
        for _ in range(steps):
            await session.run(net.train)
        await session.run(net.average)
        await (await checkpointer.save(session, steps))
        return await session.read_variables()


async def restored(directory, net, **options):
    async with tg.Session(net.graph) as session, Checkpointer(directory) as checkpointer:
        await session.run(net.init)
        before = await session.read_variables()
        found = await checkpointer.restore(session, **options)
        return found, before, await session.read_variables()


@pytest.mark.parametrize("first", ["body", "head"])
@pytest.mark.parametrize(
    "options", [{"partial": True}, {"on_mismatch": "skip"}, {"on_mismatch": ["head"]}, {"on_mismatch": ["head/"]}]
)
async def test_a_head_of_another_size_keeps_its_values_and_its_slots(tmp_path, caplog, first, options):
    old = await saved(tmp_path, Net(5, first))
    with caplog.at_level(logging.WARNING, "tagloom"):
        found, before, after = await restored(tmp_path, Net(7, first), **options)
    kept = ("head", "head/Adam/m", "head/Adam/v", "head/ExponentialMovingAverage")
    shared = f"{first}/Adam/beta1_power"
    assert {name for name in after if after[name].tobytes() == before[name].tobytes()} >= set(kept)
    assert bits({name: after[name] for name in found.variables}) == bits({name: old[name] for name in found.variables})
    assert sorted(found.variables) == sorted(set(after) - set(kept))
    assert shared in found.variables  # of all variables, whatever stands beside it
    (mismatch,) = found.mismatched
    assert (mismatch.variable, mismatch.wanted, mismatch.got) == ("head", "float32[4,7]", "float32[4,5]")
    assert sorted(mismatch.slots) == list(kept[1:])
    assert (found.missing, found.unused) == ((), ())
    (record,) = caplog.records
    assert "head is float32[4,7], saved was float32[4,5]" in record.getMessage()


@pytest.mark.parametrize("options", [{}, {"partial": True, "on_mismatch": "error"}, {"on_mismatch": ["body/", "h"]}])
async def test_an_error_where_it_may_not_be_passed_over(tmp_path, options):
    await saved(tmp_path, Net(5))
    with pytest.raises(tg.CheckpointError, match="does not fit") as caught:
        await restored(tmp_path, Net(7), **options)
    assert "on_mismatch=['head']" in caught.value.hint


async def test_a_slot_of_the_same_shape_goes_with_its_variable(tmp_path):
    class Odd(AdamOptimizer):
        """Keeps a count for each variable."""

        def update(self, gradient, part):
            self.slot(part.var, "count", 5.0)
            return super().update(gradient, part)

    def odd(rate):
        return Odd(rate, name="Odd")

    await saved(tmp_path, Net(5, optimizer=odd))
    found, *_ = await restored(tmp_path, Net(7, optimizer=odd), partial=True)
    assert "head/Odd/count" in found.mismatched[0].slots
    assert "body/Odd/count" in found.variables


async def test_dtypes_that_cannot_be_cast_are_passed_over_and_others_ask_for_cast(tmp_path):
    graph = variables(w=FLOATS, i=np.array([1.0]), s=np.array(["a"], "T"))
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        await (await checkpointer.save(session, 1))
    other = variables(w=FLOATS * 0, i=np.array([7]), s=np.array([1.0]))
    async with tg.Session(other) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(other.init)
        found = await checkpointer.restore(session, partial=True)
    assert found.variables == ("w",)
    assert [each.variable for each in found.mismatched] == ["i", "s"]
    assert found.mismatched[0] == Mismatch("i", "int64[1]", "float64[1]")
    half = variables(w=FLOATS.astype(np.float16))
    async with tg.Session(half) as session, Checkpointer(tmp_path) as checkpointer:
        with pytest.raises(tg.CheckpointError, match="another dtype") as caught:
            await checkpointer.restore(session, partial=True)
        assert "cast=True" in caught.value.hint
        found = await checkpointer.restore(session, partial=True, cast=True)
        assert (found.cast, found.mismatched) == (("w",), ())


async def test_a_table_in_shards_of_another_size_is_told(tmp_path):
    def build(rows):
        with tg.Graph().as_default() as graph:
            table = tg.PartitionedVariable(np.ones((rows, 2), np.float32), tg.fixed_size_partitioner(2), name="table")
            other = tg.Variable([1.0], name="other")
            train = AdamOptimizer(0.1).minimize(tg.reduce_sum(tg.embedding_lookup(table, [0])) + other[0])
            graph.init = tg.global_variables_initializer()
            return graph, train

    graph, train = build(6)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        await session.run(train)
        await (await checkpointer.save(session, 1))
    graph, _ = build(8)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        found = await checkpointer.restore(session, partial=True)
    names = {name for each in found.mismatched for name in (each.variable, *each.slots)}
    assert all(name.startswith("table") for name in names)
    assert {name for name in found.variables if name.startswith("table") and "power" not in name} == set()
    assert "other" in found.variables
    assert found.missing == ()
    assert "float32[6,2] in 2 parts" in {each.got for each in found.mismatched}


@pytest.mark.parametrize("wrong", ["ignore", "Skip", ""])
async def test_other_words_are_refused(tmp_path, wrong):
    await saved(tmp_path, Net(5))
    with pytest.raises(tg.GraphError, match="on_mismatch"):
        await restored(tmp_path, Net(5), on_mismatch=wrong)
