"""tagloom: a tagged-token dataflow engine for asyncio programs whose control flow is decided by data.

Build a graph with ``cond``, ``while_loop`` and ``TensorArray``, differentiate it, and await steps of it."""

# Nothing of the engine is imported with the package, so that the command line answers at once: the names in `public.py`
# are loaded when the first of them is used, and each module for users when it is. See docs/design/0041-packaging.md.

import sys as _sys
import types as _types
import typing as _typing
from importlib import import_module as _import_module

from .base.version import VERSION as __version__  # noqa: F401, of this module

_MODULES = ("data", "losses", "metrics", "monitoring", "nest", "nn", "streams", "testing", "training")

if _typing.TYPE_CHECKING:
    from . import data as data
    from . import losses as losses
    from . import metrics as metrics
    from . import monitoring as monitoring
    from . import nest as nest
    from . import nn as nn
    from . import streams as streams
    from . import testing as testing
    from . import training as training
    from .public import *  # noqa: F403
    from .public import __all__ as __all__
    from .public import abs as abs
    from .public import bool as bool
    from .public import complex as complex
    from .public import exit as exit
    from .public import pow as pow
    from .public import range as range
    from .public import round as round
    from .public import slice as slice
else:  # for type checkers a module with `__getattr__` has all names

    class _Package(_types.ModuleType):
        """The package, without modules of the engine that have the name of a function, here or elsewhere."""

        def __setattr__(self, name, value):
            if name not in ("compile", "gradients") or not isinstance(value, _types.ModuleType):
                super().__setattr__(name, value)

    _sys.modules[__name__].__class__ = _Package

    def __getattr__(name):
        """Load the public names, or a module for users, when one is used; refuse others with a hint."""
        if name in _MODULES:
            return _import_module(f".{name}", __name__)
        if name.startswith("_") and name != "__all__":  # asked by Python, of any module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        names = globals()
        if "__all__" not in names:
            loaded = vars(_import_module(".public", __name__))
            names.update({each: value for each, value in loaded.items() if not each.startswith("_")})
            names["__all__"] = loaded["__all__"]
        if name in names:  # by this call, or meanwhile by one in another thread
            return names[name]
        return _import_module(".frontend.missing_names", __name__).find_or_refuse(name)

    def __dir__():
        """Return the public names."""
        return _import_module(".frontend.missing_names", __name__).public_names()
