"""All public functions with arguments of wrong kinds: what they refuse is refused by errors of tagloom's own."""

import importlib
import inspect

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.misuse import refuses_misuse

MODULES = ("", "compat.tf1", "data", "losses", "metrics", "nn", "training")
MADE_ELSEWHERE = {  # by methods, which give them what they need; or with keywords alone
    "ConcreteFunction",
    "Operation",
    "PartialRun",
    "Runner",
    "StepStream",
    "QueueBase",
    "Step",
    "Stream",
    "Tensor",
    "TensorHandle",
    "Watch",
    "data.Dataset",
    "training.ReplicaGroup",
    "Session",
    "SyncSession",
}


def callables():
    for module in MODULES:
        home = importlib.import_module(f"tagloom.{module}") if module else tg
        for name in sorted(dir(home)):
            found = getattr(home, name)
            full = f"{module}.{name}".lstrip(".")
            is_error = isinstance(found, type) and issubclass(found, BaseException)
            if callable(found) and not name.startswith("_") and not is_error and full not in MADE_ELSEWHERE:
                yield full, found


CALLABLES = dict(callables())


def kinds():
    return {
        "nothing": None,
        "a word": "abc",
        "an int": 3,
        "a negative": -1,
        "a float": 0.5,
        "a list": [1.0, 2.0],
        "ragged": [[1.0], [2.0, 3.0]],
        "empty": [],
        "a dict": {"a": 1.0},
        "an object": object(),
        "a scalar": tg.constant(1.0),
        "a matrix": tg.ones([2, 3]),
        "integers": tg.constant([1, 2]),
        "four dimensions": tg.ones([2, 3, 2, 2]),
        "a function": lambda *given: given[0] if given else tg.ones([]),
    }


def calls(function):
    """Yield positional arguments and keywords, by kinds."""
    parameters = inspect.signature(function).parameters.values()
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    optional = [p.name for p in parameters if p.default is not p.empty and p.name not in ("name", "self")]
    for base in ("a matrix", "integers", "a list"):
        for kind in kinds():
            yield (kind,) * len(required), {}
            for place in range(len(required)):
                yield tuple(kind if k == place else base for k in range(len(required))), {}
    for keyword in optional:
        for kind in kinds():
            yield ("a matrix",) * len(required), {keyword: kind}


def is_misfit(error):
    """Return True if Python itself refused the call, in whose note tagloom says what a function takes."""
    return isinstance(error, TypeError) and ("argument" in str(error) and "()" in str(error))


def is_comparison(error):
    """Return True for what these tests refuse: outside, a word compared with a tensor is a DtypeError."""
    return isinstance(error, AssertionError) and " compares " in str(error)


@pytest.mark.sampled(every=6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLABLES)
def test_only_errors_of_its_own_are_raised(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = CALLABLES[name]
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        pytest.skip("it has no signature")
    bare = {}
    with tg.Graph().as_default():
        given = kinds()
        for arguments, keywords in calls(function):
            try:
                result = function(*(given[each] for each in arguments), **{k: given[v] for k, v in keywords.items()})
                if inspect.iscoroutine(result):
                    result.close()
            except tg.TagloomError as error:
                if error.wanted is None and error.hint is None and error.got is None:
                    bare[f"{error} without help"] = arguments, keywords
            except OSError:
                pass  # there is no such file
            except Exception as error:
                if not is_misfit(error) and not is_comparison(error):
                    bare.setdefault(f"{type(error).__name__}: {error}", (arguments, keywords))
    assert not bare


REFUSED = {
    "add_n": (lambda: tg.add_n(3), "add_n takes a list of tensors"),
    "global_norm": (lambda: tg.global_norm(None), "global_norm takes a list of tensors"),
    "clip_by_global_norm": (lambda: tg.clip_by_global_norm(2, 1.0), "clip_by_global_norm takes a list of tensors"),
    "shape_n": (lambda: tg.shape_n(1), "shape_n takes a list of tensors"),
    "case of a number": (lambda: tg.case(3), "case takes a list of pairs"),
    "case of functions": (lambda: tg.case([lambda: 1]), "case takes a function for each predicate"),
    "switch_case": (lambda: tg.switch_case(0, 3), "switch_case takes a list of functions"),
    "dynamic_stitch": (lambda: tg.dynamic_stitch(1, 2), "dynamic_stitch takes a list of tensors"),
    "dropout of a word": (lambda: tg.dropout(tg.ones([3]), "a"), "a probability of dropout is a number"),
    "dropout of a list": (lambda: tg.dropout(tg.ones([3]), rate=[0.1]), "a probability of dropout is a number"),
    "random_crop": (lambda: tg.random_crop(tg.ones([3]), 5), "a number for each dimension"),
    "Sequential": (lambda: tg.nn.Sequential([tg.abs]), r"Sequential\(\*layers\)"),
    "merge": (lambda: tg.merge([]), "merge needs at least one input"),
    "a padding": (lambda: tg.max_pool(tg.ones([1, 2, 2, 1]), 2, 2, 5), "this is not a padding"),
    "a dtype": (lambda: tg.zeros([2], tg.ones([2])), "not a dtype"),
    "collections": (lambda: tg.metrics.mean(tg.ones([2]), updates_collections=3), "collections of a graph have names"),
    "scatter_add": (lambda: tg.scatter_add(tg.ones([2]), [0], [1.0]), "scatter_add changes a variable"),
    "the rest": (lambda: tg.nn.BatchNorm(input_size=0.5), r"BatchNorm cannot use what it was given: TypeError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_they_say_what_is_wanted(name, graph):
    build, message = REFUSED[name]
    with pytest.raises(tg.TagloomError, match=message) as caught:
        build()
    assert caught.value.source.file == __file__


def test_what_a_users_function_raises_comes_through(graph):
    def body(i):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        tg.while_loop(lambda i: i < 3, body, [0])
    with pytest.raises(IndexError):
        tg.map_fn(lambda x: [][1], tg.ones([2]))


def test_the_outermost_function_tells(graph):
    class Mine(tg.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size + 1

    with pytest.raises(TypeError):  # by the user's own line
        Mine("a")

    @refuses_misuse
    def outer(x):
        return inner(x)

    @refuses_misuse
    def inner(x):
        return np.zeros(x)

    with pytest.raises((TypeError, tg.GraphError)) as caught:
        outer("a")
    assert not isinstance(caught.value, tg.GraphError)  # neither is tagloom's code
