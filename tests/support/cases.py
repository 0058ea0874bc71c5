"""Many small cases of one test in few items: pytest and its workers spend more on an item than such a case takes."""

import functools
import inspect
from collections import defaultdict

import pytest


def each(names, cases, by=None):
    """Run a test with each case, all in one item, or in an item for each group that `by` names.

    The first failure does not keep the other cases from running: the item fails with all failures, in a group, each
    with a note that says which case it was.

    Parameters
    ----------
    names : str
        The test's parameters that a case gives, separated by commas.
    cases : iterable
        Values, tuples of values if there are several names, or `pytest.param` of them with an id and no marks.
    by : callable, optional
        Returns the group, a str, of a case's values; `pytest -k` selects groups.
    """
    names = [name.strip() for name in names.split(",")]
    groups = defaultdict(list)
    for case in cases:
        values = case.values if hasattr(case, "marks") else case if len(names) > 1 else (case,)
        label = case.id if hasattr(case, "marks") else ", ".join(map(str, values))
        groups[by(*values) if by else ""].append((label, dict(zip(names, values, strict=True))))
    if not groups:
        raise ValueError("there is no case to run")

    def decorate(test):
        @functools.wraps(test)
        def all_cases(of_group="", **fixtures):
            failures = []
            for label, values in groups[of_group]:
                try:
                    test(**fixtures, **values)
                except Exception as error:
                    error.add_note(f"case: {label}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(groups[of_group])} cases failed", failures)

        taken = ["of_group"] * bool(by) + [p for p in inspect.signature(test).parameters if p not in names]
        parameters = [inspect.Parameter(p, inspect.Parameter.KEYWORD_ONLY) for p in taken]
        all_cases.__signature__ = inspect.Signature(parameters)
        return pytest.mark.parametrize("of_group", groups)(all_cases) if by else all_cases

    return decorate
