"""Arguments that can not be: the error names the operation and the line, and says what was wanted and what to try."""

import linecache

import numpy as np
import pytest
import tagloom as tg

X = np.zeros((2, 3), np.float32)
REFUSED = {
    "reshape": lambda x: tg.reshape(x, [4], name="bad"),
    "reshape, sizes": lambda x: tg.reshape(x, [-1, -1], name="bad"),
    "squeeze": lambda x: tg.squeeze(x, 0, name="bad"),
    "expand_dims": lambda x: tg.expand_dims(x, 5, name="bad"),
    "transpose": lambda x: tg.transpose(x, [0, 0], name="bad"),
    "reverse": lambda x: tg.reverse(x, [0, -2], name="bad"),
    "tile": lambda x: tg.tile(x, [2], name="bad"),
    "broadcast_to": lambda x: tg.broadcast_to(x, [2, 4], name="bad"),
    "concat": lambda x: tg.concat([x, x[:1]], 1, name="bad"),
    "stack": lambda x: tg.stack([x, x[:1]], name="bad"),
    "unstack": lambda x: tg.unstack(x, 5, name="bad"),
    "split": lambda x: tg.split(x, 2, axis=1, name="bad"),
    "split, none": lambda x: tg.split(x, 0, name="bad"),
    "split, sizes": lambda x: tg.split(x, [1, 2], name="bad"),
    "slice": lambda x: tg.slice(x, [0, 2], [2, 2], name="bad"),
    "slice, beyond the end": lambda x: tg.slice(x, [0, 7], [1, -1], name="bad"),
    "slice, negative begin": lambda x: tg.slice(x, [-1, 0], [1, 1], name="bad"),
    "slice, negative size": lambda x: tg.slice(x, [0, 0], [1, -2], name="bad"),
    "slice, lengths": lambda x: tg.slice(x, [0], [2, 2], name="bad"),
    "pad": lambda x: tg.pad(x, [[1, 1]], name="bad"),
    "pad, negative": lambda x: tg.pad(x, [[1, -1], [0, 0]], name="bad"),
    "pad, mirror": lambda x: tg.pad(x, [[2, 0], [0, 0]], "reflect", name="bad"),
    "gather": lambda x: tg.gather(x, [[0]], axis=0, batch_dims=1, name="bad"),
    "gather_nd": lambda x: tg.gather_nd(x, [[0, 0, 0]], name="bad"),
    "gather_nd, scalar": lambda x: tg.gather_nd(x, 0, name="bad"),
    "scatter_nd": lambda x: tg.scatter_nd([[0]], x, [4], name="bad"),
    "segments": lambda x: tg.unsorted_segment_sum(x, [0, 1, 2], 3, name="bad"),
    "boolean_mask": lambda x: tg.boolean_mask(x, [True, False, True], name="bad"),
    "boolean_mask, scalar": lambda x: tg.boolean_mask(x, True, name="bad"),
    "reduce": lambda x: tg.reduce_sum(x, 2, name="bad"),
    "reduce, twice": lambda x: tg.reduce_sum(x, [0, -2], name="bad"),
    "softmax": lambda x: tg.softmax(x, axis=3, name="bad"),
    "fill": lambda x: tg.fill([2], x, name="bad"),
    "zeros": lambda x: tg.zeros([2, -1], name="bad"),
    "literal": lambda x: tg.add(tg.constant(1), 1.5, name="bad"),
    "range": lambda x: tg.range(0, 3, 0, name="bad"),
    "linspace": lambda x: tg.linspace(0.0, 1.0, 0, name="bad"),
    "cast": lambda x: tg.cast(x, "string", name="bad"),
    "add": lambda x: tg.add(x, tg.zeros([4]), name="bad"),
    "dtypes": lambda x: tg.matmul(x, tg.zeros([3, 1], "float64"), name="bad"),
    "dtype": lambda x: tg.bitwise_and(x, x, name="bad"),
    "switch": lambda x: tg.switch(x, x > 0.0, name="bad"),
}
ARGUMENTS = {
    "axis": lambda x: tg.softmax(x, tg.shape(x)[0]),
    "norm": lambda x: tg.norm(x, ord="largest"),
    "pad mode": lambda x: tg.pad(x, [[1, 1], [1, 1]], "circular"),
    "one_hot axis": lambda x: tg.one_hot([1, 2], 3, axis=4),
    "where": lambda x: tg.where(x > 0.0, x),
    "nothing to concat": lambda x: tg.concat([], 0),
    "mask along an axis": lambda x: tg.boolean_mask(x, [True], axis=1),
    "bounds": lambda x: tg.strided_slice(x, [0], [1, 2]),
    "index": lambda x: x[5],
    "step": lambda x: x[::0],
    "too many indices": lambda x: x[0, 0, 0],
    "window": lambda x: tg.enter(x, "loop", parallel_iterations=0),
    "shape of draws": lambda x: tg.random_normal([2.5]),
    "set_shape": lambda x: tg.zeros([2]).set_shape([3]),
    "draws": lambda x: tg.random_uniform([2], dtype="int32"),
    "no branch": lambda x: tg.switch_case(0, []),
    "no pair": lambda x: tg.case([]),
    "branch numbers": lambda x: tg.switch_case(0, {1: lambda: x}),
    "no elements": lambda x: tg.map_fn(lambda e: e, []),
    "elements": lambda x: tg.map_fn(lambda e: e[0], (x, x[:1])),
    "output shapes": lambda x: tg.py_function(abs, [x], ["float32"], output_shapes=[[], []]),
    "device": lambda x: tg.device(3).__enter__(),
    "scope": lambda x: tg.name_scope("a b").__enter__(),
    "half an array": lambda x: tg.TensorArray("float32", handle=x),
    "unconnected": lambda x: tg.gradients(x, [x], unconnected_gradients="maybe"),
    "grad_ys": lambda x: tg.gradients([x], [x], grad_ys=[x, x]),
    "shape of grad_ys": lambda x: tg.gradients([x], [x], grad_ys=[tg.zeros([4])]),
    "xs": lambda x: tg.gradients(x, [1.0]),
    "input": lambda x: (-x).op.update_input(1, x),
    "element": lambda x: x.graph.as_graph_element(3),
}


def refusal(build):
    with tg.Graph().as_default():
        x = tg.placeholder_with_default(X, [2, 3], name="x")
        with pytest.raises(tg.GraphError) as caught:
            build(x)
    return caught.value


def check(error):
    assert error.hint, error
    assert error.wanted is not None or error.got is not None, error
    assert error.source.file == __file__
    assert ": lambda x: " in linecache.getline(__file__, error.source.line)


@pytest.mark.parametrize("build", REFUSED.values(), ids=REFUSED)
def test_an_operation_that_can_not_be_built_names_itself(build):
    error = refusal(build)
    check(error)
    assert "bad" in str(error)
    assert error.operation is not None


@pytest.mark.parametrize("build", ARGUMENTS.values(), ids=ARGUMENTS)
def test_an_argument_that_can_not_be_used_is_explained(build):
    check(refusal(build))


@pytest.mark.parametrize("ask", [lambda x: x.op.get_attr("color"), lambda x: x.graph.get_tensor_by_name("x:3")])
def test_a_question_about_an_operation_names_it_and_its_line(ask):
    error = refusal(ask)
    assert "operation: x (PlaceholderWithDefault)" in str(error)
    assert 'name="x"' in linecache.getline(__file__, error.source.line)
    assert error.hint
