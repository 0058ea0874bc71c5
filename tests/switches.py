"""``TAGFLOW_OFF=fuse,native pytest`` runs the tests with these fast paths off, ``TAGFLOW_OFF=all`` with none.

A test that is about a fast path asks for it: ``Settings(fuse=True)``.
"""

import inspect


def switch_off(names):
    """Change the defaults of Settings, here and in what has taken them already."""
    from tagflow.base.settings import DEFAULTS, FAST_PATHS, Settings

    wanted = DEFAULTS.without(*filter(None, names.split(",")))
    changed = {name: getattr(wanted, name) for name in FAST_PATHS}
    parameters = inspect.signature(Settings.__init__).parameters
    with_default = [name for name, p in parameters.items() if p.default is not p.empty]
    Settings.__init__.__defaults__ = tuple(changed.get(name, parameters[name].default) for name in with_default)
    for name, value in changed.items():
        object.__setattr__(DEFAULTS, name, value)
