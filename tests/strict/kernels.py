"""Run the kernel of an operation with an array library, what its signature calls ``host`` as NumPy arrays."""

import numpy as np


def on_device(definition, arguments, asarray):
    """Return a sample's inputs in a flat list, those of the device made by `asarray`."""
    pairs = definition.signature.group(arguments, definition.type)
    return [np.asarray(value) if parameter.is_host else asarray(value) for parameter, value in pairs]


def computed(definition, xp, inputs, attrs):
    """Return what the kernel returns as a list."""
    wanted = {key: attrs[key] for key in definition.attrs}
    result = definition.kernel(xp, *inputs, **wanted)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def output_parameters(definition, count):
    """Return the parameter of each of so many outputs."""
    outputs = definition.signature.outputs
    return [outputs[min(i, len(outputs) - 1)] for i in range(count)]


def is_for_device(definition, sample):
    """Whether a GPU's array library can hold a sample: its kernel runs there, and nothing is a string."""
    flat = [a for x in sample.inputs for a in (x if isinstance(x, list) else [x])]
    return definition.runs_on == "device" and all(np.asarray(a).dtype.kind in "biufc" for a in flat)
