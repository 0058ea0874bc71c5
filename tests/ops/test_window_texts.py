"""Docstrings of convolutions and pooling say alike what they have alike."""

import inspect
import re

import pytest
import tagloom as tg
from tagloom.ops.support.window_texts import fill_docstring, of_convolution, of_pooling

FUNCTIONS = [name for name in dir(tg) if ("conv" in name and "convert" not in name) or "pool" in name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_text_is_missing(name):
    text = inspect.getdoc(getattr(tg, name))
    assert "padding : {'VALID', 'SAME'} or sequence of pairs\n    VALID has only" in text
    assert not re.search(r"\{\w+\}", text)
    assert max(map(len, text.split("\n"))) <= 116


def test_texts_stand_behind_the_names_that_parameters_have():
    def function(stride):
        """Convolve.

        stride : {strides}
        Raises
        ------
        {errors}
        """

    lines = inspect.getdoc(fill_docstring(of_convolution(1))(function)).split("\n")
    kind, numbers = of_convolution(1)["strides"].split("\n")
    assert lines[2:4] == [f"stride : {kind}", f"    {numbers}"]
    assert lines[-4:] == of_convolution(1)["errors"].split("\n")


def test_texts_say_how_many_numbers_there_may_be():
    assert "3 with 1 for the batch" in of_pooling(1)["ksize"]
    assert "5 with (0, 0) for batch" in of_pooling(3)["padding"]
    assert of_convolution(2)["data_format"].startswith("{'NHWC', 'NCHW'}, optional\n")
    assert of_convolution()["data_format"].startswith("{'NWC', 'NHWC', 'NDHWC', 'NCW', 'NCHW', 'NCDHW'}, optional\n")
