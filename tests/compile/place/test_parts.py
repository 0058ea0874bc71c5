"""What takes a part of a value goes to where that is, if less crosses then; what uses the part stays."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.device_names import parse_device
from tagloom.compile.place import place
from tagloom.ir.program import Program

from tests.support.compiling import lowered
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

DEVICES = [parse_device(f"/job:localhost/task:0/device:CPU:{i}") for i in range(2)]
TABLE = np.arange(4000.0, dtype=np.float32).reshape(1000, 4)


def on(index):
    return tg.device(f"/cpu:{index}")


@pytest.fixture
def where(graph):
    """Return a function that places what some fetches need, and gives device numbers by name."""

    def run(fetches, feeds=(), **options):
        program = lowered(Program(graph, list(feeds), list(fetches)), ON.without("fold", "merge"))
        return {op.name: device.index for op, device in place(program, DEVICES, **options).items()}

    return run


@pytest.fixture
def table():
    with on(0):
        return tg.Variable(TABLE, name="table").value() * 1.0


@pytest.fixture
def ids():
    return tg.placeholder("int32", [None], name="ids")


def test_rows_are_taken_at_the_table_and_used_where_they_were_wanted(where, table, ids):
    with on(1):
        rows = tg.gather(table, ids, name="rows")
    y = tg.exp(rows, name="y")
    found = where([y], [ids])
    assert (found["rows"], found["y"]) == (0, 1)
    assert found["ids"] == 0  # fed where it is used


@pytest.mark.parametrize(
    "take",
    [
        lambda t, ids: tg.gather_nd(t, ids[:, None]),
        lambda t, ids: tg.slice(t, [3, 0], [2, 4]),
        lambda t, ids: t[3:900:2],
        lambda t, ids: tg.boolean_mask(t, ids > 0),
        lambda t, ids: tg.gather(tg.gather(t, ids[:9]), ids[:2]),
    ],
)
def test_all_that_takes_a_part(where, table, ids, take):
    with on(1):
        part = take(table, ids)
        y = tg.identity(part, name="y")
    found = where([y], [ids])
    assert (found[part.op.name], found["y"]) == (0, 1)


def test_what_computes_stays_where_it_was_asked_for(where, table, ids):
    with on(1):
        part = tg.gather(table * 2.0, ids, name="part")
    assert where([part], [ids])["part"] == 1


def test_the_shape_of_what_is_not_known_to_be_large(where):
    with on(0):
        x = tg.exp(tg.placeholder("float32", name="x"))
    with on(1):
        n = tg.identity(tg.shape(x, name="n"))
    assert where([n], [x.op.inputs[0]])["n"] == 0


def test_not_where_all_of_the_value_is_wanted_too(where, table, ids):
    with on(1):
        y = tg.reduce_sum(tg.gather(table, ids, name="rows")) + tg.reduce_sum(table)
    assert where([y], [ids])["rows"] == 1


def test_not_where_the_parts_are_more_than_the_whole(where, table):
    many = tg.placeholder("int32", [2000], name="many")
    with on(1):
        y = tg.exp(tg.gather(table, many, name="rows"))
        halves = [tg.exp(part) for part in (table[:500], table[500:])]
    assert where([y], [many])["rows"] == 1
    assert {where(halves)[part.op.inputs[0].op.name] for part in halves} == {1}  # one message, not two


def test_not_away_from_what_it_must_be_with(where, table, ids):
    with on(1):
        other = tg.placeholder("float32", [], name="other")
        neighbour = tg.exp(other, name="neighbour")
        with tg.colocate_with(neighbour):
            rows = tg.gather(table, ids, name="rows")
    assert where([rows, neighbour], [ids, other])["rows"] == 1


def test_not_to_where_there_is_no_kernel(where, table, ids):
    with on(1):
        y = tg.exp(tg.gather(table, ids, name="rows"))
    assert where([y], [ids], supports=lambda type, device: type != "Gather" or device.index == 1)["rows"] == 1


def test_of_a_fed_table(where, ids):
    fed = tg.placeholder("float32", [1000, 4], name="fed")
    with on(0):
        first = tg.reduce_sum(fed)
    with on(1):
        y = tg.exp(tg.gather(fed, ids, name="rows"))
    found = where([first, y], [fed, ids])
    assert (found["fed"], found["rows"]) == (0, 0)


def test_in_a_branch(where, table, ids):
    pred = tg.placeholder("bool", [], name="pred")
    with on(1):
        y = tg.cond(pred, lambda: tg.exp(tg.gather(table, ids, name="rows"), name="y"), lambda: tg.ones([1, 4]))
    found = where([y], [ids, pred])
    assert (found["rows"], found["y"]) == (0, 1)


def test_in_a_loop_an_invariant_crosses_once_and_rows_in_each_iteration(where, table):
    """So a few of many rows are taken at the table, and the rows of a short sequence are read from a copy."""
    with on(0):
        short = tg.slice(table, [0, 0], [20, 4]) * 2.0

    def body(i, k, total):
        with on(1):
            rows, row = tg.gather(table, k, name="few"), tg.gather(short, i % 20, name="row")
            return i + 1, tg.cast(rows[0], "int32") % 1000, tg.add(total, tg.reduce_sum(row), name="total")

    loop = tg.while_loop(lambda i, *_: i < 9, body, [0, 3, 0.0])
    found = where(loop)
    assert (found["few"], found["row"], found["total"]) == (0, 1, 1)


@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_what_is_sent_are_rows(graph, executor):
    with on(0):
        table = tg.Variable(TABLE, name="table")
    ids = tg.placeholder("int32", [None], name="ids")
    with on(1):
        rows = tg.gather(table, ids)
        y = tg.reduce_sum(rows * rows)
    gradient = tg.gradients(y, [table])[0]
    async with tg.Session(graph, devices=2, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        value, given, slices = await session.run([y, rows, gradient], {ids: [7, 500, 7]})
        if executor == "machine":
            assert sum(traffic.bytes for traffic in session.report().traffic) < 10 * 3 * 16
    wanted = TABLE[[7, 500, 7]]
    np.testing.assert_array_equal(given, wanted)
    np.testing.assert_allclose(value, (wanted * wanted).sum())
    np.testing.assert_array_equal(slices.values, 2 * wanted)
