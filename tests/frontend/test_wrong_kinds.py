"""Arguments of a wrong kind: what they obviously mean, or an error that says what is wanted."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1

REFUSED = {
    "concat of a number": (lambda: tg.concat(1, 0), "concat takes a list of tensors"),
    "stack of a number": (lambda: tg.stack(1), "stack takes a list of tensors"),
    "a shape that is a word": (lambda: tg.Shape("abc"), "this is not a shape"),
    "a shape of lists": (lambda: tg.Shape([[1000]]), "this is not a shape"),
    "a shape of words": (lambda: tg.placeholder("float32", ["batch"]), "this is not a shape"),
    "shapes of a word": (lambda: tg.FIFOQueue(3, "float32", shapes="two"), "this is not a shape"),
    "a device that is a word": (lambda: tg.device("banana").__enter__(), "no device has such a name"),
    "a name scope of a number": (lambda: tg.name_scope(3).__enter__(), "not a name for a scope"),
    "None as an operand": (lambda: tg.ones([]) + None, "unconnected_gradients='zero'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_they_are_refused(name):
    build, message = REFUSED[name]
    with pytest.raises(tg.TagloomError, match=message):
        build()


def test_a_number_is_a_shape_of_one_dimension():
    assert tg.Shape(2) == tg.Shape(np.int64(2)) == tg.Shape([2])
    assert tg.placeholder("float32", 3).shape == [3]
    for queue in (tg.FIFOQueue(3, "float32", shapes=2), tf1.StagingArea("float32", shapes=2)):
        assert queue.shapes == (tg.Shape([2]),)


@pytest.mark.parametrize("given", [1000, [1000], [[1000]], [tg.Shape([1000])]])
def test_shapes_of_what_python_returns(given, run):
    x = tg.py_function(lambda: np.zeros(1000, "f"), [], "float32", output_shapes=given)
    assert x.shape == [1000]
    assert run(x).shape == (1000,)


def test_specs_are_shape_invariants(run):
    specs = [tg.TensorSpec([], "int32"), tg.TensorSpec([None], "float32")]
    _, x = tg.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, tg.concat([x, x], 0)), [0, tg.ones([1])], shape_invariants=specs
    )
    assert run(x).shape == (8,)


@pytest.mark.parametrize("devices", [["/cpu:0", "/job:worker/task:1/cpu:0"], ["/task:0/cpu:0", "/task:1/cpu:1"]])
def test_devices_of_several_processes_are_refused(devices, graph):
    with pytest.raises(tg.GraphError, match="belong to one process"):
        tg.SyncSession(graph, devices=devices)


ASKED = {
    "constant": lambda: tg.constant(np.arange(3), "float32"),
    "constant of bools": lambda: tg.constant(np.array([True]), "float32"),
    "constant of lists of arrays": lambda: tg.constant([np.arange(2), np.arange(2)], "float32"),
    "convert_to_tensor": lambda: tg.convert_to_tensor(np.arange(3.0), "float32"),
    "Variable": lambda: tg.Variable(np.arange(3), dtype="float32").value(),
    "get_variable": lambda: tf1.get_variable("w", initializer=np.arange(3), dtype="float32").value(),
    "initializer": lambda: tf1.get_variable("v", [2], initializer=lambda s, d: np.ones(2), dtype="float32").value(),
    "random_normal": lambda: tg.random_normal([2], np.array(0.0), np.array(1.0), "float32"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_dtype_that_is_asked_for(name, run):
    x = ASKED[name]()
    assert x.dtype is tg.float32
    run(tg.global_variables_initializer())
    assert run(x).dtype == np.float32


@pytest.mark.parametrize("value", [np.array([0.5]), np.array([np.nan]), np.array([1e300]), np.array([300])])
def test_values_that_a_dtype_cannot_hold(value):
    with pytest.raises(tg.DtypeError):
        tg.constant(value, "int8")
    assert tg.constant(np.array([2.0, -3.0]), "int8").dtype is tg.int8


def test_operands_keep_the_dtype_that_they_have():
    with pytest.raises(tg.DtypeError):
        tg.ones([3]) * np.arange(3.0)


def test_batches_have_the_size_that_is_asked_for(run):
    queue = tg.FIFOQueue(10, "float32", [[3]])
    assert queue.dequeue_many(4).shape == [4, 3]
    assert queue.dequeue_up_to(4).shape == [None, 3]
    assert queue.dequeue_many(tg.placeholder("int32", [])).shape == [None, 3]
    barrier = tf1.Barrier("float32", [[3]])
    assert [t.shape for t in barrier.take_many(4)[:2]] == [[4], [4]]
    assert barrier.take_many(4, allow_small_batch=True)[0].shape == [None]
