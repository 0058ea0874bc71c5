"""Several callables as `on_step`: each is told of each step."""

import pytest
import tagloom as tg


class Begins:
    def __init__(self):
        self.seen = []

    def begin_step(self, fetches):
        self.seen.append("begins")
        return lambda record: self.seen.append(record.outcome)

    def __call__(self, record):
        raise AssertionError("told by begin_step")


def test_all_are_told_though_one_fails():
    def failing(record):
        raise ValueError("no")

    with tg.Graph().as_default() as graph:
        x = tg.constant(1.0) + 1.0
    spans, ended = Begins(), []
    with tg.SyncSession(graph, on_step=[failing, spans, ended.append]) as session:
        session.run(x)
    assert spans.seen == ["begins", "finished"]
    assert [record.outcome for record in ended] == ["finished"]


def test_each_must_be_a_function():
    with pytest.raises(tg.GraphError, match="on_step"):
        tg.SyncSession(tg.Graph(), on_step=[print, 7])
