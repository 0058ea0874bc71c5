"""Attributes as text: the written form of values in the text of a graph, and the token stream for reading them."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..base import dtypes
from ..base.dtypes import DType
from ..base.errors import GraphError, TagloomError
from ..base.shapes import Shape
from .indexing import DYNAMIC, Dynamic

_INLINE_ELEMENTS = 64
_DIGITS = 18  # of a size or an index: an int64 holds them
_LONGEST = 400  # characters of a number: a float64 has no more digits on either side of its point
_DEPTH = 50  # of lists in lists
_PLAIN_NAME = re.compile(r'[^\s()\[\]{},:=@^?"<>#]+')
# In this order, because a string may hold all other characters; ``<...>`` stands for an object without text form.
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<opaque><[^<>]*>)|(?P<word>[^\s()\[\]{},:=@^?"<>#]+)|(?P<mark>[()\[\]{},:=@^?])'
)
_WORDS = {"None": None, "True": True, "False": False, "...": Ellipsis, "DYNAMIC": DYNAMIC}
_DTYPES = {d.name: d for d in dtypes.ALL}


def format_value(value: object) -> str:
    """Return the text of an attribute; values without text form become ``<callable name>`` or ``<object type>``."""
    if value is None or isinstance(value, bool):
        return str(value)
    if value is Ellipsis:
        return "..."
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (Dynamic, DType)):
        return repr(value) if isinstance(value, Dynamic) else value.name
    if isinstance(value, Shape):
        return f"shape{value}"
    if isinstance(value, (np.ndarray, np.generic)):
        return _format_array(np.asarray(value))
    if isinstance(value, (int, float, complex)):
        # The repr of a complex number has parentheses, which would begin a tuple.
        return repr(value).strip("()")
    return _format_container(value)


def _format_container(value: object) -> str:
    """Return the text of a slice, tuple, list or dict, or the placeholder of an object without text form."""
    if isinstance(value, slice):
        return f"slice({_join_values((value.start, value.stop, value.step))})"
    if isinstance(value, tuple):
        return f"({_join_values(value)},)" if len(value) == 1 else f"({_join_values(value)})"
    if isinstance(value, list):
        return f"[{_join_values(value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{format_value(k)}: {format_value(v)}" for k, v in value.items()) + "}"
    name = getattr(value, "__name__", None) or type(value).__name__
    return f"<{'callable' if callable(value) else 'object'} {name.strip('<>')}>"


def _join_values(values: Any) -> str:
    return ", ".join(map(format_value, values))


def _format_array(array: np.ndarray[Any, Any]) -> str:
    dtype = dtypes.as_dtype(array.dtype)
    if array.size > _INLINE_ELEMENTS and dtype is not dtypes.string:
        # Little-endian on every machine, so that equal graphs have equal texts.
        data = base64.b64encode(np.ascontiguousarray(array).astype(dtype.numpy.newbyteorder("<")).tobytes())  # type: ignore[union-attr]
        return f"{dtype}{Shape(array.shape)}{{base64 {json.dumps(data.decode())}}}"
    elements = [json.dumps(x) if dtype is dtypes.string else str(x).strip("()") for x in array.ravel()]
    return f"{dtype}{Shape(array.shape)}{{{', '.join(elements)}}}"


def format_name(name: str) -> str:
    """Return an operation's name, quoted where the text would be ambiguous."""
    plain = _PLAIN_NAME.fullmatch(name) and name not in ("region", "return", "save")
    return name if plain else json.dumps(name)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: its kind ('word', 'string', 'opaque', 'mark', 'end' of a line), its text, its line."""

    kind: str
    text: str
    line: int


class Reader:
    """The tokens of a text, read in order.

    Parameters
    ----------
    text : str
        Lines; empty lines and comments starting with ``#`` are skipped.
    """

    def __init__(self, text: str) -> None:
        self.tokens: list[Token] = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                self.tokens += [*_tokenize_line(line, number), Token("end", "the end of the line", number)]
        self.tokens.append(Token("end", "the end of the text", self.tokens[-1].line if self.tokens else 1))
        self.at: int = 0
        self.depth: int = 0

    @property
    def next(self) -> Token:
        """The token to be read."""
        return self.tokens[self.at]

    def fail(self, wanted: str, token: Token | None = None) -> NoReturn:
        """Raise the GraphError for a wrong line, with the expected text."""
        token = token or self.next
        raise GraphError(
            f"line {token.line} of a graph's text is wrong",
            wanted=wanted,
            got=token.text,
            hint="compare it with what to_text prints",
        )

    def take(self) -> Token:
        """Read the next token and advance."""
        token = self.next
        # The last token, the end of the text, is never passed.
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Read the mark or word `text` if it is the next token."""
        found = self.next.text == text and self.next.kind in ("mark", "word")
        if found:
            self.take()
        return found

    def expect(self, text: str) -> None:
        """Read the mark or word `text`."""
        if not self.accept(text):
            self.fail(f"'{text}'")

    def end_line(self) -> None:
        """Read the end of the line."""
        if self.next.kind != "end":
            self.fail("the end of the line")
        self.take()

    def string(self) -> str:
        """Read a quoted string."""
        if self.next.kind != "string":
            self.fail("a quoted string")
        return _unquote_token(self, self.take())

    def name(self) -> str:
        """Read the name of an operation."""
        if self.next.kind not in ("word", "string"):
            self.fail("a name")
        token = self.take()
        return token.text if token.kind == "word" else _unquote_token(self, token)

    def integer(self) -> int:
        """Read a number from 0 up."""
        if not self.next.text.isdecimal() or len(self.next.text) > _DIGITS:
            self.fail(f"a number of at most {_DIGITS} digits")
        return int(self.take().text)

    def typed(self) -> tuple[DType, Shape]:
        """Read a dtype and a shape, such as ``float32[?,3]``."""
        dtype = _DTYPES.get(self.next.text)
        if dtype is None:
            self.fail("a dtype and a shape, as float32[?,3]")
        self.take()
        return dtype, self.shape()

    def shape(self) -> Shape:
        """Read ``[?,3]``, or ``[...]`` when the rank is unknown."""
        self.expect("[")
        if self.accept("..."):
            self.expect("]")
            return Shape(None)
        return Shape(self.sequence("]", lambda: None if self.accept("?") else self.integer()))

    def sequence(self, end: str, read: Any) -> list[Any]:
        """Read values with `read`, separated by commas, up to the mark `end`."""
        found: list[Any] = []
        while not self.accept(end):
            found.append(read())
            if not self.accept(","):
                self.expect(end)
                break
        return found

    def value(self) -> Any:
        """Read an attribute."""
        self.depth += 1
        # Texts are untrusted: deep nesting must not exhaust Python's stack.
        if self.depth > _DEPTH:
            self.fail(f"values nested less than {_DEPTH} deep")
        try:
            return self._read_value()
        finally:
            self.depth -= 1

    def _read_value(self) -> Any:
        """Read an attribute of any kind; refuse placeholders of Python objects."""
        token = self.take()
        if token.kind == "string":
            return _unquote_token(self, token)
        if token.kind == "opaque":
            raise GraphError(
                f"line {token.line} of a graph's text holds what only exists in Python",
                wanted="a value",
                got=token.text,
                hint="build this graph in Python; its text is for reading",
            )
        return self._read_container(token) if token.kind == "mark" else self._parse_word(token)

    def _read_container(self, token: Token) -> Any:
        """Read the rest of a tuple, list or dict, whose opening mark is `token`."""
        if token.text == "(":
            return tuple(self.sequence(")", self.value))
        if token.text == "[":
            return self.sequence("]", self.value)
        if token.text == "{":
            pairs = self.sequence("}", self._read_pair)
            try:
                return dict(pairs)
            except TypeError:
                self.fail("keys that are no lists", token)
        return self.fail("a value", token)

    def _read_pair(self) -> tuple[Any, Any]:
        key = self.value()
        self.expect(":")
        return key, self.value()

    def _parse_word(self, token: Token) -> Any:
        """Return the value of a word: a constant, a shape, a slice, a dtype, an array, or a number."""
        if token.text in _WORDS:
            return _WORDS[token.text]
        if token.text == "shape" and self.next.text == "[":
            return self.shape()
        if token.text == "slice" and self.accept("("):
            parts = self.sequence(")", self.value)
            return slice(*parts) if len(parts) == 3 else self.fail("a slice of three", token)
        if token.text in _DTYPES:
            return self._read_array(_DTYPES[token.text]) if self.next.text == "[" else _DTYPES[token.text]
        if len(token.text) > _LONGEST:
            self.fail("a shorter number", token)
        # The order of kinds decides: "1" is an int, "1.0" a float, and only the rest may be complex.
        for number in (int, float, complex):
            try:
                return number(token.text)
            except ValueError:
                continue
        return self.fail("a value", token)

    def _read_array(self, dtype: DType) -> np.ndarray[Any, Any]:
        """Read the shape and the elements of an array, inline or in base64, as a read-only array."""
        start = self.next
        shape = self.shape()
        self.expect("{")
        encoded = self.accept("base64") and self.string()
        flat: Any = [] if encoded else self.sequence("}", lambda: self._read_element(dtype))
        try:
            if encoded:
                self.expect("}")
                data = base64.b64decode(encoded, validate=True)
                flat = np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy)  # type: ignore[union-attr]
            array = np.array(flat, dtype.numpy).reshape(shape.as_tuple())
        except (ValueError, OverflowError, TagloomError) as error:
            self.fail(f"elements for {dtype}{shape} ({error})", start)
        array.flags.writeable = False
        return array

    def _read_element(self, dtype: DType) -> Any:
        if dtype is dtypes.string:
            return self.string()
        token = self.take()
        try:
            return dtype.numpy.type(self._parse_word(token))  # type: ignore[union-attr]
        except (AttributeError, TypeError, ValueError, OverflowError):
            return self.fail(f"an element of {dtype}", token)


def _tokenize_line(line: str, number: int) -> list[Token]:
    """Return the tokens of a line; GraphError where no token begins."""
    found = []
    position = 0
    while position < len(line):
        if line[position].isspace():
            position += 1
            continue
        match = _TOKEN.match(line, position)
        if match is None:
            what = f"line {number} of a graph's text is wrong"
            raise GraphError(
                what,
                wanted="a name, a value or punctuation",
                got=line[position:],
                hint="compare it with what to_text prints",
            )
        found.append(Token(match.lastgroup or "", match.group(), number))
        position = match.end()
    return found


def _unquote_token(reader: Reader, token: Token) -> str:
    try:
        return str(json.loads(token.text))
    except ValueError:
        return reader.fail("a quoted string", token)
