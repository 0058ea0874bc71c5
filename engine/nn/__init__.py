"""What models are made of: modules, which keep variables, and what is built of them."""

from ..frontend.missing_names import missing_in_nn as __getattr__  # noqa: F401, of this module
from .module import Module, Sequential

__all__ = ["Module", "Sequential"]
