"""Types of `run`: protocols for type checkers agree with the methods as they are. tests/types reads them by mypy."""

import ast
from inspect import Parameter, getsource, signature

import pytest
import tagloom as tg
from tagloom.runtime.session.typed_runs import MakeStep, Run, SyncMakeStep, SyncRun
from tagloom.runtime.steps.run_options import RunKeywords, SyncRunKeywords

PROTOCOLS = {
    Run: tg.Session.run,
    SyncRun: tg.SyncSession.run,
    MakeStep: tg.Session.make_step,
    SyncMakeStep: tg.SyncSession.make_step,
}


def overloads(protocol):
    """Return the arguments of the overloads of a protocol's `__call__`, of which Python keeps none."""
    (cls,) = ast.parse(getsource(protocol)).body
    return [node.args.args for node in cls.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize(("session", "options"), [(tg.Session, RunKeywords), (tg.SyncSession, SyncRunKeywords)])
def test_options_of_a_run_have_types(session, options):
    named = [name for name, p in signature(session.run).parameters.items() if p.kind is Parameter.KEYWORD_ONLY]
    assert sorted(options.__annotations__) == sorted(named)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols_take_what_the_methods_take(protocol):
    parameters = signature(PROTOCOLS[protocol]).parameters.items()
    taken = [name for name, p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    assert {tuple(each.arg for each in given) for given in overloads(protocol)} == {tuple(taken)}


def test_the_four_protocols_say_the_same_of_fetches():
    said = [[ast.unparse(given[1].annotation) for given in overloads(protocol)] for protocol in PROTOCOLS]
    assert len(said[0]) > 5
    assert all(each == said[0] for each in said)
