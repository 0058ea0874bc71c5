"""Operations of strings on many of them: a tenth as many as of numbers, or fewer, since Python is called for each."""

from __future__ import annotations

import numpy as np

from .large_programs import Build, call, numbers, sizes, strings


def texts(n: int, *some: str) -> np.ndarray:
    """Return these texts again and again."""
    return np.resize(np.array(some, np.dtypes.StringDType()), n)


def words(n: int) -> list[np.ndarray]:
    """Return the parts of a sparse matrix whose rows are words of ten letters, and as many others to compare with."""
    count = n // 10
    places = np.stack([np.arange(n) // 10, np.arange(n) % 10], 1)
    shape = np.array([count, 10])
    return [places, numbers(n), shape, places, numbers(n, below=5), shape]


STRINGS: dict[str, Build] = {
    "AsString": lambda n: call("AsString", numbers(n // 10, below=n), form="%d"),
    "DecodeBase64": lambda n: call("DecodeBase64", texts(n // 100, "YQ", "Pz5-w78")),
    "EditDistance": lambda n: call("EditDistance", *words(n // 100)),
    "EncodeBase64": lambda n: call("EncodeBase64", strings(n // 10), pad=False),
    "ReduceJoin": lambda n: call("ReduceJoin", strings(n // 100 * 10).reshape(-1, 10), axis=(1,)),
    "ReduceJoin: to one": lambda n: call("ReduceJoin", strings(n // 10)),
    "RegexFullMatch": lambda n: call("RegexFullMatch", strings(n // 10), pattern="a.*"),
    "RegexReplace": lambda n: call("RegexReplace", strings(n // 100), pattern="a t[a-z]*", rewrite=r"<\0>"),
    "StringCase": lambda n: call("StringCase", strings(n // 100), case="ascii upper"),
    "StringLength": lambda n: call("StringLength", strings(n // 10)),
    "StringLength: of characters": lambda n: call("StringLength", strings(n // 10), unit="UTF8_CHAR"),
    "StringSplit": lambda n: call("StringSplit", strings(n // 100)),
    "StringStrip": lambda n: call("StringStrip", texts(n // 10, " a text", "b\n")),
    "StringToHashBucket": lambda n: call("StringToHashBucket", strings(n // 10), num_buckets=1000),
    "StringToNumber": lambda n: call("StringToNumber", texts(n // 10, "1.5", " -2e3 ", "7")),
    "Substr": lambda n: call("Substr", strings(n // 10), *sizes(0, 1)),
}
