"""PyTorch's results, gradients and moving averages of layers: pickled, by standard input and output."""

import pickle
import sys

import numpy as np


def main():
    """Answer one list of layers."""
    import torch

    torch.set_num_threads(1)
    pickle.dump([results(torch, layer) for layer in pickle.load(sys.stdin.buffer)], sys.stdout.buffer)


def results(torch, layer):
    """Return the result, then gradients by name, of floating inputs by their number; averages that were moved too."""
    from tests.peers.layers import cotangent

    inputs = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in layer.inputs]
    given = {name: torch.tensor(v, requires_grad=True) for name, v in layer.parameters.items()}
    moved = {name: given[name].detach().clone() for name in given if name.startswith("moving")}
    y = FORWARD[layer.kind](torch, layer, inputs, {**given, **moved})
    y.backward(torch.tensor(cotangent(tuple(y.shape), layer.options["dtype"])))
    found = {"result": y.detach().numpy()}
    moving = {name: value.numpy() for name, value in moved.items()}
    slopes = {f"input {i}": x for i, x in enumerate(inputs) if x.requires_grad}
    slopes |= {name: x for name, x in given.items() if name not in moved}
    zeros = {name: np.zeros(x.shape) for name, x in slopes.items()}
    return {**found, **moving, **zeros, **{n: x.grad.numpy() for n, x in slopes.items() if x.grad is not None}}


def _dense(torch, layer, inputs, given):
    return torch.nn.functional.linear(inputs[0], given["kernel"].T, given.get("bias"))


def _first(x):
    return x.movedim(-1, 1)


def _last(x):
    return x.movedim(1, -1)


def _convolution(torch, layer, inputs, given):
    rank, options = given["kernel"].ndim - 2, layer.options
    function = getattr(torch.nn.functional, f"conv{rank}d")
    kernel = given["kernel"].movedim(-1, 0).movedim(-1, 1).contiguous()
    padding = [before for before, _ in options["padding"]]
    y = function(
        _first(inputs[0]),
        kernel,
        given.get("bias"),
        options["strides"],
        padding,
        options["dilation_rate"],
        options["groups"],
    )
    return _last(y)


def _transposed(torch, layer, inputs, given):
    options = layer.options
    kernel = given["kernel"].movedim(-1, 0).movedim(-1, 1).contiguous()  # [channels, filters / groups, ...]
    y = torch.nn.functional.conv_transpose2d(
        _first(inputs[0]),
        kernel,
        given.get("bias"),
        options["strides"],
        groups=options["groups"],
        dilation=options["dilation_rate"],
    )
    return _last(y)


def _depthwise(torch, layer, inputs, given):
    window = given["depthwise_kernel"]
    channels, multiplier = window.shape[2:]
    kernel = window.permute(2, 3, 0, 1).reshape(channels * multiplier, 1, *window.shape[:2])
    bias = given.get("bias")
    mixed = "pointwise_kernel" in given
    y = torch.nn.functional.conv2d(
        _first(inputs[0]), kernel, None if mixed else bias, layer.options["strides"], groups=channels
    )
    if mixed:
        y = torch.nn.functional.conv2d(y, given["pointwise_kernel"].permute(3, 2, 0, 1).contiguous(), bias)
    return _last(y)


def _embedding(torch, layer, inputs, given):
    return torch.nn.functional.embedding(inputs[0], given["embeddings"])


def _layer_norm(torch, layer, inputs, given):
    over = list(given["gamma"].shape)
    return torch.nn.functional.layer_norm(inputs[0], over, given["gamma"], given["beta"], layer.options["epsilon"])


def _rms_norm(torch, layer, inputs, given):
    return torch.nn.functional.rms_norm(inputs[0], list(given["gamma"].shape), given["gamma"], layer.options["epsilon"])


def _group_norm(torch, layer, inputs, given):
    groups = layer.options.get("groups", inputs[0].shape[-1])
    epsilon = layer.options["epsilon"]
    return _last(torch.nn.functional.group_norm(_first(inputs[0]), groups, given["gamma"], given["beta"], epsilon))


def _batch_norm(torch, layer, inputs, given):
    y = torch.nn.functional.batch_norm(
        _first(inputs[0]),
        given["moving_mean"],
        given["moving_variance"],
        given["gamma"],
        given["beta"],
        layer.called["training"],
        1 - layer.options["momentum"],
        layer.options["epsilon"],
    )
    return _last(y)


def _attention(torch, layer, inputs, given):
    return _attended(torch, layer, *(inputs if len(inputs) == 3 else inputs * 3), given, "")


def _attended(torch, layer, query, key, value, given, prefix):
    """Return torch.nn.MultiheadAttention of these parameters."""
    heads, size = layer.options["num_heads"], query.shape[-1]
    made = torch.nn.MultiheadAttention(size, heads, kdim=key.shape[-1], vdim=value.shape[-1], batch_first=True)
    names = ("query", "key", "value")
    biases = torch.cat([given[f"{prefix}{name}.bias"] for name in names])
    weights = {f"{n}_proj_weight": given[f"{prefix}{name}.kernel"].T for n, name in zip("qkv", names)}
    if made.in_proj_weight is not None:
        weights = {"in_proj_weight": torch.cat(list(weights.values()))}
    weights["in_proj_bias"] = biases
    weights["out_proj.weight"] = given[f"{prefix}output.kernel"].T
    weights["out_proj.bias"] = given[f"{prefix}output.bias"]
    hidden = torch.zeros(query.shape[0], query.shape[1], key.shape[1], dtype=torch.bool)
    if "mask" in layer.called:
        hidden |= ~torch.tensor(layer.called["mask"])
    if layer.called["causal"]:
        hidden |= torch.ones(hidden.shape[1:], dtype=torch.bool).triu(1)
    arguments = {"attn_mask": hidden.repeat_interleave(heads, 0), "need_weights": False}
    return torch.func.functional_call(made, weights, (query, key, value), arguments)[0]


def _encoder(torch, layer, inputs, given):
    options, functions = layer.options, torch.nn.functional

    def normalized(i, x):
        return functions.layer_norm(
            x, x.shape[-1:], given[f"norms.{i}.gamma"], given[f"norms.{i}.beta"], options["epsilon"]
        )

    def attended(x):
        return _attended(torch, layer, x, x, x, given, "attention.")

    def products(x):
        between = getattr(functions, options["activation"])(
            functions.linear(x, given["hidden.kernel"].T, given["hidden.bias"])
        )
        return functions.linear(between, given["output.kernel"].T, given["output.bias"])

    x = inputs[0]
    for i, part in enumerate((attended, products)):
        x = x + part(normalized(i, x)) if options["norm_first"] else normalized(i, x + part(x))
    return x


FORWARD = {
    "Dense": _dense,
    **{f"Conv{rank}D": _convolution for rank in (1, 2, 3)},
    "Conv2DTranspose": _transposed,
    "DepthwiseConv2D": _depthwise,
    "SeparableConv2D": _depthwise,
    "Embedding": _embedding,
    "LayerNorm": _layer_norm,
    "RMSNorm": _rms_norm,
    "GroupNorm": _group_norm,
    "InstanceNorm": _group_norm,
    "BatchNorm": _batch_norm,
    "MultiHeadAttention": _attention,
    "TransformerEncoderLayer": _encoder,
}

if __name__ == "__main__":
    main()
