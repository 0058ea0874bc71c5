"""The main job: a character-level language model, trained on text that Python ships, then asked to write."""

from .model import CharacterModel
from .storage import load_weights, save_weights
from .text import Alphabet, load_text
from .training import Options, run

__all__ = ["Alphabet", "CharacterModel", "Options", "load_text", "load_weights", "run", "save_weights"]
