"""The demo: a character-level language model, trained on text shipped with Python, then asked to write."""

from importlib import import_module
from typing import TYPE_CHECKING

from .options import Options

if TYPE_CHECKING:
    from .model import CharacterModel
    from .storage import load_weights, save_weights
    from .text import Alphabet, load_text
    from .training import run
else:
    _HOMES = {
        "Alphabet": "text",
        "CharacterModel": "model",
        "load_text": "text",
        "load_weights": "storage",
        "run": "training",
        "save_weights": "storage",
    }

    def __getattr__(name):
        """Load a name at its first use: the command line needs only the options."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)


__all__ = ["Alphabet", "CharacterModel", "Options", "load_text", "load_weights", "run", "save_weights"]
