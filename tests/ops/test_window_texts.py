"""Docstrings of convolutions and pooling say alike what they have alike."""

import inspect
import re

import pytest
import tagloom as tg
from tagloom.ops.support.window_texts import of_convolution, of_pooling, of_transposed, padding_alone

FUNCTIONS = [name for name in dir(tg) if ("conv" in name and "convert" not in name) or "pool" in name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_text_is_missing(name):
    text = inspect.getdoc(getattr(tg, name))
    assert "padding : {'VALID', 'SAME'} or sequence of pairs\n    VALID has only" in text
    assert not re.search(r"\{\w+\}", text)
    assert max(map(len, text.split("\n"))) <= 116


def test_each_name_of_a_parameter_has_the_text():
    family = of_convolution(1).parameters
    assert family["stride"] == family["strides"]
    assert family["rate"] == family["dilation_rate"] == family["rate, dilations"] == family["dilations"]
    assert padding_alone(of_pooling(2)).parameters == {"padding": of_pooling(2).parameters["padding"]}
    assert of_transposed(2).raises["GraphError"] == of_convolution(2).raises["GraphError"]


def test_texts_say_how_many_numbers_there_may_be():
    assert "3 with 1 for the batch" in of_pooling(1).parameters["ksize, strides"]
    assert "5 with (0, 0) for batch" in of_pooling(3).parameters["padding"].replace("\n   ", "")
    assert of_convolution(2).parameters["data_format"].startswith("{'NHWC', 'NCHW'}, optional\n")
    formats = "{'NWC', 'NHWC', 'NDHWC', 'NCW', 'NCHW', 'NCDHW'}, optional\n"
    assert of_convolution().parameters["data_format"].startswith(formats)
