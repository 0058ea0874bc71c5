"""Regular expressions, elementwise."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...ir.apply import apply
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.common import same_as
from ..support.interpreter import iterate_elements
from ..support.literals import flags
from ..support.vectorizing.families import pointwise
from .elementwise import STRINGS, string_array
from .kernels import make_numbers, make_strings, python_calls, replace_matches


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, with ASCII character classes; GraphError for wrong syntax."""
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, TypeError) as error:
        raise GraphError(
            "a regular expression is wrong", wanted="Python's syntax", got=repr(pattern), hint=str(error)
        ) from None


def _translate_rewrite(pattern: str, rewrite: str) -> str:
    """Translate a rewrite into a template of Python; GraphError for references to missing groups."""
    # The group in the pattern puts the escaped characters at the odd indices.
    parts = re.split(r"\\(.?)", rewrite, flags=re.DOTALL)
    groups = _compile_pattern(pattern).groups
    for escaped in parts[1::2]:
        if escaped != "\\" and not (escaped.isdecimal() and int(escaped) <= groups):
            raise GraphError(
                "a rewrite refers to what there is not",
                wanted=f"a backslash before another, or before 0 to {groups}",
                got=repr(rewrite),
                hint="parentheses in the pattern make groups; \\0 is the whole match",
            )
    # The form \g<1>, because after \1 a digit of the rewrite would belong to the number.
    found = (part if i % 2 == 0 else "\\\\" if part == "\\" else f"\\g<{part}>" for i, part in enumerate(parts))
    return "".join(found)


def _compute_replace(xp: Any, x: Any, pattern: str, rewrite: str, replace_global: bool) -> Any:
    compiled, template = _compile_pattern(pattern), _translate_rewrite(pattern, rewrite)
    # 0 means all matches.
    count = 0 if replace_global else 1
    return make_strings((replace_matches(compiled, template, text, count) for text in iterate_elements(x)), x.shape)


define(
    "RegexReplace",
    "input: host string -> output: host string",
    attrs={"pattern": REQUIRED, "rewrite": REQUIRED, "replace_global": True},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=_compute_replace,
    gradient=STRINGS,
    samples=[
        Sample(
            [string_array(["a1b22", "c"])], string_array(["a<1>b<22>", "c"]), {"pattern": "[0-9]+", "rewrite": r"<\0>"}
        ),
        Sample(
            [string_array(["ab ab"])],
            string_array(["ba ab"]),
            {"pattern": "(a)(b)", "rewrite": r"\2\1", "replace_global": False},
        ),
        Sample([string_array("axb")], string_array("-a-b-"), {"pattern": "x*", "rewrite": "-"}),
        Sample([string_array("a")], string_array("\\n"), {"pattern": "a", "rewrite": r"\\n"}),
    ],
)


@public
def regex_replace(
    input: Any, pattern: str, rewrite: str, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""Replace the matches of a regular expression, elementwise.

    Parameters
    ----------
    input : string Tensor
    pattern : str
        In Python's syntax, which covers TensorFlow's RE2 except its Unicode classes; ``\d``, ``\w`` and ``\s`` are
        limited to ASCII.
    rewrite : str
        The replacement, in which ``\1`` to ``\9`` stand for groups, ``\0`` for the whole match.
    replace_global : bool
        Replace all matches, instead of the first alone.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    GraphError
        If the pattern is wrong, or the rewrite refers to a missing group.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.regex_replace(["2024-01", "no"], r"(\d+)-(\d+)", r"\2/\1")).sync().tolist()
    ['01/2024', 'no']
    """
    # Raises the errors of pattern and rewrite at the user's line, before any step.
    _translate_rewrite(pattern, rewrite)
    return apply(
        "RegexReplace", input, name=name, pattern=pattern, rewrite=rewrite, replace_global=bool(replace_global)
    )


def _full_match(xp: Any, x: Any, pattern: str) -> Any:
    compiled = _compile_pattern(pattern)
    return make_numbers((compiled.fullmatch(text) is not None for text in iterate_elements(x)), np.bool_, x.shape)


define(
    "RegexFullMatch",
    "input: host string -> output: host bool",
    attrs={"pattern": REQUIRED},
    shape=same_as(0),
    rules=[Vectorize(pointwise), Elements(python_calls)],
    kernel=_full_match,
    gradient=STRINGS,
    samples=[
        Sample([string_array(["ab", "abc", ""])], flags([True, False, False]), {"pattern": "a."}),
        Sample([string_array("aa")], flags(True), {"pattern": "a*"}),
    ],
)


@public
def regex_full_match(input: Any, pattern: str, name: str | None = None) -> Tensor:
    """Return True where a regular expression matches a whole string, elementwise.

    Parameters
    ----------
    input : string Tensor
    pattern : str
        As for `regex_replace`.

    Returns
    -------
    Tensor
        Of dtype bool and the same shape.

    Raises
    ------
    GraphError
        If the pattern is wrong.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.regex_full_match(["10", "10a"], "[0-9]+")).sync()
    array([ True, False])
    """
    _compile_pattern(pattern)
    return apply("RegexFullMatch", input, name=name, pattern=pattern)
