"""Sizes as people write them."""

import numpy as np
import pytest
from tagloom.base.errors import GraphError
from tagloom.base.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (1, 1),
        (np.int64(1 << 40), 1 << 40),
        ("512", 512),
        ("512B", 512),
        ("512MiB", 512 << 20),
        (" 1.5 gib ", 3 << 29),
        ("800 MB", 800_000_000),
        ("2kB", 2000),
        ("2KiB", 2048),
        ("0.25TiB", 1 << 38),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes(size, wanted):
    assert parse_size(size) == wanted


@pytest.mark.parametrize(
    "size",
    [
        0,
        -5,
        True,
        1.5,
        None,
        "",
        "MiB",
        "-1MiB",
        "1 MB B",
        "1e6",
        "12 parsecs",
        "0",
        "0.1",
        "99999999TiB",
        "9" * 500 + ".0",
        "9" * 5000,
        "٣",
    ],
)
def test_what_is_no_size(size):
    with pytest.raises(GraphError, match="memory_limit") as caught:
        parse_size(size, "memory_limit")
    assert caught.value.got == repr(size)
    assert "512MiB" in caught.value.hint


@pytest.mark.parametrize("size", [1, 999, 1023, 1 << 20, 3 << 29, 5 << 40, 600 << 40])
def test_written_sizes_read_back(size):
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.01)
