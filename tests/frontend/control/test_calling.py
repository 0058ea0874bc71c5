"""What is wrong with a function that is given to a construct is told as that; what it raises comes through."""

import functools

import numpy as np
import pytest
import tagloom as tg

X = np.float32([1.0, 2.0])


def loop(cond=lambda i, x: i < 3, body=lambda i, x: (i + 1, x)):
    return tg.while_loop(cond, body, [0, 1.0])


def pred():
    return tg.placeholder("bool", [])


# What is given a function, by what it is called in errors; with how many arguments it calls the function.
SITES = {  # by regular expressions
    "the true branch of cond": (0, lambda f: tg.cond(pred(), f, lambda: 1.0)),
    "the false branch of cond": (0, lambda f: tg.cond(pred(), lambda: 1.0, f)),
    "true_fn of smart_cond": (0, lambda f: tg.smart_cond(True, f, lambda: 1.0)),
    "the branch 1 of switch_case": (0, lambda f: tg.switch_case(tg.placeholder("int32", []), [lambda: 1.0, f])),
    "the true branch of case": (0, lambda f: tg.case([(pred(), f)], default=lambda: 1.0)),
    "the default of case": (0, lambda f: tg.case([(pred(), lambda: 1.0)], default=f)),
    "the predicate of while_loop": (2, lambda f: loop(cond=f)),
    "the body of while_loop": (2, lambda f: loop(body=f)),
    "the function of map_fn": (1, lambda f: tg.map_fn(f, X)),
    "the function of foldl": (2, lambda f: tg.foldl(f, X)),
    "the function of foldr": (2, lambda f: tg.foldr(f, X)),
    "the function of scan": (2, lambda f: tg.scan(f, X, 0.0)),
    "the function": (1, lambda f: tg.custom_gradient(f)(X)),
    "the function ": (1, lambda f: tg.recompute_grad(f)(X)),
    "the function  ?": (1, lambda f: tg.grad_pass_through(f)(X)),
    "the gradient function": (1, lambda f: differentiated(f)),
    "the initial value of a variable": (0, tg.Variable),
}


def differentiated(gradient):
    x = tg.constant(X)
    y = tg.custom_gradient(lambda a: (tg.identity(a), gradient))(x)
    return tg.gradients(y, [x])


@pytest.mark.parametrize("name", SITES)
def test_a_function_with_other_parameters(graph, name):
    count, build = SITES[name]
    with pytest.raises(tg.GraphError, match=f"{name}.* does not take what it is given") as caught:
        build(lambda a, b, c: a)
    text = str(caught.value)
    assert f"a function of {count or 'no'} argument" in text
    assert "(a, b, c)" in text
    assert caught.value.source.file == __file__
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("name", SITES)
def test_what_the_function_raises_comes_through(graph, name):
    def raising(*values):
        return len(3)

    def calling(*values):
        return (lambda one: one)()

    for function in (raising, calling):
        with pytest.raises(TypeError):
            SITES[name][1](function)


@pytest.mark.parametrize("name", SITES)
def test_a_function_that_is_async(graph, name):
    async def waiting(*values):
        return 1.0

    def yielding(*values):
        yield 1.0

    class Waiting:
        async def __call__(self, *values):
            return 1.0

    for function in (waiting, functools.partial(waiting), lambda *values: waiting(), yielding, Waiting()):
        with pytest.raises(tg.GraphError, match="is async, or a generator") as caught:
            SITES[name][1](function)
        assert "py_function" in str(caught.value)


@pytest.mark.parametrize("name", ["the true branch of cond", "the body of while_loop", "the function of map_fn"])
def test_what_is_no_function(graph, name):
    count, build = SITES[name]
    with pytest.raises(tg.GraphError, match=f"{name} is not a function") as caught:
        build(tg.constant(1.0))
    assert ["lambda: ...", "lambda a: ...", "lambda a, b: ..."][count] in str(caught.value)


def test_functions_of_any_kind(graph):
    class Body:
        def __call__(self, i, x):
            return i + 1, x

        def method(self, i, x):
            return i + 1, x

    @functools.wraps(loop)
    def wrapped(i, x):
        return i + 1, x

    partial = functools.partial(lambda k, i, x: (i + k, x), 1)
    for body in (Body(), Body().method, wrapped, partial, lambda *values: (values[0] + 1, values[1])):
        assert len(loop(body=body)) == 2
    with pytest.raises(tg.GraphError, match="does not take"):
        tg.while_loop(lambda i: i < 3, Body(), [0])
