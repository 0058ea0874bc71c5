"""Names for defining operations outside of this package.

See docs/custom-operations.md.
"""

from .ir.apply import apply
from .ir.definition import REQUIRED, NotDifferentiable, OpDefinition, Sample, Ufunc, define
from .ir.traits import Effect
from .ops.support.context import KernelContext

__all__ = [
    "REQUIRED",
    "Effect",
    "KernelContext",
    "NotDifferentiable",
    "OpDefinition",
    "Sample",
    "Ufunc",
    "apply",
    "define",
]
