import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import DtypeError, GraphError, OpError, ShapeError


def value(build, *arguments):
    return tg.function(build).sync(*arguments)


def words(values):
    return np.array(values, np.dtypes.StringDType())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: tg.string_to_number(x), "no float32"),
        (lambda x: tg.string_to_number(tg.fill([1], "1_0")), "1_0"),
        (lambda x: tg.string_to_number(tg.fill([1], "\u0661")), "no float32"),  # a digit, of Arabic
        (lambda x: tg.string_to_number(tg.fill([1], "3000000000"), "int32"), "no int32"),
        (lambda x: tg.string_to_number(tg.fill([1], "1.5"), "int64"), "no int64"),
        (lambda x: tg.substr(x, 9, 1), "substr"),
        (lambda x: tg.substr(x, -9, 1), "substr"),
        (lambda x: tg.substr(x, 0, -1), "substr"),
        (lambda x: tg.substr(x, 0, 1), "UTF8_CHAR"),
        (lambda x: tg.decode_base64(x), "decode_base64"),
        (lambda x: tg.decode_base64(tg.fill([1], "YQ+/")), "belong"),
        (lambda x: tg.decode_base64(tg.fill([1], "_w")), "decode_base64"),
        (lambda x: tg.decode_base64(tg.fill([1], "Y")), "decode_base64"),
    ],
)
def test_strings_that_do_not_fit_fail_the_step(build, message):
    with pytest.raises(OpError, match=message):
        value(build, words(["äb"]))


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tg.string_to_number(["1"], "int8"), DtypeError),
        (lambda: tg.string_length(["a"], unit="WORD"), GraphError),
        (lambda: tg.substr("a", 0, 1, unit="WORD"), GraphError),
        (lambda: tg.string_lower("a", encoding="latin1"), GraphError),
        (lambda: tg.regex_replace("a", "(", "b"), GraphError),
        (lambda: tg.regex_replace("a", "a", r"\1"), GraphError),
        (lambda: tg.regex_replace("a", "a", "\\"), GraphError),
        (lambda: tg.regex_full_match("a", "[", name="m"), GraphError),
        (lambda: tg.as_string([1], precision=2), GraphError),
        (lambda: tg.as_string([True], shortest=True), GraphError),
        (lambda: tg.as_string([1.0], shortest=True, scientific=True), GraphError),
        (lambda: tg.as_string([1.0], fill="x"), GraphError),
        (lambda: tg.reduce_join([["a"]], axis=2), ShapeError),
        (lambda: tg.string_split([["a"]]), ShapeError),
        (lambda: tg.string_join([]), GraphError),
        (lambda: tg.string_to_hash_bucket("a", 0), GraphError),
        (lambda: tg.string_length([1]), DtypeError),
    ],
)
def test_what_can_not_be_is_refused(build, error):
    with pytest.raises(error), tg.Graph().as_default():
        build()


def test_a_whole_program_of_strings():
    def build(lines):
        parts = tg.string_split(lines, sep=",")
        numbers = tg.string_to_number(parts.values, "int32")
        rows = tg.gather(tg.transpose(parts.indices), 0)
        sums = tg.unsorted_segment_sum(numbers, rows, tg.size(lines))
        return tg.string_join([lines, tg.as_string(sums)], "=")

    assert value(build, words(["1,2,3", "", "40,2"])).tolist() == ["1,2,3=6", "=0", "40,2=42"]


def test_strings_in_a_loop_and_of_open_shapes():
    signature = [tg.TensorSpec(None, "string")]

    @tg.function(input_signature=signature)
    def build(x):
        def grown(i, s):
            return i + 1, tg.string_join([s, tg.as_string(i)])

        _, s = tg.while_loop(lambda i, s: i < 3, grown, (0, x))
        return [s, tg.string_length(s), tg.reduce_join(s, separator="|")]

    grown, lengths, joined = build.sync(words([["a"], ["bc"]]))
    assert grown.tolist() == [["a012"], ["bc012"]]
    assert lengths.tolist() == [[4], [5]]
    assert joined.item() == "a012|bc012"


def test_all_of_nothing():
    def build(x):
        return [
            tg.string_upper(x),
            tg.string_strip(x),
            tg.regex_replace(x, "a", "b"),
            tg.string_join([x, x]),
            tg.as_string(tg.string_length(x)),
            tg.encode_base64(x),
            tg.decode_base64(x),
        ]

    for result in value(build, words(np.zeros((0, 3), str))):
        assert (result.shape, result.dtype) == ((0, 3), np.dtypes.StringDType())


def test_numbers_that_are_written_are_read_again():
    x = np.random.default_rng(3).standard_normal(50)
    found = value(lambda t: tg.string_to_number(tg.as_string(t, precision=17, scientific=True), "float64"), x)
    np.testing.assert_array_equal(found, x)
