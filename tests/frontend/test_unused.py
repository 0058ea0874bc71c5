"""Writes and assertions that were forgotten are warned of, at their line and once; what may still be used is not."""

import gc
import warnings

import pytest
import tagloom as tg


@pytest.fixture
def warned(graph):
    """Return a function that compiles what is to be fetched, and gives the lines that were warned of."""

    def run(*fetches):
        with warnings.catch_warnings(record=True) as caught, tg.SyncSession(graph) as session:
            warnings.simplefilter("always")
            session.make_step(list(fetches))
        assert all(w.category is RuntimeWarning and w.filename == __file__ for w in caught)
        return [(w.lineno - run.__code__.co_firstlineno, str(w.message)) for w in caught]

    return run


def texts(found):
    return [text for _, text in found]


def array(size=3):
    return tg.TensorArray("float32", size, element_shape=[])


def count(body, *values):
    return tg.while_loop(lambda i, *_: i < 3, body, [0, *values])


@pytest.mark.parametrize(
    "write",
    [
        lambda ta: ta.write(0, 1.0),
        lambda ta: ta.unstack([1.0, 2.0]),
        lambda ta: ta.scatter([1], [2.0]),
        lambda ta: ta.split([1.0, 2.0, 3.0], [1, 1, 1]),
    ],
)
def test_a_write_whose_array_nobody_uses(warned, write):
    ta = tg.TensorArray("float32", 3)
    write(ta)
    (text,) = texts(warned(ta.size()))
    assert "ta = ta.write(...)" in text


def test_an_assertion_that_nothing_waits_for(warned):
    x = tg.constant(1.0)
    tg.Assert(x > 0.0)
    tg.assert_less(x, 2.0)
    tg.assert_equal(x, 1.0, message="one")
    found = warned(x)
    assert len({line for line, _ in found}) == len(found) == 3
    assert all("control_dependencies([check])" in text for text in texts(found))


def test_in_branches_and_bodies(warned):
    def body(i, ta):
        ta.write(i, 2.0)
        tg.Assert(i < 3)
        return i + 1, ta

    def branch():
        tg.Assert(ta.size() > 0)
        return 1

    ta = array()
    _, after = count(body, ta)
    chosen = tg.cond(tg.placeholder_with_default(tg.constant(True), []), branch, lambda: 2)
    assert len(warned(after.stack(), chosen)) == 3


def test_once_for_a_line_and_a_graph(warned):
    x = tg.constant(1.0)
    for k in range(3):
        tg.assert_less(x, 2.0 + k)
    assert len(warned(x)) == 1
    assert warned(x) == []
    tg.assert_less(x, 9.0)
    assert len(warned(x)) == 1


def used():
    """Return what to fetch of a graph that uses all it builds, and hold nothing else."""
    x, pred = tg.constant(1.0), tg.placeholder_with_default(tg.constant(True), [])
    with tg.control_dependencies([tg.assert_less(x, 2.0 + k) for k in range(3)]):
        y = x + 1.0
    first = array().write(0, 1.0)
    second = tg.cond(pred, lambda: first.write(1, x), lambda: first)
    _, third = count(lambda i, ta: (i + 1, ta), second)
    with tg.control_dependencies([array().write(1, 2.0).flow]):
        z = x * 2.0
    return [y, tg.group(tg.Assert(x > 0.0)), third.stack(), z]


def test_not_of_what_is_used(warned):
    fetches = used()
    gc.collect()
    assert warned(fetches[0]) == warned(*fetches) == []


def test_not_of_what_another_step_may_use(warned):
    x = tg.constant(1.0)
    check, ta = tg.Assert(x > 0.0), array().write(0, 1.0)
    tg.Assert(x > 0.0, name="later")
    array().write(0, 1.0, name="written")
    assert warned(x) == []
    assert warned(check, ta.flow) == []
    del check, ta
    assert len(warned(x)) == 2


def test_not_of_what_gradients_and_functions_of_elements_build(warned):
    x = tg.placeholder_with_default(tg.constant([1.0, 2.0]), [None])
    ignored = tg.map_fn(lambda _: tg.constant(1.0), x)
    y = tg.scan(lambda a, b: a * b, x)
    read = array().unstack(x).read(1)
    assert warned(ignored, y, *tg.gradients([tg.reduce_sum(y), read], [x])) == []


async def test_not_of_what_a_function_built_that_failed():
    @tg.function
    def failing(x):
        tg.TensorArray("float32", 1).write(0, x)
        raise KeyError(tg.Assert(x > 0.0).name)

    @tg.function
    def forgetting(x):
        tg.TensorArray("float32", 1).write(0, x)
        tg.assert_greater(x, 0.0)  # a function runs what it checks
        return x

    with pytest.raises(KeyError):
        await failing(1.0)
    with pytest.warns(RuntimeWarning, match="nothing is written") as caught:
        assert await forgetting(1.0) == 1.0
    assert len(caught) == 1


def test_as_an_error_where_warnings_are(graph):
    x = tg.constant(1.0)
    tg.Assert(x > 0.0)
    with pytest.raises(RuntimeWarning, match="never checked"), tg.SyncSession(graph) as session:
        session.run(x)


def test_a_print_that_is_dropped(warned):
    x = tg.constant(1.0)
    tg.print_(x, [x])
    y = tg.print_(x, [x], message="used")
    (text,) = texts(warned(y + 1.0))
    assert "x = print_(x, [x])" in text


def test_a_check_of_numbers_that_is_dropped(warned):
    x = tg.constant(1.0)
    tg.check_numerics(x, "forgotten")
    y = tg.check_numerics(x, "used")
    tg.gradients(y, x)  # its own check is dropped with it
    (text,) = texts(warned(y + 1.0))
    assert "x = check_numerics(x" in text
