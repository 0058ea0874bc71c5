"""Accumulators between the steps of a session."""

import asyncio

import pytest
import tagloom as tg


@pytest.mark.rule(131)
@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize(("reduction", "wanted"), [("MEAN", 2.0), ("SUM", 6.0)])
def test_a_take_waits_for_enough_and_late_gradients_are_dropped(executor, reduction, wanted):
    async def main():
        with tg.Graph().as_default() as graph:
            sums = tg.ConditionalAccumulator("float32", reduction_type=reduction)
            x, step = tg.placeholder("float32", []), tg.placeholder("int64", [])
            apply, take, count = sums.apply_grad(x, step).outputs[0], sums.take_grad(3), sums.num_accumulated()
        async with tg.Session(graph, executor=executor) as session:
            lost = asyncio.create_task(session.run(take))
            waiting = asyncio.create_task(session.run(take))
            for _ in range(20):
                await asyncio.sleep(0)
            lost.cancel()
            for value in (1.0, 2.0, 3.0):
                assert await session.run(apply, {x: value, step: 0})
            assert await waiting == wanted
            assert not await session.run(apply, {x: 9.0, step: 0})
            assert await session.run(count) == 0

    asyncio.run(main())


@pytest.mark.rule(131)
def test_what_does_not_fit_is_refused():
    with tg.Graph().as_default() as graph:
        sums = tg.ConditionalAccumulator("float32")
        first, other, none = sums.apply_grad([1.0]), sums.apply_grad([1.0, 2.0]), sums.take_grad(0)
    with tg.SyncSession(graph) as session:
        session.run(first)
        with pytest.raises(tg.OpError, match="has another shape"):
            session.run(other)
        with pytest.raises(tg.OpError, match="asked for no gradient"):
            session.run(none)


@pytest.mark.rule(131)
@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize(("reduction", "wanted"), [("MEAN", [[3.0], [7.0]]), ("SUM", [[6.0], [7.0]])])
def test_rows_are_added_up_by_index(executor, reduction, wanted):
    async def main():
        with tg.Graph().as_default() as graph:
            sums = tg.SparseConditionalAccumulator("float32", [10, 1], reduction_type=reduction)
            indices, values = tg.placeholder("int32", [None]), tg.placeholder("float32", [None, 1])
            step = tg.placeholder("int64", [])
            slices = tg.IndexedSlices(values, indices, tg.constant([10, 1]))
            apply = sums.apply_indexed_slices_grad(slices, step).outputs[0]
            taken, count = sums.take_indexed_slices_grad(2), sums.num_accumulated()
            dense = tg.convert_to_tensor(taken)
        async with tg.Session(graph, executor=executor) as session:
            waiting = asyncio.create_task(session.run([taken.indices, taken.values, taken.dense_shape, dense]))
            for _ in range(20):
                await asyncio.sleep(0)
            assert await session.run(apply, {indices: [7, 3, 7], values: [[3.0], [2.0], [4.0]], step: 0})
            assert await session.run(apply, {indices: [3], values: [[4.0]], step: 0})
            found, rows, shape, whole = await waiting
            assert found.tolist() == [3, 7]
            assert rows.tolist() == wanted
            assert shape.tolist() == [10, 1]
            assert whole[[3, 7]].tolist() == wanted
            assert not await session.run(apply, {indices: [3], values: [[4.0]], step: 0})
            assert await session.run(count) == 0

    asyncio.run(main())


@pytest.mark.rule(131)
def test_rows_that_do_not_fit_are_refused():
    with tg.Graph().as_default() as graph:
        sums = tg.SparseConditionalAccumulator("float32")
        put, take = sums.apply_grad([1], [[1.0, 2.0]], [4, 2]), sums.take_grad(1)
        wrong = {
            "another shape": sums.apply_grad([1], [[1.0]]),
            "out of range": sums.apply_grad([4], [[1.0, 2.0]]),
            "not as many": sums.apply_grad(tg.boolean_mask([1, 2], [True, True]), [[1.0, 2.0]]),
        }
        with pytest.raises(tg.GraphError, match="adds up IndexedSlices"):
            sums.apply_indexed_slices_grad(tg.constant([1.0]))
    with tg.SyncSession(graph) as session:
        session.run(put)
        for match, each in wrong.items():
            with pytest.raises(tg.OpError, match=match):
                session.run(each)
        saved = session.snapshot()
        indices, values, shape = session.run(take)
        assert [indices.tolist(), values.tolist(), shape.tolist()] == [[1], [[1.0, 2.0]], [4, 2]]
    with tg.SyncSession(graph) as session:
        session.restore(saved)
        assert session.run(take)[0].tolist() == [1]


@pytest.mark.rule(131)
@pytest.mark.parametrize(
    "put",
    [
        lambda x: tg.ConditionalAccumulator("float32").apply_grad(x, name="put"),
        lambda x: tg.SparseConditionalAccumulator("float32").apply_grad([0, 1], x, name="put"),
        lambda x: tg.SparseConditionalAccumulator("float32").apply_indexed_slices_grad(
            tg.IndexedSlices(x, tg.constant([0, 1])), name="put"
        ),
    ],
)
def test_a_tensor_of_another_dtype_is_refused_where_it_is_applied(put):
    with tg.Graph().as_default():
        x = tg.placeholder("float64", [2])
        with pytest.raises(tg.DtypeError, match="put was given a gradient of another dtype") as caught:
            put(x)
        assert put([1.0, 2.0]).outputs[0].dtype == tg.bool, "a literal takes the accumulator's dtype"
    assert (caught.value.wanted, caught.value.got) == (tg.float32, tg.float64)
    assert caught.value.source.file == __file__
    assert caught.value.hint


SHAPED = {
    "dense": lambda x: tg.ConditionalAccumulator("float32", [3]).apply_grad(x),
    "dense rank": lambda x: tg.ConditionalAccumulator("float32", [None]).apply_grad(x[0]),
    "sizes of rows": lambda x: tg.SparseConditionalAccumulator("float32", [9, 3]).apply_grad([0], x[None]),
    "rank of rows": lambda x: tg.SparseConditionalAccumulator("float32", [9]).apply_grad([0], x[None]),
    "whole shape": lambda x: tg.SparseConditionalAccumulator("float32", [9, 2]).apply_grad([0], x[None], [8, 2]),
    "whole shape of rows": lambda x: tg.SparseConditionalAccumulator("float32").apply_grad([0], x[None], [8, 3]),
}


@pytest.mark.rule(131)
def test_a_shape_that_cannot_fit_is_refused_where_it_is_applied():
    for case, put in SHAPED.items():
        with tg.Graph().as_default():
            x = tg.placeholder("float32", [2])
            with pytest.raises(tg.ShapeError, match="of another shape than the accumulator's") as caught:
                put(x)
            assert caught.value.operation is not None, case
            assert caught.value.source.file == __file__, case


@pytest.mark.rule(131)
@pytest.mark.parametrize("indices", [[0], [[0, 1]], 0])
def test_rows_known_not_to_be_as_many_as_their_indices_are_refused_where_they_are_applied(indices):
    with tg.Graph().as_default():
        sums, x = tg.SparseConditionalAccumulator("float32"), tg.placeholder("float32", [2])
        with pytest.raises(tg.ShapeError, match="not as many as their indices"):
            sums.apply_grad(indices, x)
        with pytest.raises(tg.ShapeError, match="not as many as their indices"):
            sums.apply_grad(tg.placeholder("int64"), x[0])
        sums.apply_grad(tg.placeholder("int64"), x)


@pytest.mark.rule(131)
def test_no_rows_are_a_gradient_too():
    with tg.Graph().as_default() as graph:
        sums = tg.SparseConditionalAccumulator("float32", [None, 2])
        empty = tg.zeros([0, 2])
        puts = [sums.apply_grad(tg.constant([], "int64", [0]), empty), sums.apply_grad([5], [[1.0, 3.0]])]
        take = sums.take_grad(2)
    with tg.SyncSession(graph) as session:
        for put in puts:
            session.run(put)
        indices, values, shape = session.run(take)
    assert [indices.tolist(), values.tolist(), shape.tolist()] == [[5], [[1.0, 3.0]], [-1, 2]]
