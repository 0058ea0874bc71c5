"""Special functions, within their domains."""

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

ANYWHERE = ("dawsn", "fresnel_cos", "fresnel_sin")
EVEN_AND_ODD = ("bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1")
OF_POSITIVE = ("bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1")


def positive(random, shape, low=0.1, high=6.0):
    """Return uniformly distributed numbers in float32."""
    return random.uniform(low, high, shape).astype(np.float32)


def wide(random, shape):
    """Return numbers of a few units in float32."""
    return 2 * floats(random, shape)


def one_operand(random, shape):
    """Draw a call of a function of one operand."""
    kinds = {
        "math.lgamma": ("lgamma", lambda: positive(random, shape, 0.3, 9)),
        "math.digamma": ("digamma", lambda: positive(random, shape, 1.6, 9)),
        "math.erfinv": ("erfinv", lambda: random.uniform(-0.95, 0.95, shape).astype(np.float32)),
        "math.ndtri": ("ndtri", lambda: random.uniform(0.02, 0.98, shape).astype(np.float32)),
        "math.erfcinv": ("erfcinv", lambda: random.uniform(0.05, 1.95, shape).astype(np.float32)),
        "math.special.expint": ("expint", lambda: positive(random, shape, 0.5, 4)),
        "math.special.spence": ("spence", lambda: positive(random, shape, 0.1, 5)),
        "math.lbeta": ("lbeta", lambda: positive(random, (*shape, 3), 0.3)),
    }
    kinds |= {f"math.special.{name}": (name, lambda: wide(random, shape)) for name in ANYWHERE}
    kinds |= {f"math.special.{name}": (name, lambda: wide(random, shape)) for name in EVEN_AND_ODD}
    kinds |= {f"math.special.{name}": (name, lambda: positive(random, shape, 0.5)) for name in OF_POSITIVE}
    theirs = str(random.choice(sorted(kinds)))
    name, make = kinds[theirs]
    return Call(name, [make()], theirs=theirs)


def several_operands(random, shape):
    """Draw a call of a function of two or three operands, which broadcast."""
    one = tuple(d if random.random() < 0.5 else 1 for d in shape)
    name = str(random.choice(["igamma", "igammac", "betainc", "zeta", "polygamma", "xdivy", "xlog1py"]))
    if name == "polygamma":
        order = random.integers(1, 4, one).astype(np.float32)
        return Call(name, [order, positive(random, shape, 0.5)], theirs=f"math.{name}")
    if name == "betainc":
        parts = [positive(random, shape, 0.5, 4), positive(random, shape, 0.5, 4)]
        return Call(name, [*parts, positive(random, shape, 0.05, 0.95)], theirs=f"math.{name}", differentiable=False)
    if name == "zeta":
        operands = [positive(random, one, 1.5), positive(random, shape, 0.5)]
        return Call(name, operands, theirs=f"math.{name}", differentiable=False)
    first = positive(random, one) if name.startswith("igamma") else floats(random, one)
    if name.startswith("x"):
        first = np.where(random.random(one) < 0.3, np.float32(0), first)
    return Call(name, [first, positive(random, shape)], theirs=f"math.{name}")


@family
def special(random):
    """Draw a call of a special function."""
    shape = dims(random, random.integers(1, 4))
    return one_operand(random, shape) if random.random() < 0.6 else several_operands(random, shape)
