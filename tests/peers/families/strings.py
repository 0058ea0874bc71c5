"""Functions of strings; TensorFlow's are of bytes, so that some are only compared for ASCII."""

import base64
import string

import numpy as np

from tests.peers.calls import Call, family
from tests.peers.families.arithmetic import dims, floats

LETTERS = np.array([*"abcXYZ 0189,-", "ä", "é"])
ASCII = LETTERS[:-2]
PATTERNS = (
    ("[a-c]+", r"<\0>"),
    ("(a|b)(.)", r"\2\1"),
    ("x*", "-"),
    (r"\d", "#"),
    ("[a-z]*", "."),
    ("^a|b$", r"\\"),
)


def texts(random, shape, letters=LETTERS, most=8):
    """Return random strings."""
    words = ["".join(random.choice(letters, random.integers(0, most + 1))) for _ in range(int(np.prod(shape)))]
    return np.array([*words, None], object)[:-1].reshape(shape)


def changed(random, shape):
    """Draw a function of one string."""
    name = str(random.choice(["lower", "upper", "strip", "length"]))
    keywords = {}
    if name in ("lower", "upper"):
        keywords["encoding"] = str(random.choice(["", "utf-8"]))
    if name == "length":
        keywords["unit"] = str(random.choice(["BYTE", "UTF8_CHAR"]))
    return Call(f"string_{name}", [texts(random, shape)], keywords, theirs=f"strings.{name}")


def written(random, shape):
    """Draw numbers to write, with options."""
    keywords = {}
    if random.random() < 0.5:
        keywords |= {"width": int(random.integers(1, 12)), "fill": str(random.choice(["", "0", " ", "+", "-"]))}
    if random.random() < 0.4:
        return Call("as_string", [random.integers(-999, 999, shape, dtype=np.int64)], keywords, differentiable=False)
    if random.random() < 0.2:
        return Call("as_string", [random.random(shape) < 0.5], differentiable=False)
    if random.random() < 0.5:
        keywords["precision"] = int(random.integers(0, 5))
    keywords |= {str(random.choice(["scientific", "shortest"])): bool(random.random() < 0.5)}
    kind = np.complex64 if random.random() < 0.2 else np.float32
    return Call("as_string", [floats(random, shape).astype(kind)], keywords, differentiable=False)


def read(random, shape):
    """Draw strings of numbers to read."""
    kind = str(random.choice(["float32", "float64", "int32", "int64"]))
    numbers = random.integers(-(10**6), 10**6, shape) if kind.startswith("i") else random.standard_normal(shape)
    found = np.array([*(f" {n}" for n in numbers.ravel()), None], object)[:-1].reshape(shape)
    return Call("string_to_number", [found], {"out_type": kind}, differentiable=False)


def joined(random, shape):
    """Draw strings to join, elementwise or along axes."""
    separator = str(random.choice(["", ", "]))
    if random.random() < 0.4:
        parts = [texts(random, shape) for _ in range(random.integers(1, 4))]
        return Call("string_join", [parts], {"separator": separator}, theirs="strings.join")
    axes = [int(i) for i in random.permutation(len(shape))[: random.integers(1, len(shape) + 1)]]
    keywords = {"axis": None if random.random() < 0.2 else axes, "separator": separator}
    return Call("reduce_join", [texts(random, shape)], {**keywords, "keepdims": bool(random.random() < 0.5)})


def taken_apart(random, shape):
    """Draw strings to split, or parts of them."""
    if random.random() < 0.5:
        source = texts(random, shape[:1], ASCII)
        keywords = {"skip_empty": bool(random.random() < 0.5)}
        sep = str(random.choice([" ", ",-", "a", ""]))
        return Call(
            "string_split",
            [source],
            {**keywords, "sep": sep},
            theirs="raw_ops.StringSplit",
            their_arguments=[],
            their_keywords={**keywords, "input": source, "delimiter": sep},
        )
    unit = str(random.choice(["BYTE", "UTF8_CHAR"]))
    source = texts(random, shape, LETTERS if unit == "UTF8_CHAR" else ASCII)
    longest = min(len(text) for text in source.ravel())
    pos = random.integers(-longest, longest + 1, shape).astype(np.int32)
    length = random.integers(0, 6, shape).astype(np.int32)
    return Call("substr", [source, pos, length], {"unit": unit})


def matched(random, shape):
    """Draw a regular expression and what to do with it."""
    pattern, rewrite = PATTERNS[random.integers(len(PATTERNS))]
    if random.random() < 0.3:
        return Call("regex_full_match", [texts(random, shape, most=2), pattern], theirs="strings.regex_full_match")
    everywhere = bool(random.random() < 0.7)
    return Call("regex_replace", [texts(random, shape), pattern, rewrite], {"replace_global": everywhere})


def coded(random, shape):
    """Draw strings to encode in base64, or codes."""
    if random.random() < 0.5:
        return Call("encode_base64", [texts(random, shape)], {"pad": bool(random.random() < 0.5)})
    letters = [*string.ascii_letters, *string.digits]
    codes = [code(random, letters) for _ in range(int(np.prod(shape)))]
    return Call("decode_base64", [np.array([*codes, None], object)[:-1].reshape(shape)])


def code(random, letters):
    """Return the code of a string of letters."""
    return base64.urlsafe_b64encode("".join(random.choice(letters, random.integers(0, 9))).encode()).decode()


KINDS = (changed, written, read, joined, taken_apart, matched, coded)


@family
def strings(random):
    """Draw a call of a function of strings."""
    return KINDS[random.integers(len(KINDS))](random, dims(random, random.integers(1, 4)))
