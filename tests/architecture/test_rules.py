"""The table behind ``pytest --rules``."""

from tests.support.rules import FIRST, LAST, LATER, report


def test_uncovered_rules_are_holes_unless_listed_for_later(monkeypatch):
    monkeypatch.setitem(LATER, 48, "queues")
    covered = {number: ["test_x"] for number in range(FIRST, LAST + 1)}
    assert report(covered)[1] == []
    del covered[12], covered[48]
    lines, holes = report(covered)
    assert holes == [12]
    assert any(line.endswith("queues") for line in lines)
