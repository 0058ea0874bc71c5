"""``TAGLOOM_OFF=fuse,native pytest`` runs the tests with these fast paths off, ``TAGLOOM_OFF=all`` with none.

A test that is about a fast path asks for it: ``Settings(fuse=True)``, or for all of them by the fixture `fast_paths`
where it is not the test that makes the session.
"""

import inspect
from contextlib import contextmanager


def switch_off(names):
    """Change the defaults of Settings, here and in what has taken them already."""
    from tagloom.base.settings import DEFAULTS, FAST_PATHS

    wanted = DEFAULTS.without(*filter(None, names.split(",")))
    _set_defaults({name: getattr(wanted, name) for name in [*FAST_PATHS, "passes_off"]})


@contextmanager
def all_on():
    """Have all fast paths on for a while."""
    from tagloom.base.settings import DEFAULTS, FAST_PATHS, Settings

    names = [*FAST_PATHS, "passes_off"]
    before = {name: getattr(DEFAULTS, name) for name in names}
    _set_defaults({name: Settings.__dataclass_fields__[name].default for name in names})
    try:
        yield
    finally:
        _set_defaults(before)


def _set_defaults(changed):
    from tagloom.base.settings import DEFAULTS, Settings

    parameters = inspect.signature(Settings.__init__).parameters
    with_default = [name for name, p in parameters.items() if p.default is not p.empty]
    Settings.__init__.__defaults__ = tuple(changed.get(name, parameters[name].default) for name in with_default)
    for name, value in changed.items():
        object.__setattr__(DEFAULTS, name, value)
