"""Which variables have no value yet, as a step finds it."""

import pytest
import tagloom as tg
from tagloom.training import AdamOptimizer


@pytest.fixture(params=["machine", "reference"])
def session(request, graph):
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session


def test_names_are_reported_until_there_are_values(session):
    v, w = tg.Variable(1.0, name="v"), tg.Variable(2.0, name="scope/w")
    missing, has_value = tg.report_uninitialized_variables(), tg.is_variable_initialized(w)
    assert missing.shape == [None]
    assert missing.dtype is tg.string
    assert session.run(missing).tolist() == ["v", "scope/w"]
    session.run(v.initializer)
    assert session.run([missing, has_value])[0].tolist() == ["scope/w"]
    assert not session.run(has_value)
    session.write_variables({"scope/w": 3.0})
    assert session.run(missing).tolist() == []
    assert session.run([has_value, w.is_initialized()]) == [True, True]


def test_of_a_list_or_of_none(session):
    v, w = tg.Variable(1.0, name="v"), tg.Variable(2.0, name="w")
    assert session.run(tg.report_uninitialized_variables([w])).tolist() == ["w"]
    assert session.run(tg.report_uninitialized_variables([])).tolist() == []
    session.run(v.initializer)
    assert session.run(tg.report_uninitialized_variables([v])).tolist() == []


def test_in_the_order_of_building(session):
    """What is built behind an initializer sees its value in the same step (rule 141)."""
    v = tg.Variable(1.0, name="v")
    before = v.is_initialized()
    v.assign(2.0)
    after = tg.report_uninitialized_variables()
    assert session.run([before, after, v.initializer])[1].tolist() == []


class TestOfAnInitializerThatIsOlder:
    def test_the_error_says_so(self, graph):
        w = tg.Variable([1.0, 2.0], name="w")
        init = tg.global_variables_initializer()
        train = AdamOptimizer(0.1).minimize(tg.reduce_sum(tg.square(w)))
        with tg.SyncSession(graph) as session:
            session.run(init)
            with pytest.raises(tg.UninitializedVariableError, match="'w/Adam/") as caught:
                session.run(train)
            assert "init = tg.global_variables_initializer()" in caught.value.hint
            assert "is older than this variable" in caught.value.hint

    def test_nor_does_it_where_a_newer_one_was_not_run(self, graph):
        tg.global_variables_initializer()
        w = tg.Variable([1.0, 2.0], name="w")
        tg.global_variables_initializer()
        with tg.SyncSession(graph) as session:
            for read in (w, w + 1.0, tg.tanh(w.read_value())):
                with pytest.raises(tg.UninitializedVariableError) as caught:
                    session.run(read)
                assert caught.value.hint.startswith("run global_variables_initializer() first")

    def test_in_a_loop(self, session):
        tg.global_variables_initializer()
        v = tg.Variable(1.0, name="v")
        y = tg.while_loop(lambda i, _: i < 3, lambda i, _: (i + 1, v.read_value()), [0, 0.0])[1]
        with pytest.raises(tg.UninitializedVariableError, match="is older than this variable"):
            session.run(y)
