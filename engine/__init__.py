"""tagloom: a tagged-token dataflow engine for asyncio programs whose control flow is decided by data.

Build a graph with ``cond``, ``while_loop`` and ``TensorArray``, differentiate the graph, and await its steps."""

# Nothing of the engine is imported with the package, so the command line answers at once: each name in `public.py`,
# which ``make names`` writes from the families' lists, and each public module, is loaded at its first use. See
# docs/design/0051-rooms-and-names.md.

import sys as _sys
import types as _types
import typing as _typing
from importlib import import_module as _import_module

from .base.version import VERSION as __version__  # noqa: F401, of this module

if _typing.TYPE_CHECKING:
    from . import compat as compat
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
else:  # type checkers take a module with `__getattr__` to have every name

    class _Package(_types.ModuleType):
        """Type of the package: its public functions are not hidden by submodules of the same names."""

        def __setattr__(self, name, value):
            # Python sets each imported submodule as an attribute: engine.compile and engine.gradients are packages.
            if name not in ("compile", "gradients") or not isinstance(value, _types.ModuleType):
                super().__setattr__(name, value)

    _sys.modules[__name__].__class__ = _Package

    def __getattr__(name):
        """Load a public name, or a public module, at its first use; refuse other names with a hint."""
        if name.startswith("_") and name != "__all__":  # asked by Python, of any module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        public_names = _import_module(".base.public_names", __name__)
        if name in public_names.MODULES:
            return public_names.import_alone(f"{__name__}.{name}")
        if name == "__all__":
            value = public_names.listed_for_star()
        elif name in public_names.places():
            value = public_names.load(name)
        else:
            return _import_module(".frontend.missing_names", __name__).find_or_refuse(name)
        globals()[name] = value  # later look-ups do not come here
        return value

    def __dir__():
        """Return the public names."""
        return _import_module(".frontend.missing_names", __name__).public_names()
