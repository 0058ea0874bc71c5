"""Names of TensorFlow 1, NumPy, JAX and PyTorch: those that tagloom has otherwise are refused with its own."""

import re
from operator import attrgetter

import pytest
import tagloom as tg
from tagloom.ir.other_names import ATTRIBUTES, NAMES

HINTS = {
    "neg": "tagloom.negative",
    "to_float": 'tagloom.cast(x, "float32")',
    "sum": "tagloom.reduce_sum",
    "concatenate": "tagloom.concat",
    "train": "tagloom.training, which has the optimizers",
    "math": "tagloom.f for tf.math.f",
    "while_lop": "tagloom.while_loop",
    "softmax_crossentropy_with_logits": "tagloom.softmax_cross_entropy_with_logits",
    "multinomal": "tagloom.categorical",
    "Saver": "tagloom.training.Checkpointer",
    "jit": "tagloom.function",
    "compile": "tagloom.function",
    "keras": "tagloom.nn",
    "layers": "tagloom.nn",
    "remat": "tagloom.recompute_grad",
    "optim": "tagloom.training",
    "GradientTape": "tagloom.gradients",
    "image": "tagloom.f for tf.image.f",
    "assign": "v.assign(value)",
    "batch": "tagloom.data, whose Datasets",
    "normal": "tagloom.random_normal",
    "autograd": "tagloom.gradients",
    "vjp": "tagloom.gradients(ys, xs, grad_ys)",
    "dense": "tagloom.nn.Dense",
}


@pytest.mark.parametrize("name", HINTS)
def test_a_name_of_another_library_is_refused_with_the_name_here(name):
    with pytest.raises(AttributeError) as caught:
        getattr(tg, name)
    text = str(caught.value)
    assert text.startswith(f"tagloom has no '{name}'\n  try: ")
    assert HINTS[name] in text
    assert caught.value.name == name
    assert not hasattr(tg, name)


def test_the_older_interface_of_tensorflow_has_its_name_here():
    with pytest.raises(AttributeError, match=r"tagloom\.compat has no 'v1'\n  try: tagloom\.compat\.tf1"):
        tg.compat.v1  # noqa: B018


@pytest.mark.parametrize(("name", "here"), [("relu", "relu"), ("reluu", "relu"), ("power", "pow")])
def test_a_function_that_is_looked_for_in_nn_is_said_to_be_outside_of_it(name, here):
    with pytest.raises(AttributeError, match=f"tagloom.nn has no '{name}'\n  try: tagloom.{here}"):
        getattr(tg.nn, name)
    assert not hasattr(tg.nn, "_private")


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("training.Adam", "training.AdamOptimizer"),
        ("training.SGD", "training.GradientDescentOptimizer"),
        ("training.adamoptimizer", "training.AdamOptimizer"),
        ("losses.MSELoss", "losses.mean_squared_error"),
        ("losses.hinge", "losses.hinge_loss"),
        ("losses.relu", "relu"),
        ("metrics.Accuracy", "metrics.accuracy"),
        ("data.DataLoader", "data.from_arrays"),
        ("data.Datasets", "data.Dataset"),
        ("monitoring.Span", "monitoring.Spans"),
    ],
)
def test_names_that_are_looked_for_in_a_module(name, here):
    module, last = name.split(".")
    with pytest.raises(AttributeError, match=f"tagloom.{module} has no '{last}'\n  try: tagloom.{here}"):
        getattr(getattr(tg, module), last)


def test_names_that_only_share_letters_are_not_offered():
    for name in ("jits", "layer", "summa", "qqconcat"):
        with pytest.raises(AttributeError) as caught:
            getattr(tg, name)
        assert "int32" not in str(caught.value)
        assert "less" not in str(caught.value)


def test_a_name_like_none_is_refused_without_a_hint():
    for name in ("zzzzzz", "_private", "__wrapped__"):
        with pytest.raises(AttributeError) as caught:
            getattr(tg, name)
        assert "try" not in str(caught.value)


def is_here(name):
    module, _, last = name.rpartition(".")
    return hasattr(attrgetter(module)(tg) if module else tg, last)


def test_names_in_the_table_are_not_here_and_those_they_stand_for_are():
    assert [name for name in NAMES if name in dir(tg)] == []
    assert [known for known in NAMES.values() if not is_here(re.match(r"[\w.]+", known).group())] == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("eval", "await session.run(t)"),
        ("numpy", "await session.run(t)"),
        ("at", "tagloom.tensor_scatter_update(t, indices, updates), tensor_scatter_add for .at[].add"),
        ("exp", "tagloom.exp(t)"),
        ("unsqueeze", "tagloom.expand_dims(t)"),
        ("backward", "tagloom.gradients(t, xs)"),
    ],
)
def test_attributes_of_tensors_and_variables(graph, name, hint):
    for x in (tg.constant(1.0), tg.Variable(1.0)):
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        assert str(caught.value) == f"a {type(x).__name__} has no attribute '{name}'\n  try: {hint}"
        assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=r"a Tensor has no attribute 'zzz'$"):
        tg.constant(1.0).zzz  # noqa: B018


def test_no_attribute_that_is_there_is_in_the_table():
    assert [name for name in ATTRIBUTES if name in dir(tg.Tensor) or name in dir(tg.Variable)] == []
