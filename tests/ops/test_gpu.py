"""Every sample of every operation on a GPU, with the real CuPy; what passes is written into ``verified.json``."""

import numpy as np
import pytest
from tagflow.ops.verified import write_verified

from tests.ops.samples import SAMPLES
from tests.strict_array_library.kernels import compare, is_for_device, run, run_compiled, variants

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning"),
]

ULPS = 64  # a GPU's exponentials, and sums in another order
DEVICE = [p.values for p in SAMPLES if is_for_device(*p.values)]
TYPES = sorted({definition.type for definition, _ in DEVICE})
TOGETHER = 15  # in one test, which compiles some hundred kernels


def fails(type):
    """Return what is wrong with an operation on the GPU, or None."""
    import cupy

    try:
        for definition, sample in DEVICE:
            for variant in variants(definition, sample) if definition.type == type else ():
                wanted = run(definition, variant, np)
                compare(definition, run(definition, variant, cupy), wanted, ULPS)
                if compiled := run_compiled(definition, variant, cupy):
                    compare(definition, compiled, wanted, ULPS)
    except Exception as error:  # whatever CuPy, its compiler or the driver raises: the others are tried too
        return f"{type}: {error!r}"
    return None


@pytest.mark.parametrize("start", range(0, len(TYPES), TOGETHER))
def test_operations_compute_on_a_gpu_what_they_do_on_the_cpu(start):
    from bench.gpu import subject_of_this_run

    types = TYPES[start : start + TOGETHER]
    wrong = {type: found for type in types if (found := fails(type))}
    subject = subject_of_this_run()
    write_verified({type: subject for type in types if type not in wrong})
    assert not wrong, "\n".join(wrong.values())
