"""Modules: which variables they have, by which names, and their values in sessions."""

import asyncio

import numpy as np
import pytest
import tagloom as tg


class Affine(tg.nn.Module):
    def __init__(self, size, name=None):
        super().__init__(name)
        self.weight = tg.Variable(np.ones((size, size), np.float32))
        self.steps = tg.Variable(0, trainable=False)

    def forward(self, x):
        return tg.matmul(x, self.weight)


class Model(tg.nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = Affine(2)
        self.layers = [self.shared, Affine(2)]
        self.heads = {"left": Affine(2), "pair": (Affine(2), tg.Variable(1.0))}
        self.other = "not a variable"


NAMES = [
    "shared.weight",
    "shared.steps",
    "layers.1.weight",
    "layers.1.steps",
    "heads.left.weight",
    "heads.left.steps",
    "heads.pair.0.weight",
    "heads.pair.0.steps",
    "heads.pair.1",
]


def test_variables_are_found_once_in_order_with_what_leads_to_them():
    with tg.Graph().as_default():
        model = Model()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert len(set(model.parameters())) == len(NAMES)
    assert model.parameters(trainable=False) == [v for n, v in model.named_parameters() if n.endswith("steps")]
    assert len(model.parameters(trainable=True)) == 5
    assert model.modules() == [model, model.shared, model.layers[1], model.heads["left"], model.heads["pair"][0]]
    assert repr(model) == "<Model model: 9 variables, 21 elements>"


def test_a_module_in_itself_is_found_once():
    with tg.Graph().as_default():
        model = Affine(1)
        model.again = [model]
    assert [name for name, _ in model.named_parameters()] == ["weight", "steps"]


def test_values_go_out_and_come_back():
    with tg.Graph().as_default() as graph:
        model = Model()
        init = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        state = model.state_dict(session)
        assert list(state) == NAMES
        state["layers.1.weight"] = np.float32([[1, 2], [3, 4]])
        model.load_state_dict(session, state)
        np.testing.assert_array_equal(session.run(model.layers[1].weight), [[1, 2], [3, 4]])

        with pytest.raises(tg.GraphError, match="the state is not that of this module") as caught:
            model.load_state_dict(session, {"shared.steps": 1, "more": 2})
        assert "more" in str(caught.value)
        model.load_state_dict(session, {"shared.steps": 5, "more": 2}, strict=False)
        assert session.run(model.shared.steps) == 5


def test_values_of_an_asynchronous_session_are_awaited():
    with tg.Graph().as_default() as graph:
        model = Affine(1)
        init = tg.global_variables_initializer()

    async def main():
        async with tg.Session(graph) as session:
            await session.run(init)
            state = await model.state_dict(session)
            await model.load_state_dict(session, {**state, "steps": 7})
            return await session.run(model.steps)

    assert asyncio.run(main()) == 7


def test_what_a_module_builds_is_named_after_it():
    with tg.Graph().as_default():
        y = Affine(2, name="first")(tg.ones([1, 2]))
    assert y.op.name.startswith("first/")


def test_a_module_that_says_nothing_of_what_it_computes_is_refused():
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="Model does not say what it computes"):
        Model()(1)
