"""Special functions, spectra and rounding at many elements."""

from __future__ import annotations

import numpy as np

from .large_programs import ROW, Build, call, floats, rows, sizes

SPECIAL_ELEMENTWISE = (
    "BesselI0",
    "BesselI0E",
    "BesselI1",
    "BesselI1E",
    "BesselJ0",
    "BesselJ1",
    "BesselK0",
    "BesselK0E",
    "BesselK1",
    "BesselK1E",
    "BesselY0",
    "BesselY1",
    "Dawsn",
    "Digamma",
    "Erfinv",
    "Expint",
    "FresnelCos",
    "FresnelSin",
    "Lgamma",
    "Ndtri",
    "Spence",
    "Zeta",
)

# What takes a microsecond or more for each element goes through a tenth of them or fewer.
SPECIAL: dict[str, Build] = {
    "BesselI": lambda n: call("BesselI", floats(n // 10), order=2),
    "BesselJ": lambda n: call("BesselJ", floats(n // 10), order=2),
    "Betainc": lambda n: call("Betainc", floats(n // 10), floats(n // 10), floats(n // 10)),
    "FFT": lambda n: call("FFT", rows(n, "complex64"), rank=1),
    "FFT: of one row": lambda n: call("FFT", floats(n, dtype="complex64"), rank=1),
    "FFT: of two dimensions": lambda n: call("FFT", rows(n, "complex64"), rank=2, inverse=True),
    "FakeQuant": lambda n: call("FakeQuant", floats(n), floats(), 2 * floats()),
    "IRFFT": lambda n: call("IRFFT", floats(n // ROW, ROW // 2 + 1, dtype="complex64"), sizes(ROW)[0], rank=1),
    "Igamma": lambda n: call("Igamma", floats(n // 10), floats(n // 10)),
    "IgammaSlope": lambda n: call("IgammaSlope", floats(n // 100), floats(n // 100), order=1),
    "Igammac": lambda n: call("Igammac", floats(n // 100), floats(n // 100)),
    "Polygamma": lambda n: call("Polygamma", np.ones(n // 10, np.float32), floats(n // 10)),
    "RFFT": lambda n: call("RFFT", rows(n), rank=1, dtype="complex64"),
    "ZetaSlope": lambda n: call("ZetaSlope", 2 + floats(n // 100), floats(n // 100), order=1),
}
