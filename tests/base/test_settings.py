"""Settings hold the knobs of users, and the passes' switches as an object of its own, which has short spellings."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest
import tagloom as tg
from tagloom.base.settings import DEFAULTS, FAST_PATHS

NAMES = [each.name for each in fields(tg.Switches)]


def other(value):
    """Return a value that differs from a default."""
    return not value if isinstance(value, bool) else "fuse" if isinstance(value, str) else (value or 0) + 1


def test_users_have_ten_knobs_and_the_switches_are_one_object():
    assert [each.name for each in fields(tg.Settings)] == [
        *("drain_seconds", "admission_seconds", "blocking_threads", "workers", "offload_seconds", "close_seconds"),
        *("step_cache_size", "specialize", "pool_bytes", "observe", "switches"),
    ]
    assert FAST_PATHS.keys() - {"workers", "specialize"} <= {*NAMES}


def test_each_switch_may_be_given_and_read_by_its_name():
    for name in NAMES:
        value = other(getattr(tg.Switches(), name))
        short, whole = tg.Settings(**{name: value}), tg.Settings(switches=tg.Switches(**{name: value}))
        assert short == whole
        assert hash(short) == hash(whole)
        assert short != tg.Settings()
        assert getattr(short, name) == getattr(short.switches, name) == value


def test_a_switch_by_its_name_is_put_into_given_switches():
    settings = tg.Settings(switches=tg.Switches(fuse=False, llvm=False), llvm=True, workers=0)
    assert (settings.fuse, settings.llvm, settings.workers) == (False, True, 0)


def test_replaced_settings_keep_the_rest():
    settings = replace(tg.Settings(drain_seconds=0.5, fuse=False), native=False, workers=2)
    assert settings == tg.Settings(drain_seconds=0.5, workers=2, fuse=False, native=False)
    assert replace(settings, switches=tg.Switches()) == tg.Settings(drain_seconds=0.5, workers=2)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_are_equal(copied):
    settings = tg.Settings(1e-2, 4.0, fuse=False, shuffle_seed=3)
    assert copied(settings) == settings
    assert copied(settings).switches.shuffle_seed == 3


def test_the_text_is_the_settings():
    settings = tg.Settings(workers=0, fuse=False)
    assert eval(repr(settings), {"Settings": tg.Settings, "Switches": tg.Switches}) == settings
    assert asdict(settings)["switches"]["fuse"] is False


@pytest.mark.parametrize(("wrong", "near"), [("fuze", "fuse"), ("drain_second", "drain_seconds"), ("zzzzz", None)])
def test_an_unknown_name_is_an_error_that_names_a_similar_one(wrong, near):
    with pytest.raises(TypeError, match=f"no knob or switch '{wrong}'") as caught:
        tg.Settings(**{wrong: 1})
    assert str(caught.value).endswith(f"; try: {near}" if near else f"'{wrong}'")
    with pytest.raises(TypeError):
        replace(tg.Settings(), **{wrong: 1})
    with pytest.raises(AttributeError, match=f"'Settings' object has no attribute '{wrong}'"):
        getattr(tg.Settings(), wrong)


def test_switches_are_switches():
    with pytest.raises(tg.GraphError, match="switches are an object of their own") as caught:
        tg.Settings(switches={"fuse": False})
    assert "Settings(fuse=False)" in str(caught.value)


@pytest.mark.parametrize("name", ["drain_seconds", "switches"])
def test_settings_do_not_change(name):
    with pytest.raises(FrozenInstanceError):
        setattr(tg.Settings(), name, 0)


def test_the_environment_sets_defaults(monkeypatch):
    for name, value in (("OBSERVE", "1"), ("DUMP", "fuse"), ("CHECK_PASSES", "1")):
        monkeypatch.setenv(f"TAGLOOM_{name}", value)
    settings = tg.Settings()
    assert (settings.observe, settings.switches.dump, settings.switches.check_passes) == (True, "fuse", True)
    assert tg.Settings(observe=False).observe is False
    for name in ("OBSERVE", "DUMP", "CHECK_PASSES"):
        monkeypatch.delenv(f"TAGLOOM_{name}")
    assert (tg.Settings().observe, tg.Settings().switches.dump) == (False, "")


def test_all_fast_paths_off_are_off():
    off = DEFAULTS.without("all")
    assert {name: getattr(off, name) for name in FAST_PATHS} == FAST_PATHS
