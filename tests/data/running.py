"""What tests of pipelines share."""

import asyncio
import json

import numpy as np
from tagloom.base.deferred import build_deferred
from tagloom.training.checkpoints.structures import decode_structure, encode_structure


async def collect(dataset, iteration=None):
    """Return all elements, errors in their places."""
    found = []
    async with dataset.iterator(iteration=iteration) as iterator:
        while True:
            try:
                found.append(await anext(iterator))
            except StopAsyncIteration:
                return found
            except Exception as error:
                found.append(error)


def run(dataset, iteration=None):
    """Return all elements as plain values."""
    return plain(asyncio.run(collect(dataset, iteration)))


def plain(value):
    """Return lists for arrays, numbers for NumPy's scalars."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def through_a_file(state):
    """Return a state as a checkpoint would give it back."""
    arrays = []

    def add(array):
        arrays.append(array.copy())
        return str(len(arrays) - 1)

    text = json.dumps(encode_structure(build_deferred(state), add, "pipeline", later=[]))
    return decode_structure(json.loads(text), lambda name: arrays[int(name)], lambda name: arrays[int(name)][()])


async def rest_of(iterator):
    """Return what is left, as plain values."""
    return [plain(element) async for element in iterator]
