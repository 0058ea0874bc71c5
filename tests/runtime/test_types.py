"""What type checkers know of a run: its result for a tensor, a variable, an operation, and its options."""

from inspect import signature
from typing import get_overloads

import pytest
import tagloom as tg
from tagloom.runtime.steps.run_options import RunOptions, SyncRunOptions


@pytest.mark.parametrize(("session", "options"), [(tg.Session, RunOptions), (tg.SyncSession, SyncRunOptions)])
def test_runs_have_types(session, options):
    found = [signature(each) for each in get_overloads(session.run)]
    results = {each.parameters["fetches"].annotation: each.return_annotation for each in found}
    assert results == {"Tensor | Variable": "np.ndarray[Any, Any]", "Operation": "None", "Any": "Any"}
    named = [name for name, p in signature(session.run).parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert sorted(options.__annotations__) == sorted(named)
