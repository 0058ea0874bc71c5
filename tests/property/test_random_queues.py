import pytest

from tests.property import queue_histories


@pytest.mark.rule(126, 127, 128, 129, 130)
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_nothing_is_lost_doubled_or_out_of_order(first):
    queue_histories.run(range(first, first + 100))
