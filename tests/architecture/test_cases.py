"""Cases that are run together in one item: all run, and all failures are told."""

import pytest

from tests.support.cases import each


@pytest.fixture
def factor():
    return 10


@each("x, wanted", [(1, 10), pytest.param(2, 20, id="two")])
def test_cases_get_fixtures_and_values(factor, x, wanted):
    assert x * factor == wanted


@each("x, group", [(1, "odd"), (2, "even"), (3, "odd")], by=lambda x, group: group)
def test_groups_are_items(request, x, group):
    assert x % 2 == (group == "odd")
    assert request.node.callspec.id == group


def test_a_failure_keeps_no_other_case_from_running():
    ran = []

    @each("x", range(4))
    def odd_ones_fail(x):
        ran.append(x)
        assert x % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as caught:
        odd_ones_fail()
    assert ran == [0, 1, 2, 3]
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: 1"], ["case: 3"]]


def test_a_family_without_cases_is_refused():
    with pytest.raises(ValueError, match="no case"):
        each("x", [])
