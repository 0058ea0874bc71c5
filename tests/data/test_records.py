"""Files of records, byte for byte as TensorFlow has them."""

import asyncio
import gzip

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.record_files import masked_crc32c, tfrecord

from tests.data.running import collect, plain, run, through_a_file


def masked(data):
    """Return the checksum as it is defined: the remainder of a division, turned by 15 bits and moved."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    found = register ^ 0xFFFFFFFF
    return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("length", [0, 1, 3, 31, 32, 1000, 65537])
def test_checksums_are_those_of_their_definition(kind, length):
    data = np.random.default_rng(length).bytes(length)
    assert masked_crc32c(kind(data)) == masked(data)


def test_a_record_has_the_bytes_that_tensorflow_writes():
    assert tfrecord(b"abc").hex() == "0300000000000000b099490e6162636e57f121"


def records(count):
    random = np.random.default_rng(0)
    return [random.bytes(int(n)) for n in random.integers(0, 2000, count)]


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_what_is_written_is_read_from_any_place(tmp_path, name):
    wanted = records(300)
    with tg.data.TFRecordWriter(tmp_path / name) as writer:
        for record in wanted:
            writer.write(record)
        writer.flush()
    data = tg.data.from_tfrecord(tmp_path / name)

    async def main(place):
        async with data.iterator() as one, data.iterator() as other:
            for _ in range(place):
                await one.next()
            other.restore(through_a_file(one.state()))
            return [record async for record in other]

    assert run(data) == wanted
    for place in (1, 150, 299, 300):
        assert asyncio.run(main(place)) == wanted[place:]


def damaged(tmp_path, change):
    data = bytearray(b"".join(map(tfrecord, [b"first", b"second", b"third"])))
    change(data)
    path = tmp_path / "damaged"
    path.write_bytes(data)
    return [x if isinstance(x, bytes) else str(x) for x in asyncio.run(collect(tg.data.from_tfrecord(path)))]


def test_damage_is_found_and_passed_where_that_is_possible(tmp_path):
    second = len(tfrecord(b"first"))

    def flip(place):
        return lambda data: data.__setitem__(place, data[place] ^ 4)

    first, error, third = damaged(tmp_path, flip(second + 12))
    assert (first, third) == (b"first", b"third")
    assert "has checksum" in error
    assert "damaged, record 2" in error
    first, error = damaged(tmp_path, flip(second))
    assert "the length of a record" in error
    first, second_, error = damaged(tmp_path, lambda data: data.__delitem__(slice(-1, None)))
    assert (first, second_) == (b"first", b"second")
    assert "ends within a record" in error
    *_, error = damaged(tmp_path, lambda data: data.extend(b"abc"))
    assert "ends within the head" in error


def test_a_damaged_gzip_file_is_an_error_of_the_pipeline(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-10])
    (tmp_path / "b.gz").write_bytes(b"nothing of the kind")
    found = asyncio.run(collect(tg.data.from_text(str(tmp_path / "*.gz"))))
    assert [type(each) for each in found[-2:]] == [tg.PipelineError] * 2
    assert "b.gz" in found[-1].origin


def test_examples_are_parsed_as_they_were_made():
    features = {
        "label": [1, -2, 2**62],
        "image": np.array([[1.5, -2.5]], np.float32),
        "name": ["a", b"\xff"],
        "one": 7,
        "text": "b",
        "flag": np.array([True, False]),
        "none": [],
    }
    found = tg.data.parse_example(tg.data.make_example(features))
    assert found["label"].tolist() == [1, -2, 2**62]
    assert found["label"].dtype == np.int64
    assert found["image"].tolist() == [1.5, -2.5]
    assert found["image"].dtype == np.float32
    assert (found["name"], found["one"].tolist(), found["text"]) == ([b"a", b"\xff"], [7], [b"b"])
    assert found["flag"].tolist() == [1, 0]
    assert len(found["none"]) == 0
    with pytest.raises(tg.DtypeError, match="'bad'"):
        tg.data.make_example({"bad": 1j})


def test_an_example_of_tensorflow_is_read():
    label = "0a180a056c6162656c120f1a0d0a0b01feffffffffffffffff01"
    rest = "0a0c0a016e12070a050a036361740a0d0a0178120812060a040000003f"
    written = "0a37" + label + rest
    found = tg.data.parse_example(bytes.fromhex(written))
    assert {name: plain(value) for name, value in found.items()} == {"label": [1, -2], "x": [0.5], "n": [b"cat"]}
    again = tg.data.make_example({"label": [1, -2], "n": [b"cat"], "x": [0.5]})
    assert again.hex() == written


@pytest.mark.parametrize("record", [b"\x0a\xff", b"\x0f", b"\x0a\x02\x0a\x05", b"\x80" * 12, b"\x0a\x03\x0a\x01\x80"])
def test_what_is_no_example_is_refused(record):
    with pytest.raises(tg.TagloomError, match="this is no tf"):
        tg.data.parse_example(record)


def test_a_number_of_more_than_64_bits_is_no_example():
    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    ints = field(3, field(1, b"\xff" * 9 + b"\x7f"))
    with pytest.raises(tg.TagloomError, match=r"no tf\.train\.Example"):
        tg.data.parse_example(field(1, field(1, field(1, b"a") + field(2, ints))))
