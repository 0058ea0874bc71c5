"""Cases that the default tier runs: some of each sampled and each large family, and all other tests."""

from types import SimpleNamespace

import pytest

from tests.support import tiers


class Item:
    """A collected test; `every` is that of its mark, if it has one."""

    def __init__(self, nodeid, every=None):
        self.nodeid, self.every = nodeid, every

    def get_closest_marker(self, name):
        return self.every and SimpleNamespace(kwargs={"every": self.every})


def chosen(items, thorough=False, keyword="", args=("tests",), sampled=False):
    left = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
    config = SimpleNamespace(option=SimpleNamespace(keyword=keyword, sampled=sampled), args=args, hook=hook)
    kept = list(items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAGLOOM_THOROUGH", str(int(thorough)))
        tiers.deselect_repetitions(config, kept)
    assert sorted(i.nodeid for i in kept + left) == sorted(i.nodeid for i in items)
    return [item.nodeid for item in kept]


def family(name, count, every=None):
    return [Item(f"{name}[{i}]", every) for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("every", [2, 4])
def test_each_sampled_family_has_some_cases(count, every):
    cases = chosen(family("a.py::test_a", count, every))
    assert len(cases) in (max(1, count // every), -(-count // every))


def test_all_others_run():
    items = [*family("a.py::test_a", 8, 2), *family("a.py::test_b", 1), Item("a.py::test_c")]
    assert len(chosen(items)) == 4 + 1 + 1


def test_families_have_a_share_of_their_cases_unless_a_mark_wants_all():
    assert len(chosen(family("a.py::test_a", 3 * tiers.EVERY))) == 3
    assert len(chosen(family("a.py::test_a", tiers.EVERY - 1))) == 1
    assert len(chosen(family("a.py::test_a", 9, 1))) == 9
    assert len(chosen(family("tests/architecture/test_a.py::test_a", 9))) == 9


def test_families_begin_with_different_cases():
    first = {chosen(family(f"a.py::test_{i}", 4, 4))[0][-2] for i in range(40)}
    assert first == set("0123")


@pytest.mark.parametrize("options", [{"thorough": True}, {"keyword": "test_a"}, {"args": ["a.py::test_a[1]"]}])
def test_all_cases_run_in_the_thorough_tier_and_where_they_are_named(options):
    assert len(chosen(family("a.py::test_a", 8, 4), **options)) == 8


def test_cases_that_are_named_are_sampled_on_demand():
    assert len(chosen(family("a.py::test_a", 8, 4), keyword="test_a", sampled=True)) == 2


def test_passes_are_checked_in_some_tests_and_in_all_of_the_thorough_tier(monkeypatch):
    def checked(nodeid):
        with tiers.checked_passes(nodeid):
            return tiers.os.environ.get("TAGLOOM_CHECK_PASSES") == "1"

    monkeypatch.delenv("TAGLOOM_CHECK_PASSES", raising=False)
    monkeypatch.delenv("TAGLOOM_THOROUGH", raising=False)
    assert 80 < sum(checked(f"a.py::test_{i}") for i in range(1000)) < 180
    monkeypatch.setenv("TAGLOOM_THOROUGH", "1")
    assert all(checked(f"a.py::test_{i}") for i in range(20))
    monkeypatch.setenv("TAGLOOM_CHECK_PASSES", "0")
    assert not any(checked(f"a.py::test_{i}") for i in range(20))
