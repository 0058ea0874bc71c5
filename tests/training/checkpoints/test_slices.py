"""Variables in shards: saved in any, restored into any others, into the whole, and from it."""

import itertools

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import AdamOptimizer, Checkpointer, MomentumOptimizer
from tagloom.training.checkpoints.slices import intersect_ranges

TABLE = np.arange(44, dtype=np.float32).reshape(11, 4)
LAYOUTS = {
    "whole": None,
    "4 rows": (4, 0, "div"),
    "3 rows": (3, 0, "div"),
    "1 shard": (1, 0, "div"),
    "3 dealt": (3, 0, "mod"),
    "2 dealt": (2, 0, "mod"),
    "2 columns": (2, 1, "div"),
}


def graph_of(layout, value, optimizer=None):
    with tg.Graph().as_default() as graph:
        if layout is None:
            table = parts = tg.Variable(value, name="table")
            parts = [table]
        else:
            count, axis, strategy = layout
            cut = tg.fixed_size_partitioner(count, axis)
            table = tg.PartitionedVariable(value, cut, name="table", partition_strategy=strategy)
            parts = table.shards
        tg.Variable(7.0, name="other")
        if optimizer is not None:
            graph.train = optimizer.minimize(tg.reduce_sum(tg.square(table + 1.0)), var_list=parts)
        graph.fetch = tg.identity(table)
        graph.init = tg.global_variables_initializer()
    return graph


async def trained(directory, layout, optimizer=None, steps=0):
    graph = graph_of(layout, TABLE, optimizer)
    async with tg.Session(graph) as session, Checkpointer(directory) as checkpointer:
        await session.run(graph.init)
        for _ in range(steps):
            await session.run(graph.train)
        await checkpointer.save(session, 1)
        return await session.run(graph.fetch)


async def restored(directory, layout, optimizer=None, steps=0, **options):
    graph = graph_of(layout, TABLE * 0, optimizer)
    async with tg.Session(graph) as session, Checkpointer(directory) as checkpointer:
        found = await checkpointer.restore(session, **options)
        for _ in range(steps):
            await session.run(graph.train)
        return found, await session.run(graph.fetch)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(LAYOUTS, LAYOUTS)))
async def test_a_table_is_restored_into_any_layout(tmp_path, old, new):
    await trained(tmp_path, LAYOUTS[old])
    found, table = await restored(tmp_path, LAYOUTS[new])
    assert (found.missing, found.unused) == ((), ())
    np.testing.assert_array_equal(table, TABLE)


@pytest.mark.parametrize("make", [AdamOptimizer, lambda rate: MomentumOptimizer(rate, 0.9)], ids=["Adam", "Momentum"])
@pytest.mark.parametrize(("old", "new"), [("4 rows", "3 rows"), ("3 dealt", "whole"), ("whole", "2 columns")])
async def test_what_an_optimizer_keeps_comes_along(tmp_path, make, old, new):
    """Training goes on in the other layout as if nothing had happened."""
    await trained(tmp_path / "half", LAYOUTS[old], make(0.1), 3)
    whole = await trained(tmp_path / "whole", LAYOUTS[old], make(0.1), 6)
    found, table = await restored(tmp_path / "half", LAYOUTS[new], make(0.1), 3)
    assert (found.missing, found.unused) == ((), ())
    np.testing.assert_array_equal(table, whole)


async def test_shards_that_are_missing_are_missing(tmp_path):
    graph = graph_of((4, 0, "div"), TABLE)
    shards = [v.name for v in graph.collections["variables"] if v.name != "table/part_2"]
    async with tg.Session(graph) as session, Checkpointer(tmp_path, variables=shards) as checkpointer:
        await session.run(graph.init)
        await checkpointer.save(session, 1)
    with pytest.raises(tg.CheckpointError, match="exactly") as caught:
        await restored(tmp_path, None)
    assert "table" in caught.value.wanted
    graph = graph_of((2, 0, "div"), TABLE * 0)
    async with tg.Session(graph) as session:
        found = await Checkpointer(tmp_path).restore(session, partial=True)
        # The first half is in shards 0 and 1; the second half was in part in shard 2.
        assert (found.variables, found.missing) == (("table/part_0", "other"), ("table/part_1",))


async def test_a_variable_in_shards_may_be_all_that_is_saved(tmp_path):
    with tg.Graph().as_default() as graph:
        table = tg.PartitionedVariable(TABLE, tg.fixed_size_partitioner(2), name="table")
        tg.Variable(7.0, name="other")
        init = tg.global_variables_initializer()
    async with tg.Session(graph) as session, Checkpointer(tmp_path, variables=[table]) as checkpointer:
        await session.run(init)
        await checkpointer.save(session, 1)
        await session.run(table.assign(TABLE * 0))
        assert (await checkpointer.restore(session)).variables == ("table/part_0", "table/part_1")
        np.testing.assert_array_equal(await session.run(table), TABLE)


async def test_shards_may_be_renamed_and_cast(tmp_path):
    await trained(tmp_path, (3, 0, "mod"))
    with tg.Graph().as_default() as graph:
        values = np.zeros([11, 4])
        table = tg.PartitionedVariable(values, tg.fixed_size_partitioner(2), name="embedding")
        tg.Variable(0.0, name="other")
        whole = tg.identity(table)
    async with tg.Session(graph) as session:
        rename = {"table/": "embedding/"}
        rename |= {f"table/part_{i}": f"embedding/part_{i}" for i in range(3)} | {"table": "embedding"}
        found = await Checkpointer(tmp_path).restore(session, rename=rename, cast=True)
        assert found.cast == ("embedding/part_0", "embedding/part_1")
        np.testing.assert_array_equal(await session.run(whole), TABLE.astype(np.float64))


async def test_tables_of_another_size_are_refused(tmp_path):
    await trained(tmp_path, (3, 0, "div"))
    with tg.Graph().as_default() as graph:
        tg.PartitionedVariable(np.zeros([12, 4], np.float32), tg.fixed_size_partitioner(2), name="table")
        tg.Variable(0.0, name="other")
    async with tg.Session(graph) as session:
        with pytest.raises(tg.CheckpointError):
            await Checkpointer(tmp_path).restore(session)
        assert not (await session.read_variables())


def test_common_numbers_of_ranges():
    random = np.random.default_rng(0)
    for _ in range(500):
        begins, ends, steps = random.integers(0, 9, 2), random.integers(0, 30, 2), random.integers(1, 6, 2)
        one, other = (range(*map(int, each)) for each in zip(begins, ends, steps, strict=True))
        assert list(intersect_ranges(one, other)) == sorted(set(one) & set(other))
