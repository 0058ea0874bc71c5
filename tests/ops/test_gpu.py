"""Every sample of every operation on a GPU, with the real CuPy; what passes is written into ``verified.json``."""

import fcntl
from contextlib import contextmanager

import numpy as np
import pytest

from tests.ops.samples import SAMPLES
from tests.ops.verified import FILE, write_verified
from tests.strict_array_library.kernels import compare, is_for_device, run, run_compiled, variants

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning"),
]

ULPS = 64  # a GPU's exponentials, and sums in another order
DEVICE = [p.values for p in SAMPLES if is_for_device(*p.values)]
TYPES = sorted({definition.type for definition, _ in DEVICE})
TOGETHER = 15  # in one test, which compiles some hundred kernels
VECTORS = {"SelfAdjointEig": [1], "Svd": [1, 2]}  # outputs whose columns are unique but for a factor of size 1


def aligned(type, found, wanted):
    """Return results in which columns have the factors of those wanted; those of a pair have the same."""
    import cupy

    if isinstance(found, list) and type in VECTORS and found[0].size:
        factors = []
        for k in VECTORS[type]:
            columns = found[k].get()
            inner = np.sum(columns.conj() * wanted[k], axis=-2, keepdims=True)
            factors.append(inner / np.abs(inner))
            found[k] = cupy.asarray((columns * factors[-1]).astype(columns.dtype))
        common = found[0].shape[-1]
        np.testing.assert_allclose(factors[0][..., :common], factors[-1][..., :common], rtol=1e-4)
    return found


def fails(type):
    """Return what is wrong with an operation on the GPU, or None."""
    import cupy

    try:
        for definition, sample in DEVICE:
            for variant in variants(definition, sample) if definition.type == type else ():
                wanted = run(definition, variant, np)
                found = aligned(type, run(definition, variant, cupy), wanted)
                compare(definition, found, wanted, ULPS, variant.inputs)
                if compiled := run_compiled(definition, variant, cupy):
                    compare(definition, compiled, wanted, ULPS, variant.inputs)
    except Exception as error:  # whatever CuPy, its compiler or the driver raises: the others are tried too
        return f"{type}: {error!r}"
    return None


@contextmanager
def alone():
    """Keep other processes from writing what they verified at the same time."""
    with FILE.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("start", range(0, len(TYPES), TOGETHER))
def test_operations_compute_on_a_gpu_what_they_do_on_the_cpu(start):
    from bench.gpu import subject_of_this_run

    types = TYPES[start : start + TOGETHER]
    wrong = {type: found for type in types if (found := fails(type))}
    subject = subject_of_this_run()
    with alone():
        write_verified({type: subject for type in types if type not in wrong})
    assert not wrong, "\n".join(wrong.values())
