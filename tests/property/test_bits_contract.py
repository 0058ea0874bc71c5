"""The contract on bits (docs/memory.md): how a program runs on one machine changes no bit of a value or gradient.

``TAGLOOM_PROGRAMS`` sets the number of random programs.
"""

import pytest
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st
from tagloom.kernels.cpu.linear import vector_bits

from tests.property.bits import WAYS, Program
from tests.property.bits_programs import PROGRAMS
from tests.property.cells import Cells, make_every_product_worthwhile
from tests.property.gradient_programs import build_gradients
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import smooth_programs

pytestmark = pytest.mark.skipif(vector_bits() == 0, reason="BLAS computes products, with other bits for other rows")


@pytest.fixture(scope="module")
def built():
    """Programs with the results of their plain runs."""
    return {}


@pytest.mark.rule(104)
@pytest.mark.sampled(every=60)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_programs(built, name, way):
    if name not in built:
        built[name] = Program(PROGRAMS[name])
    built[name].check(way)


def ways(names, count):
    return st.lists(st.sampled_from(list(names)), min_size=count, max_size=count, unique=True)


@batches(48)
@batch_settings(48)
@given(st.integers(0, 2**32), st.sampled_from([(2, 3), (9, 8), (1, 24), (4, 16)]), ways(WAYS, 4))
def test_bits_of_random_cells(batch, seed, size, names):
    """Whichever of the products a loop could lift, split or merge."""

    def make(**how):
        # The cotangents of an element that is read three times are added in the order in which they arrive.
        cells = Cells(seed, *size, reads_arrays=False)
        fetches = [tg.convert_to_tensor(f) for f in cells.loop(**how)]
        return fetches, dict(zip(cells.feeds, cells.values(seed), strict=True))

    with pytest.MonkeyPatch.context() as patch:
        make_every_product_worthwhile(patch)
        check(make, names)


@batches(48)
@batch_settings(48)
@given(smooth_programs(), ways(WAYS, 4))
def test_bits_of_random_programs(batch, program, names):
    note(f"{show(program)}\n{program!r}")

    def make(parallel_iterations, swap_memory, checkpoint_every):
        every = (checkpoint_every,)
        built, first, second = build_gradients(program, parallel_iterations, every=every)
        return [*built.results, *first, *second], built.feeds(program.values)

    check(make, names)


def check(make, names):
    program = Program(make)
    for name in names:
        program.check(name)


def test_a_program_that_needs_its_limit_has_the_bits_of_one_without():
    program = Program(PROGRAMS["lstm"])
    assert program.check("near the limit")
