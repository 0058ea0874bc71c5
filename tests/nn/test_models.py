"""Small models of layers: trained, their values saved and given to another session."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import AdamOptimizer

RANDOM = np.random.default_rng(2)


def images(count):
    """Return images with a bright row or a bright column, and which of them it is."""
    labels = RANDOM.integers(0, 2, count).astype(np.int32)
    x = RANDOM.standard_normal((count, 8, 8, 1)).astype(np.float32) * 0.1
    for i, label in enumerate(labels):
        at = RANDOM.integers(0, 8)
        x[i, :, at] += label
        x[i, at] += 1 - label
    return x, labels


class Net(tg.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = tg.nn.Conv2D(8, 3, strides=2, padding="SAME", use_bias=False)
        self.norm = tg.nn.BatchNorm(momentum=0.9)
        self.drop = tg.nn.Dropout(0.1)
        self.head = tg.nn.Sequential(tg.nn.Flatten(), tg.nn.Dense(16, "relu"), tg.nn.LayerNorm(), tg.nn.Dense(2))

    def forward(self, x, training=False):
        x = tg.relu(self.norm(self.features(x), training=training))
        return self.head(self.drop(x, training=training))


NAMES = [
    "features.kernel",
    "norm.gamma",
    "norm.beta",
    "norm.moving_mean",
    "norm.moving_variance",
    "head.layers.1.kernel",
    "head.layers.1.bias",
    "head.layers.2.gamma",
    "head.layers.2.beta",
    "head.layers.3.kernel",
    "head.layers.3.bias",
]


def model():
    net = Net()
    x, labels = tg.placeholder("float32", [None, 8, 8, 1]), tg.placeholder("int32", [None])
    loss = tg.reduce_mean(tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=net(x, training=True)))
    train = AdamOptimizer(0.01).minimize(loss)
    return net, x, labels, loss, train, net(x), tg.global_variables_initializer()


def test_a_model_learns_and_its_state_goes_to_another_session(graph):
    net, x, labels, _, train, logits, init = model()
    shown, told = images(64)
    with tg.SyncSession(graph) as session, tg.SyncSession(graph) as other:
        session.run(init)
        for _ in range(30):
            session.run(train, {x: shown, labels: told})
        found = session.run(logits, {x: shown})
        assert (found.argmax(-1) == told).mean() > 0.95
        assert session.run(net.norm.moving_variance).max() < 0.9

        state = net.state_dict(session)
        assert sorted(state) == sorted(NAMES)
        net.load_state_dict(other, state)
        np.testing.assert_array_equal(other.run(logits, {x: shown}), found)


def test_the_state_of_one_model_fits_another_of_its_kind(graph):
    first, x, *_, logits, init = model()
    shown, _ = images(8)
    with tg.SyncSession(graph) as session:
        session.run(init)
        state, found = first.state_dict(session), session.run(logits, {x: shown})
    with tg.Graph(seed=5).as_default() as another:
        second, x, *_, logits, init = model()
        with tg.SyncSession(another) as session:
            session.run(init)
            assert (session.run(logits, {x: shown}) != found).any()
            second.load_state_dict(session, state)
            np.testing.assert_array_equal(session.run(logits, {x: shown}), found)


@pytest.mark.parametrize("executor", ["machine", "reference"])
def test_many_steps_of_training_in_one_loop_are_the_same_steps(graph, executor):
    """The whole of training in a while_loop gives what the loop in Python gives."""
    layer, norm = tg.nn.Dense(1, kernel_initializer="ones", name="line"), tg.nn.BatchNorm(momentum=0.5)
    data = tg.constant(RANDOM.standard_normal((3, 6, 2)))

    def step(i):
        loss = tg.reduce_sum(tg.square(norm(layer(tg.gather(data, i)), training=True) - 1.0))
        updates = [v.assign_sub(0.1 * g) for v, g in zip(weights, tg.gradients(loss, weights))]
        with tg.control_dependencies(updates):
            return i + 1

    norm(layer(data[0]))
    weights = [layer.kernel, layer.bias, norm.gamma, norm.beta]
    looped = tg.while_loop(lambda i: i < 3, step, [0])
    i = tg.placeholder("int32", [])
    single, init = step(i), tg.global_variables_initializer()
    everything = [*weights, norm.moving_mean, norm.moving_variance]
    with tg.SyncSession(graph, executor=executor) as session:
        session.run(init)
        assert session.run(looped) == 3
        found = session.run(everything)
        session.run(init)
        for k in range(3):
            session.run(single, {i: k})
        for ours, wanted in zip(found, session.run(everything)):
            np.testing.assert_allclose(ours, wanted, rtol=1e-9)


def test_a_function_trains_a_model_that_it_builds():
    @tg.function
    def loss_of(x, labels):
        logits = net(x, training=True)
        loss = tg.reduce_mean(tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        with tg.control_dependencies([optimizer.minimize(loss)]):
            return tg.identity(loss)

    net, optimizer = Net(), AdamOptimizer(0.01)
    shown, told = images(32)

    async def main():
        return [float(await loss_of(shown, told)) for _ in range(20)]

    losses = asyncio.run(main())
    assert losses[-1] < 0.5 * losses[0]
    assert loss_of.traces == 1
