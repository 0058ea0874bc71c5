"""Predicates: formulas for when a value is alive (rules 132 to 138).

A :class:`Predicates` builds them and returns the same object for the same formula. All simplifications are
equivalences, so values with one predicate object are alive and dead together. Two objects prove nothing: equivalence
of formulas is NP-complete, and comparisons must err on the safe side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import combinations
from typing import Any

MOST_DEPTH = 8  # nesting of ANDs and ORs up to which formulas are simplified
MOST_PAIRED = 16  # terms that are compared in pairs, which takes quadratic time
MOST_SHOWN = 64  # levels of a formula that are printed


class Form(Enum):
    """Form of a predicate; the value is the sign between its printed operands."""

    AND = " & "  # of its operands; of none it is true
    OR = " | "  # of none it is false
    NOT = "~"  # of its only operand
    SYMBOL = "*"  # nothing is known of it
    RECURRENCE = "&,"  # operands (start, step): start holds, and step did in all iterations before this one

    __hash__ = object.__hash__  # members are keys of what is looked up for each term; Enum hashes their names


_DUAL = {Form.AND: Form.OR, Form.OR: Form.AND}


class Predicate:
    """A formula; see :class:`Predicates`.

    Attributes
    ----------
    form : Form
    operands : tuple of Predicate
    leaf : hashable
        Meaning of a symbol: ("alive", value), ("true", tensor) for "alive and true", or (number, tensor) for "alive
        and equal to the number". Simplification knows: of a tensor's numbers at most a single symbol holds.
        Frames of a recurrence, innermost first.
    number : int
        Position in the order of creation.
    depth : int
        Nesting of ANDs and ORs; a recurrence counts as 0.
    """

    __slots__ = ("depth", "form", "leaf", "number", "operands")

    def __init__(self, form: Form, operands: tuple[Predicate, ...], leaf: object, number: int) -> None:
        self.form = form
        self.operands = operands
        self.leaf: Any = leaf
        self.number: int = number
        self.depth: int = (
            0 if form is Form.RECURRENCE else max((p.depth for p in operands), default=0) + (form in _DUAL)
        )

    def parts(self, form: Form) -> tuple[Predicate, ...]:
        """Return the operands of an AND (or OR); a predicate of another form is its own only part."""
        return self.operands if self.form is form else (self,)

    def mentions(self, other: Predicate) -> bool:
        """Return True if `other` is this predicate or part of it."""
        return any(p is other for p in self.walk())

    def walk(self, into_recurrences: bool = True) -> Iterator[Predicate]:
        """Yield the predicate and all its parts, each once; operands of recurrences only `into_recurrences`."""
        seen: set[Predicate] = set()
        work: list[Predicate] = [self]
        while work:
            predicate = work.pop()
            if predicate not in seen:
                seen.add(predicate)
                yield predicate
                if into_recurrences or predicate.form is not Form.RECURRENCE:
                    work += predicate.operands

    def __str__(self) -> str:
        """Return the formula, ``(*p:0 & ~*q:0)``."""
        return self._format_levels(MOST_SHOWN)

    def _format_levels(self, levels: int) -> str:
        """Return the formula down to so many levels; deeper parts appear as ``#number``."""
        if self.form in _DUAL and not self.operands:
            return "#true" if self.form is Form.AND else "#false"
        if levels == 0:
            return f"#{self.number}"
        if self.form is Form.SYMBOL:
            return _symbol_text(*self.leaf)
        shown = [p._format_levels(levels - 1) for p in self.operands]
        if self.form is Form.NOT:
            return f"~{shown[0]}"
        if self.form is Form.RECURRENCE:
            return f"{{{shown[0]},&,{shown[1]}}}<{';'.join(self.leaf)}>"
        return f"({self.form.value.join(shown)})"

    __repr__ = __str__


def _symbol_text(what: Any, value: Any) -> str:
    if what == "alive":
        return str(value.name)
    return f"*{value.name}" if what == "true" else f"({value.name}={what})"


def _number_and_tensor(form: Form, predicate: Predicate) -> tuple[int, Any] | None:
    """Return number and tensor of a symbol (form AND) or of a negated symbol (form OR); None for other predicates."""
    if form is Form.OR:
        if predicate.form is not Form.NOT:
            return None
        predicate = predicate.operands[0]
    if predicate.form is not Form.SYMBOL or not isinstance(predicate.leaf[0], int):
        return None
    return predicate.leaf[0], predicate.leaf[1]


def _collect_numbers(form: Form, terms: Iterable[Predicate]) -> dict[Any, int] | None:
    """Map each tensor to the number equated with it by the terms of an AND, or excluded by the terms of an OR.

    None if a tensor has two numbers: (t=0) & (t=1) is false, and ~(t=0) | ~(t=1) is true.
    """
    numbers: dict[Any, int] = {}
    for term in terms:
        numbered = _number_and_tensor(form, term)
        if numbered is not None and numbers.setdefault(numbered[1], numbered[0]) != numbered[0]:
            return None
    return numbers


def _contradicts_number(form: Form, predicate: Predicate, numbers: dict[Any, int]) -> bool:
    """Return True if a symbol (AND) or negated symbol (OR) has another number for its tensor than `numbers`."""
    numbered = _number_and_tensor(form, predicate) if numbers else None
    return numbered is not None and numbers.get(numbered[1], numbered[0]) != numbered[0]


class Predicates:
    """Factory of simplified predicates, with one object for each formula."""

    def __init__(self) -> None:
        self._known: dict[Any, Predicate] = {}
        self._combined: dict[tuple[Form, tuple[Predicate, ...]], Predicate] = {}  # walks ask repeatedly
        self.true: Predicate = self._intern(Form.AND, ())
        self.false: Predicate = self._intern(Form.OR, ())

    def symbol(self, what: str | int, value: object) -> Predicate:
        """Return the symbol of a value for ``"alive"``, ``"true"``, or equality to a number."""
        return self._intern(Form.SYMBOL, (), (what, value))

    def recurrence(self, start: Predicate, step: Predicate, frames: tuple[str, ...]) -> Predicate:
        """Return the predicate of an iteration of ``frames[0]``: `start` held, and `step` in all earlier iterations."""
        if start is self.false or step is self.true:
            return start
        return self._intern(Form.RECURRENCE, (start, step), frames)

    def all_of(self, predicates: Iterable[Predicate]) -> Predicate:
        """Return the AND of predicates."""
        return self._combine_cached(Form.AND, predicates)

    def any_of(self, predicates: Iterable[Predicate]) -> Predicate:
        """Return the OR of predicates."""
        return self._combine_cached(Form.OR, predicates)

    def negation(self, predicate: Predicate) -> Predicate:
        """Return the NOT of a predicate, pushed inwards as far as predicates are simplified."""
        if predicate.form is Form.NOT:
            return predicate.operands[0]
        if predicate.form in _DUAL and predicate.depth <= MOST_DEPTH:
            return self._combine_cached(_DUAL[predicate.form], [self.negation(p) for p in predicate.operands])
        return self._intern(Form.NOT, (predicate,))

    def _intern(self, form: Form, operands: tuple[Predicate, ...], leaf: object = None) -> Predicate:
        """Return the only predicate of this form, operands and leaf."""
        key = form, operands, leaf
        predicate = self._known.get(key)
        if predicate is None:
            predicate = self._known[key] = Predicate(form, operands, leaf, len(self._known))
        return predicate

    def _absorbing_element(self, form: Form) -> Predicate:
        """Return the absorbing element of an AND (false, as in A & ~A) or OR (true, as in A | ~A)."""
        return self.false if form is Form.AND else self.true

    def _combine_cached(self, form: Form, predicates: Iterable[Predicate]) -> Predicate:
        """Return the AND or OR of predicates, each combination computed once."""
        operands = tuple(dict.fromkeys(predicates))
        if len(operands) == 1:
            return operands[0]
        combined = self._combined.get((form, operands))
        if combined is None:
            combined = self._combined[form, operands] = self._combine_terms(form, operands)
        return combined

    def _combine_terms(self, form: Form, predicates: Iterable[Predicate]) -> Predicate:
        """Apply the rules to the terms of an AND or OR until none applies; return their combination."""
        terms = dict.fromkeys(part for p in predicates for part in p.parts(form))
        end = self._absorbing_element(form)
        while len(terms) > 1:
            if end in terms:
                return end
            simpler = self._simplify_once(form, terms) if max(p.depth for p in terms) < MOST_DEPTH else None
            if simpler is None:
                # Sorted by age, so that the order of operands makes no difference to the formula.
                return self._intern(form, tuple(sorted(terms, key=lambda p: p.number)))
            terms = dict.fromkeys(part for p in simpler for part in p.parts(form))
        return next(iter(terms)) if terms else self._intern(form, ())

    def _simplify_once(self, form: Form, terms: dict[Predicate, None]) -> list[Predicate] | None:
        """Return fewer or smaller terms of the same meaning; None if no rule applies."""
        if any(p.form not in _DUAL and self.negation(p) in terms for p in terms):
            return [self._absorbing_element(form)]
        numbers = _collect_numbers(form, terms)
        if numbers is None:
            return [self._absorbing_element(form)]
        fewer = [p for p in terms if not _contradicts_number(_DUAL[form], p, numbers)]
        return (
            (fewer if len(fewer) < len(terms) else None)
            or self._simplify_by_others(form, terms, numbers)
            or self._drop_by_recurrences(form, terms)
            or self._factor_out(form, terms)
            or self._merge_opposites(form, terms)
        )

    def _simplify_by_others(
        self, form: Form, terms: dict[Predicate, None], numbers: dict[Any, int]
    ) -> list[Predicate] | None:
        """Simplify a term by the others: A & (A | B) is A, and A & (~A | B) is A & B."""
        dual = _DUAL[form]

        def is_implied(part: Predicate) -> bool:
            return part in terms or _contradicts_number(dual, part, numbers)

        def is_denied(part: Predicate) -> bool:
            return self.negation(part) in terms or _contradicts_number(form, part, numbers)

        for term in terms:
            if term.form is not dual:
                continue
            rest = [p for p in term.operands if not any(map(is_denied, p.parts(form)))]
            if any(all(map(is_implied, p.parts(form))) for p in term.operands):
                return [p for p in terms if p is not term]
            if len(rest) < len(term.operands):
                return [p for p in terms if p is not term] + [self._combine_cached(dual, rest)]
        return None

    def _drop_by_recurrences(self, form: Form, terms: dict[Predicate, None]) -> list[Predicate] | None:
        """Drop terms by recurrences, which imply parts of their starts: S & {S,&,T} is {S,&,T}, S | {S,&,T} is S."""
        for term in terms:
            if term.form is Form.RECURRENCE:
                implied = set(term.operands[0].parts(Form.AND)) & terms.keys()
                if implied:
                    left_out = implied if form is Form.AND else {term}
                    return [p for p in terms if p not in left_out]
        return None

    def _factor_out(self, form: Form, terms: Iterable[Predicate]) -> list[Predicate] | None:
        """Pull out the parts common to all terms: (A & B) | (A & C) is A & (B | C)."""
        dual = _DUAL[form]
        parts_of_terms = [p.parts(dual) for p in terms]
        common = [p for p in parts_of_terms[0] if all(p in others for others in parts_of_terms)]
        if not common:
            return None
        rests = [self._combine_cached(dual, [p for p in parts if p not in common]) for parts in parts_of_terms]
        return [self._combine_cached(dual, [*common, self._combine_cached(form, rests)])]

    def _merge_opposites(self, form: Form, terms: dict[Predicate, None]) -> list[Predicate] | None:
        """Merge two terms with opposite parts and otherwise equal: (A & B) | (A & ~B) | C is A | C."""
        dual = _DUAL[form]
        compounds = [p for p in terms if p.form is dual]
        if len(compounds) > MOST_PAIRED:
            return None
        for first, second in combinations(compounds, 2):
            differing = [p for p in first.operands if p not in second.operands]
            if len(differing) != 1 or len(first.operands) != len(second.operands):
                continue
            if self.negation(differing[0]) in second.operands:
                merged = self._combine_cached(dual, [p for p in first.operands if p is not differing[0]])
                return [merged, *(p for p in terms if p is not first and p is not second)]
        return None
