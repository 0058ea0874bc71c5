"""Which variables have no value yet, as a step finds it."""

import pytest
import tagflow as tg


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
