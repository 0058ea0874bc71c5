"""``TAGLOOM_OFF=fuse,native pytest`` runs the tests with these fast paths off, ``TAGLOOM_OFF=all`` with none.

A test that is about a fast path asks for it: ``Settings(fuse=True)``, or for all of them by the fixture `fast_paths`
where it is not the test that makes the session.
"""

import inspect
from contextlib import contextmanager


def all_values():
    """Return the values that turn the fast paths on, whatever the defaults are by now."""
    from tagloom.base.settings import FAST_PATHS, Switches

    # Fields keep the defaults that they were declared with; those of the knobs are in a signature.
    on = {"specialize": 8, "workers": None}
    return {name: on[name] if name in on else Switches.__dataclass_fields__[name].default for name in FAST_PATHS}


def switch_off(names):
    """Change the defaults of Settings, here and in what has taken them already."""
    from tagloom.base.settings import DEFAULTS, FAST_PATHS

    wanted = DEFAULTS.without(*filter(None, names.split(",")))
    _set_defaults({name: getattr(wanted, name) for name in [*FAST_PATHS, "passes_off"]})


@contextmanager
def all_on():
    """Have all fast paths on for a while."""
    from tagloom.base.settings import DEFAULTS

    values = {**all_values(), "passes_off": ()}
    before = {name: getattr(DEFAULTS, name) for name in values}
    _set_defaults(values)
    try:
        yield
    finally:
        _set_defaults(before)


def _set_defaults(changed):
    from tagloom.base.settings import DEFAULTS, Settings, Switches

    parameters = inspect.signature(Settings.__init__).parameters.values()
    Settings.__init__.__defaults__ = tuple(
        changed.get(p.name, p.default) for p in parameters if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY
    )
    defaults = Switches.__init__.__kwdefaults__
    defaults.update({name: value for name, value in changed.items() if name in defaults})
    for name, value in changed.items():
        object.__setattr__(DEFAULTS.switches if name in defaults else DEFAULTS, name, value)
