"""The counts of `words.py` stay under their bars, which only fall."""

import ast
import re

import pytest

from tests.architecture.layers import ROOT
from tests.architecture.words import (
    Counts,
    comment_share_of_the_hardest,
    count_comment_lines,
    counts_by_package,
    cython_counts,
    cython_docstrings,
    find_idioms,
    idioms_in_documents,
    prose_of,
)

PRONOUNS, PRONOUNS_OF_ALL = 0.018, 0.010  # shares of the words of docstrings
CYTHON_PRONOUNS = 0.009  # the same for Cython sources and stubs
IDIOMS: dict[str, int] = {}  # of docstrings, by package; none elsewhere
ONE_WORD = 0.225  # share of the names of functions
COMMENTS, COMMENTS_OF_THE_HARDEST = 0.026, 0.037  # shares of the lines
UNDOCUMENTED = 0  # private functions of more than eight lines
IN_DOCUMENTS = 0


@pytest.fixture(scope="module")
def packages():
    return counts_by_package()


def test_docstrings_name_things(packages):
    shares = {name: counts.pronoun_share() for name, counts in packages.items()}
    assert {name: share for name, share in shares.items() if share > PRONOUNS} == {}
    assert sum(packages.values(), Counts()).pronoun_share() <= PRONOUNS_OF_ALL


def test_summaries_open_with_a_noun_or_a_verb(packages):
    assert [place for counts in packages.values() for place in (*counts.riddles, *counts.openings)] == []


def test_docstrings_are_in_the_words_of_the_field(packages):
    found = {name: counts.idioms.total() for name, counts in packages.items()}
    assert {name: total for name, total in found.items() if total > IDIOMS.get(name, 0)} == {}
    assert sum(idioms.total() for idioms in idioms_in_documents().values()) <= IN_DOCUMENTS


def test_docstrings_of_cython_sources():
    for name, counts in cython_counts().items():
        assert [*counts.riddles, *counts.openings] == []
        assert +counts.idioms == {}, name
        assert counts.pronoun_share() <= CYTHON_PRONOUNS, name


def test_errors_say_cannot_in_one_word():
    """Messages are no docstrings, so that their words have no other bar."""
    sources = (ROOT / "engine").rglob("*.py")
    assert [str(file) for file in sources if re.search(r"\bcan not\b", file.read_text(), re.IGNORECASE)] == []


def test_names_and_comments(packages):
    all_packages = sum(packages.values(), Counts())
    assert all_packages.one_word_share() <= ONE_WORD
    assert all_packages.comment_share() >= COMMENTS
    assert comment_share_of_the_hardest() >= COMMENTS_OF_THE_HARDEST
    assert len(all_packages.undocumented) <= UNDOCUMENTED, all_packages.undocumented


def test_examples_and_code_are_no_prose():
    assert prose_of("Return `what` it is.\n\nExamples\n--------\n>>> what\n").split() == ["Return", "it", "is."]


def test_idioms_are_found():
    assert +find_idioms("A task who waits can\nnot go on.") == {"who, of an object": 1, "can not": 1}
    assert +find_idioms("The user who waits") == {}


def test_docstrings_of_cython_are_found():
    source = '''
# cython: language_level=3
"""Two

lines."""
cdef extern from *:
    """
    #define NO 1
    """
cdef class A:  # no_gc
    """A class."""
    cdef int f(self, str what="it",
               int n=(1)) except -1:
        """A method."""
        return """No docstring."""
    text = """No docstring."""
'''
    assert list(cython_docstrings(source)) == [(3, "Two\n\nlines."), (11, "A class."), (14, "A method.")]


def test_pragmas_are_no_comments():
    text = "x = 1  # why\ny = 2  # noqa: F841\n# why\nz = '#', f'''\n# {x}'''  # why\n"
    assert count_comment_lines(ast.parse(text), text) == 3
