"""Optional libraries, each in an extra of the package, imported when a feature needs them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from .errors import TagloomError


def is_installed(module: str) -> bool:
    """Return True if a module can be found, without an import."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # refused by a finder, or half imported
        return False


def install_hint(extra: str) -> str:
    """Return the command for installing an extra."""
    return f'pip install "tagloom[{extra}]"'


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an extra.

    Parameters
    ----------
    module, extra : str
    purpose : str
        The first words of the error: the feature that needs the module, and the library.

    Raises
    ------
    TagloomError
        If the module cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TagloomError(
            f"{purpose}, which is not installed",
            wanted=f"the module {module}",
            got=str(error),
            hint=install_hint(extra),
        ) from error
