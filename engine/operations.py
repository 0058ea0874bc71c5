"""Names for outside packages that define operations, device kinds, kernels and passes.

See docs/extending.md.
"""

from .base.registrations import Registration
from .compile.outside_kernels import register_kernel
from .compile.outside_passes import register_pass, rewrite
from .ir.apply import apply
from .ir.builder import Builder
from .ir.definition import OPTIONAL, REQUIRED, NotDifferentiable, OpDefinition, Sample, Ufunc, define
from .ir.program import Program
from .ir.rules.batching import Batch, TakesRow
from .ir.rules.edges import Feedable, Fetchable, WarnsUnused
from .ir.rules.forward_mode import DependsOn, Tangents
from .ir.rules.fusing import AddsBias, AppliesMask, Fusion, LargestPlaces, SpreadsWindows, SumsRows
from .ir.rules.gradients import Reread, TakesSlices
from .ir.rules.kernels import Elements, KeepsSize, NoRetry, PassesInputs, ReadsValues
from .ir.rules.native import RunsAs
from .ir.rules.ordering import Ordered, ReturnsInput
from .ir.rules.placing import OutlivesStep, TakesPart
from .ir.rules.shapes import LoadsElement, ShapeOnly, ShapeVector, StoresElement
from .ir.rules.vectorizing import Vectorize
from .ir.traits import Effect
from .ops.support.context import KernelContext
from .streams.kinds import DeviceKind, device_kinds, register_device_kind

__all__ = [
    "OPTIONAL",
    "REQUIRED",
    "AddsBias",
    "AppliesMask",
    "Batch",
    "Builder",
    "DependsOn",
    "DeviceKind",
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
    "Program",
    "ReadsValues",
    "Registration",
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
    "Tangents",
    "Ufunc",
    "Vectorize",
    "WarnsUnused",
    "apply",
    "define",
    "device_kinds",
    "register_device_kind",
    "register_kernel",
    "register_pass",
    "rewrite",
]
