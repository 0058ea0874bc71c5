"""Names for defining operations outside of this package.

See docs/custom-operations.md.
"""

from .ir.apply import apply
from .ir.definition import OPTIONAL, REQUIRED, NotDifferentiable, OpDefinition, Sample, Ufunc, define
from .ir.rules.batching import Batch, TakesRow
from .ir.rules.edges import Feedable, Fetchable, WarnsUnused
from .ir.rules.fusing import AddsBias, AppliesMask, Fusion, LargestPlaces, SpreadsWindows, SumsRows
from .ir.rules.gradients import Reread, TakesSlices
from .ir.rules.kernels import Elements, KeepsSize, NoRetry, PassesInputs, ReadsValues
from .ir.rules.native import RunsAs
from .ir.rules.ordering import Ordered, ReturnsInput
from .ir.rules.placing import OutlivesStep, TakesPart
from .ir.rules.shapes import LoadsElement, ShapeOnly, ShapeVector, StoresElement
from .ir.traits import Effect
from .ops.support.context import KernelContext

__all__ = [
    "OPTIONAL",
    "REQUIRED",
    "AddsBias",
    "AppliesMask",
    "Batch",
    "Effect",
    "Elements",
    "Feedable",
    "Fetchable",
    "Fusion",
    "KeepsSize",
    "KernelContext",
    "LargestPlaces",
    "LoadsElement",
    "NoRetry",
    "NotDifferentiable",
    "OpDefinition",
    "Ordered",
    "OutlivesStep",
    "PassesInputs",
    "ReadsValues",
    "Reread",
    "ReturnsInput",
    "RunsAs",
    "Sample",
    "ShapeOnly",
    "ShapeVector",
    "SpreadsWindows",
    "StoresElement",
    "SumsRows",
    "TakesPart",
    "TakesRow",
    "TakesSlices",
    "Ufunc",
    "WarnsUnused",
    "apply",
    "define",
]
