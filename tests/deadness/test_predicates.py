"""Predicates: one object for one formula, and simplified formulas that mean what the given ones do."""

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagloom.deadness.predicates import MOST_DEPTH, Form, Predicates

NAMES = "abcd"
NUMBERS = "012"  # the symbols for a tensor k that is equal to them


@dataclass(frozen=True)
class Value:
    """Stands for a tensor."""

    name: str


class Formulas:
    """Predicates over the symbols a to d, and those for a tensor k that is equal to a number."""

    def __init__(self):
        self.made = Predicates()
        self.true, self.false = self.made.true, self.made.false
        self.values = {name: Value(name) for name in NAMES}
        self.a, self.b, self.c, self.d = (self.made.symbol("alive", self.values[n]) for n in NAMES)
        self.k = [self.made.symbol(int(number), Value("k")) for number in NUMBERS]

    def both(self, *terms):
        return self.made.all_of(terms)

    def either(self, *terms):
        return self.made.any_of(terms)

    def no(self, term):
        return self.made.negation(term)


@pytest.fixture
def f():
    return Formulas()


def value(predicate, given):
    """Return what a predicate is for values of the symbols."""
    if predicate.form is Form.SYMBOL:
        what, tensor = predicate.leaf
        return given["k"] == what if isinstance(what, int) else given[tensor.name]
    parts = [value(p, given) for p in predicate.operands]
    if predicate.form is Form.NOT:
        return not parts[0]
    return all(parts) if predicate.form is Form.AND else any(parts)


# A formula is a name, ("~", formula), or ("&" or "|", formula, ...).
formulas = st.recursive(
    st.sampled_from(NAMES + NUMBERS),
    lambda inner: st.one_of(
        st.tuples(st.just("~"), inner),
        st.tuples(st.sampled_from("&|"), inner, inner),
        st.tuples(st.sampled_from("&|"), inner, inner, inner),
    ),
    max_leaves=40,
)


def build(f, formula):
    if isinstance(formula, str):
        return f.k[int(formula)] if formula in NUMBERS else getattr(f, formula)
    parts = [build(f, part) for part in formula[1:]]
    return {"~": f.no, "&": f.both, "|": f.either}[formula[0]](*parts)


def means(formula, given):
    if isinstance(formula, str):
        return given["k"] == int(formula) if formula in NUMBERS else given[formula]
    parts = [means(part, given) for part in formula[1:]]
    return {"~": not parts[0], "&": all(parts), "|": any(parts)}[formula[0]]


ALL = [dict(zip(NAMES + "k", values, strict=True)) for values in product(*[[False, True]] * len(NAMES), range(-1, 4))]


@pytest.mark.rule(134)
@given(formulas)
def test_a_predicate_means_what_it_was_made_of(formula):
    f = Formulas()
    found = build(f, formula)
    assert [value(found, given) for given in ALL] == [means(formula, given) for given in ALL]
    negated = f.no(found)
    assert [value(negated, given) for given in ALL] == [not means(formula, given) for given in ALL]


@pytest.mark.rule(134)
def test_equal_formulas_are_one_object(f):
    assert f.both(f.a, f.b, f.c) is f.both(f.c, f.both(f.b, f.a), f.a)
    assert f.either(f.a, f.b) is f.either(f.b, f.a, f.b)
    assert f.both(f.a) is f.a
    assert f.both() is f.true
    assert f.either() is f.false
    assert f.both(f.a, f.b) is not f.either(f.a, f.b)
    assert str(f.both(f.b, f.no(f.a), f.either(f.c, f.d))) == "(b & ~a & (c | d))"


@pytest.mark.rule(134)
def test_true_and_false_are_neutral_or_all(f):
    assert f.both(f.a, f.true) is f.a
    assert f.both(f.a, f.false) is f.false
    assert f.either(f.a, f.false) is f.a
    assert f.either(f.a, f.true) is f.true
    assert f.no(f.true) is f.false
    assert (str(f.true), str(f.false)) == ("#true", "#false")


@pytest.mark.rule(134)
def test_opposites_end_it(f):
    assert f.both(f.a, f.b, f.no(f.a)) is f.false
    assert f.either(f.a, f.b, f.no(f.a)) is f.true
    assert f.no(f.no(f.a)) is f.a
    # ... also where a part of the terms is the opposite of another
    assert f.both(f.a, f.b, f.c, f.no(f.both(f.a, f.b))) is f.false
    assert f.either(f.a, f.b, f.c, f.no(f.either(f.a, f.b))) is f.true


@pytest.mark.rule(134)
def test_a_tensor_is_equal_to_one_number(f):
    zero, one, _ = f.k
    assert f.both(f.a, zero, one) is f.false
    assert f.either(f.a, f.no(zero), f.no(one)) is f.true
    assert f.both(f.no(zero), one) is one
    assert f.either(f.no(zero), one) is f.no(zero)
    assert f.both(one, f.either(zero, f.a)) is f.both(one, f.a)
    assert f.both(one, f.either(f.no(zero), f.a)) is one
    assert f.either(zero, one, f.both(f.no(zero), f.no(one))) is f.true
    assert f.both(zero, f.made.symbol(1, Value("other"))) is not f.false


@pytest.mark.rule(134)
def test_de_morgan(f):
    assert f.no(f.both(f.a, f.b)) is f.either(f.no(f.a), f.no(f.b))
    assert f.no(f.either(f.a, f.no(f.b))) is f.both(f.no(f.a), f.b)


@pytest.mark.rule(134)
def test_common_factors_are_pulled_out(f):
    assert f.either(f.both(f.a, f.b), f.both(f.a, f.c)) is f.both(f.a, f.either(f.b, f.c))
    assert f.both(f.either(f.a, f.b), f.either(f.a, f.c)) is f.either(f.a, f.both(f.b, f.c))
    assert f.either(f.both(f.a, f.b), f.both(f.a, f.no(f.b))) is f.a
    assert f.either(f.both(f.a, f.b), f.c, f.both(f.a, f.no(f.b))) is f.either(f.a, f.c)
    assert f.either(f.a, f.both(f.a, f.b)) is f.a
    assert f.both(f.a, f.either(f.no(f.a), f.b)) is f.both(f.a, f.b)


@pytest.mark.rule(134)
def test_deep_formulas_are_left_as_they_are(f):
    deep = f.a
    for k in range(2 * MOST_DEPTH):
        deep = (f.both, f.either)[k % 2](deep, f.made.symbol("alive", Value(f"d{k}")))
    assert deep.depth > MOST_DEPTH
    assert f.both(deep, f.no(deep)) is not f.false
    assert f.no(f.no(deep)) is deep
    assert f.both(deep, deep) is deep


def test_no_formula_is_too_deep_to_print(f):
    deep = f.a
    for k in range(3000):
        deep = (f.both, f.either)[k % 2](deep, f.made.symbol("alive", Value(f"d{k}")))
    assert "#" in str(deep)
    assert f.no(deep).mentions(f.a)


@pytest.mark.rule(135)
def test_recurrences_of_other_frames_differ(f):
    assert f.made.recurrence(f.a, f.b, ("loop",)) is f.made.recurrence(f.a, f.b, ("loop",))
    assert f.made.recurrence(f.a, f.b, ("loop",)) is not f.made.recurrence(f.a, f.b, ("other",))
    assert str(f.made.recurrence(f.a, f.b, ("inner", "outer"))) == "{a,&,b}<inner;outer>"
    assert f.made.recurrence(f.false, f.b, ("loop",)) is f.false
    assert f.made.recurrence(f.a, f.true, ("loop",)) is f.a


@pytest.mark.rule(135)
def test_a_recurrence_is_alive_only_if_its_start_is(f):
    found = f.made.recurrence(f.both(f.a, f.b), f.c, ("loop",))
    assert f.both(f.a, found) is found
    assert f.either(f.a, found) is f.a
    assert f.both(f.d, found) is not found
    assert f.either(found, f.no(found)) is f.true


def test_symbols_are_of_what_they_say(f):
    tensor = Value("n:0")
    texts = [str(f.made.symbol(what, tensor)) for what in ("alive", "true", 2)]
    assert texts == ["n:0", "*n:0", "(n:0=2)"]
