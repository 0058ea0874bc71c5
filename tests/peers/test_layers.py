"""Results, gradients and moving averages of random layers are those of PyTorch, where that is installed."""

import os

import numpy as np
import tagloom as tg

from tests.peers.layers import cotangent, draw
from tests.peers.other_side import answers, needs

COUNT = int(os.environ.get("TAGLOOM_CALLS", "400"))


def ours(layer):
    """Return the result, then gradients by name, of floating inputs by their number; averages that were moved too."""
    with tg.Graph().as_default() as graph:
        inputs = [tg.placeholder(x.dtype, x.shape) for x in layer.inputs]
        made = getattr(tg.nn, layer.kind)(**layer.options)
        y = made(*inputs, **layer.called)
        variables = dict(made.named_parameters())
        slopes = {f"input {i}": x for i, x in enumerate(inputs) if x.dtype.is_floating}
        slopes |= {name: v for name, v in variables.items() if v.trainable}
        found = tg.gradients(y, slopes, cotangent(y.shape.as_tuple(), y.dtype.name), unconnected_gradients="zero")
        fetches = {"result": y, **{name: tg.convert_to_tensor(g) for name, g in found.items()}}
    with tg.SyncSession(graph) as session:
        made.load_state_dict(session, layer.parameters)
        values = session.run(fetches, dict(zip(inputs, layer.inputs, strict=True)))
        moving = [name for name, v in variables.items() if not v.trainable]
        state = made.state_dict(session)
        return {**values, **{name: state[name] for name in moving}}


@needs("torch")
def test_layers_are_pytorchs():
    random = np.random.default_rng(1)
    layers = [draw(random) for _ in range(COUNT)]
    for layer, theirs in zip(layers, answers("layers_side", layers, "torch"), strict=True):
        found = ours(layer)
        assert found.keys() == theirs.keys()
        assert found["result"].dtype == layer.options["dtype"]
        bound = 1e-5 if layer.options["dtype"] == "float32" else 1e-12
        largest = max(float(np.abs(value).max(initial=0)) for value in theirs.values())
        for name, value in theirs.items():
            np.testing.assert_allclose(
                found[name], value, rtol=bound, atol=bound * largest, err_msg=f"{name} of {layer}"
            )
