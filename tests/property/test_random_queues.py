import pytest

from tests.property import queue_histories, waiting


@pytest.mark.rule(126, 127, 128, 129, 130)
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_nothing_is_lost_doubled_or_out_of_order(first):
    waiting.run(queue_histories.History, range(first, first + 100))


@pytest.mark.sampled(every=2)
@pytest.mark.rule(129, 131)
@pytest.mark.parametrize("kind", queue_histories.ALL[1:])
def test_what_else_waits_does_what_its_model_does(kind):
    waiting.run(kind, range(100))
