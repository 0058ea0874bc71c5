from collections.abc import Mapping
from typing import Any

import numpy as np

OWN: Mapping[str, np.ufunc]

def elementary_function(xp: Any, name: str) -> Any: ...
def with_vectors_of(bits: int) -> dict[str, np.ufunc]: ...
