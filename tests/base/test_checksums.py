"""CRC-32C as RFC 3720 has it."""

import numpy as np
import pytest
from tagloom.base.checksums import crc32c


@pytest.mark.parametrize(
    ("data", "wanted"),
    [  # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_checksums_of_the_standard(kind, data, wanted):
    assert crc32c(kind(data)) == wanted


@pytest.mark.parametrize("length", [1, 1 << 20, (1 << 20) + 1, (3 << 20) - 1])
def test_long_data_are_added_up_in_pieces(length):
    data = np.random.default_rng(length).bytes(length)
    middle = length // 3
    assert crc32c(data) == crc32c(memoryview(data)) == crc32c(data[middle:], crc32c(data[:middle]))
