"""What is known of values while a graph is built."""

import tagloom as tg
from tagloom.ir.static_values import static_shape


def test_an_integer_vector_of_a_known_length_stands_for_a_shape_of_that_rank():
    with tg.Graph().as_default():
        assert static_shape(tg.placeholder("int32", [3])).rank == 3


def test_a_vector_longer_than_arrays_have_dimensions_stands_for_no_shape():
    with tg.Graph().as_default():
        assert static_shape(tg.placeholder("int32", [1_000_000])).rank is None
