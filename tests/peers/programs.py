"""Random programs that are more than a call, alike in both libraries: checks, tables, layers, parts of variables.

A program gets a `Library` with an open graph and a generator of random numbers, and returns arrays, texts and lists of
them. Where a library refuses, while building or in the step, the program has the text "refused".
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

PROGRAMS = {}
REFUSED = "refused"


@dataclass(frozen=True)
class Library:
    """What programs need of a library beside what both call by one name.

    Attributes
    ----------
    api : module
        ``tagloom`` or ``tensorflow.compat.v1``.
    layers, tables, data : object
        With the names of ``tagloom.nn``, of its tables and of its pipelines, as far as programs use them.
    functions : mapping of str to callable
        Other functions that TensorFlow has elsewhere, by tagloom's names.
    """

    api: Any
    layers: Any
    tables: Any
    data: Any
    functions: dict[str, Callable[..., Any]]

    def run(self, fetches, feeds=None):
        """Return values of the open graph in a session of their own, after variables and tables are initialized."""
        with self.session() as session:
            return session.run(fetches, feeds or {})

    @contextlib.contextmanager
    def session(self):
        """Open a session of the open graph in which all is initialized."""
        api = self.api
        kind = getattr(api, "SyncSession", None) or api.Session
        initializers = [api.global_variables_initializer(), api.tables_initializer()]
        with kind(graph=api.get_default_graph()) as session:
            session.run(initializers)
            yield session


def program(function):
    """Register a function that builds and runs a random program."""
    PROGRAMS[function.__name__] = function
    return function


def answer(library, name, seed):
    """Return what a program gives in a new graph: a flat list."""
    with library.api.Graph().as_default():
        return PROGRAMS[name](library, np.random.default_rng(seed))


def attempt(build):
    """Return what a function returns, or that it is refused."""
    try:
        return build()
    except Exception as error:  # its kind is the library's own
        if type(error).__name__ in ("AttributeError", "NameError", "ModuleNotFoundError", "AssertionError"):
            raise
        return REFUSED


def floats(random, *shape):
    """Return numbers in float32."""
    return random.standard_normal(shape).astype(np.float32)


def integer(random, low, high):
    """Return an int in a range."""
    return int(random.integers(low, high))


def maybe(random):
    """Return True or False."""
    return bool(random.random() < 0.5)


def placed(library, random, value):
    """Return a tensor of an array whose shape the graph knows, or one that has to be fed, with what to feed."""
    kind = random.integers(3)
    if kind == 0:
        return library.api.constant(value), {}
    tensor = library.api.placeholder(value.dtype, value.shape if kind == 1 else None)
    return tensor, {tensor: value}


def held(library, build, feeds):
    """Return whether a check holds: in the graph and in a step."""

    def run():
        with library.api.control_dependencies([build()]):
            return library.run(library.api.constant(1), feeds)

    found = attempt(run)
    return REFUSED if isinstance(found, str) else "held"


@program
def comparisons(library, random):
    """Check elements of one or two tensors."""
    x = random.integers(-2, 3, random.integers(0, 4, random.integers(0, 3))).astype(random.choice(["int32", "float32"]))
    kind = integer(random, 0, 2)
    x = np.asarray([x * 0 + integer(random, -2, 3), x][kind])
    tensor, feeds = placed(library, random, x)
    if maybe(random):
        name = str(random.choice(["positive", "negative", "non_negative", "non_positive"]))
        return [held(library, lambda: getattr(library.api, f"assert_{name}")(tensor), feeds)]
    y = np.asarray(x if maybe(random) else np.roll(x, 1) + integer(random, -1, 2)).astype(x.dtype)
    other, more = placed(library, random, y)
    name = str(random.choice(["equal", "none_equal", "less", "less_equal", "greater", "greater_equal"]))
    return [held(library, lambda: getattr(library.api, f"assert_{name}")(tensor, other), {**feeds, **more})]


@program
def near(library, random):
    """Check that numbers are alike."""
    kind = str(random.choice(["float32", "float64"]))
    x = random.standard_normal(3).astype(kind)
    y = (x + random.choice([0, 1e-7, 1e-5, 1e-3, 1.0]) * random.standard_normal(3)).astype(kind)
    keywords = {} if maybe(random) else {"rtol": np.dtype(kind).type(1e-4), "atol": np.dtype(kind).type(1e-4)}
    pairs = [placed(library, random, each) for each in (x, y)]
    return [
        held(library, lambda: library.api.assert_near(*(t for t, _ in pairs), **keywords), pairs[0][1] | pairs[1][1])
    ]


@program
def ranks(library, random):
    """Check a rank."""
    x = np.zeros(random.integers(1, 3, random.integers(0, 4)), np.float32)
    tensor, feeds = placed(library, random, x)
    wanted = integer(random, 0, 4)
    kind = integer(random, 0, 4)
    if kind == 3 and len(feeds) and tensor.shape.ndims is None:
        kind = 0  # TensorFlow refuses scalars of unknown rank, where tagloom checks them in the step
    build = [
        lambda: library.api.assert_rank(tensor, wanted),
        lambda: library.api.assert_rank_at_least(tensor, wanted),
        lambda: library.api.assert_rank_in(tensor, [wanted, 2]),
        lambda: library.api.assert_scalar(tensor),
    ][kind]
    return [held(library, build, feeds)]


@program
def order(library, random):
    """Ask for the order of elements, and for dtypes."""
    x = np.sort(random.integers(0, 9, integer(random, 0, 5)).astype(np.int32))
    if maybe(random):
        x = x[::-1].copy()
    x = x.astype(random.choice(["int32", "float32"]))
    tensor, feeds = placed(library, random, x)
    found = library.run([library.api.is_non_decreasing(tensor), library.api.is_strictly_increasing(tensor)], feeds)
    flags = [library.api.is_numeric_tensor(tensor), library.api.is_numeric_tensor(3)]
    return [*found, *flags, held(library, lambda: library.api.assert_integer(tensor) or library.api.no_op(), feeds)]


@program
def products(library, random):
    """Sum products of tensors whose ranks or axes only the step knows."""
    shared = [integer(random, 1, 4) for _ in range(integer(random, 0, 3))]
    a = floats(random, *random.integers(1, 4, integer(random, 0, 3)), *shared)
    b = floats(random, *shared, *random.integers(1, 4, integer(random, 0, 3)))
    count = len(shared)
    kind = integer(random, 0, 3)
    axes = [count, [list(range(a.ndim - count, a.ndim)), list(range(count))], None][kind]
    feeds = {}
    if kind == 2:
        axes = library.api.placeholder("int32", [2, None])
        feeds[axes] = np.array([range(a.ndim - count, a.ndim), range(count)], np.int32)
    operands = []
    for x in (a, b):
        shape = [None, x.shape, [None] * x.ndim][integer(random, 0, 3)]
        operands.append(library.api.placeholder("float32", shape))
        feeds[operands[-1]] = x
    y = library.api.tensordot(*operands, axes)
    slopes = library.api.gradients(library.api.reduce_sum(library.api.sin(y)), operands)
    return library.run([y, *slopes], feeds)


@program
def tables_of_constants(library, random):
    """Look up keys that are there, and others."""
    keys = random.permutation(9)[: integer(random, 1, 6)].astype(np.int64)
    words = np.array([f"w{key}" for key in keys], object)
    asked = random.integers(0, 9, random.integers(0, 4, integer(random, 0, 3))).astype(np.int64)
    tensor, feeds = placed(library, random, asked)
    if maybe(random):
        table = library.tables.constant(keys, words, "none")
        found, size = library.run([table.lookup(tensor), table.size()], feeds)
        return [texts(found), size]
    table = library.tables.constant(words, keys, -1)
    given = library.api.constant([f"w{key}" for key in np.ravel(asked)] or ["w"])
    return library.run([table.lookup(given), table.size()])


@program
def vocabularies(library, random):
    """Number words, those that are not in a list too."""
    words = [f"w{key}" for key in range(integer(random, 1, 6))]
    asked = [f"w{key}" for key in random.integers(0, 9, 5)]
    options = {"num_oov_buckets": 1} if maybe(random) else {"default_value": integer(random, -2, 3)}
    index = library.tables.index_of(words, **options)
    back = library.tables.words_of(words, "?")
    numbers = random.integers(0, 9, 4)
    ids, found = library.run([index.lookup(library.api.constant(asked)), back.lookup(library.api.constant(numbers))])
    return [ids, texts(found)]


@program
def tables_that_change(library, random):
    """Insert, find, remove and list entries."""
    table = library.tables.mutable("int64", "float32", np.float32(-1))
    keys, values = library.api.placeholder("int64", [None]), library.api.placeholder("float32", [None])
    put, out = table.insert(keys, values), table.remove(keys)
    found, size, listed = table.lookup(keys), table.size(), table.export()
    told = []
    with library.session() as session:
        for _ in range(6):
            some = random.integers(0, 5, integer(random, 0, 4))
            if random.random() < 0.6:
                session.run(put, {keys: some, values: floats(random, len(some))})
            else:
                session.run(out, {keys: some})
            at, count, (those, theirs) = session.run([found, size, listed], {keys: np.arange(5)})
            order = np.argsort(those)
            told += [at, count, those[order], theirs[order]]
    return told


@program
def layers(library, random):
    """Pool, convolve back, and convolve channels apart, by layers; gradients of inputs and weights."""
    rank = integer(random, 1, 4)
    first = maybe(random) and rank == 0
    sizes = [integer(random, 4, 7) for _ in range(rank)]
    x = floats(random, 2, *sizes, 3)
    padding = str(random.choice(["valid", "same"]))
    kind = integer(random, 0, 4)
    if kind == 3 and rank == 3:
        kind = 2
    window, stride = integer(random, 1, 4), integer(random, 1, 3)
    assert not first
    if kind < 2:
        made = library.layers.pool("Max" if kind else "Average", rank, window, stride, padding)
    elif kind == 2:
        made = library.layers.transposed(rank, 4, window, stride, padding)
    else:
        made = library.layers.separable(rank, 4, window, stride, 2, padding)
    images = library.api.placeholder("float32", x.shape)
    y = made(images)
    weights = library.api.trainable_variables()
    values = [floats(random, *v.shape.as_list()) for v in weights]
    sets = [v.assign(value) for v, value in zip(weights, values)]
    slopes = library.api.gradients(library.api.reduce_sum(library.api.sin(y)), [images, *weights])
    with library.session() as session:
        session.run(sets)
        return session.run([y, *slopes], {images: x})


@program
def parts_of_variables(library, random):
    """Assign to a part of a variable."""
    shape = [integer(random, 1, 5) for _ in range(integer(random, 1, 4))]
    start = floats(random, *shape)
    v = library.api.Variable(start)
    spec = []
    for size in shape[: integer(random, 1, len(shape) + 1)]:
        low, high = sorted(map(int, random.integers(0, size + 1, 2)))
        step = integer(random, 1, 3)
        spec.append(
            [slice(low, high), slice(low, high, step), slice(None, None, -step), low % size][integer(random, 0, 4)]
        )
    if random.random() < 0.2:
        spec.insert(integer(random, 0, len(spec) + 1), Ellipsis)
    value = floats(random, *start[tuple(spec)].shape)
    assign = v[tuple(spec)].assign(value)
    with library.session() as session:
        session.run(assign)
        return [session.run(v)]


@program
def overridden_gradients(library, random):
    """Differentiate with other gradients inside a scope."""
    api = library.api
    x = api.placeholder("float32", [3])
    name = "PeersTwice"
    with contextlib.suppress(Exception):  # registered before

        @api.RegisterGradient(name)
        def twice(op, grad):
            return 2.0 * grad * op.inputs[0]

    y = api.tanh(x) if maybe(random) else x
    with api.get_default_graph().gradient_override_map({"Tanh": name}):
        y = api.tanh(y)
        if maybe(random):
            y = api.cond(api.reduce_sum(x) > 0, lambda: api.tanh(y), lambda: 3.0 * y)
    z = api.tanh(y) if maybe(random) else y
    return library.run([z, *api.gradients(z, [x])], {x: floats(random, 3)})


@program
def parts_of_pipelines(library, random):
    """Take each so-manieth element."""
    count = integer(random, 1, 4)
    return [library.data.shard(integer(random, 0, 9), count, integer(random, 0, count))]


@program
def records(library, random):
    """Read records of one length from files, by a pipeline and by a reader."""
    size, header, footer = integer(random, 1, 4), integer(random, 0, 3), integer(random, 0, 3)
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for k in range(integer(random, 1, 3)):
            paths.append(os.path.join(directory, f"{k}.bin"))
            surplus = integer(random, 0, size) if random.random() < 0.3 else 0
            count = header + footer + size * integer(random, 0, 4) + surplus
            with open(paths[-1], "wb") as file:
                file.write(random.bytes(count))
        piped = attempt(lambda: library.data.records(paths, size, header, footer))
        if isinstance(piped, str):
            return [piped]  # TensorFlow's reader takes bytes of the footer where a record is not whole
        return [piped, library.data.read(paths, size, header, footer)]


@program
def spread_weights(library, random):
    """Spread weights over values, or be refused."""
    values = np.zeros(random.integers(1, 4, integer(random, 0, 3)), np.float32)
    shape = [int(d) if maybe(random) else 1 for d in values.shape]
    if random.random() < 0.4:
        shape = list(map(int, random.integers(1, 4, integer(random, 0, 3))))
    weights = floats(random, *shape)
    (w, feeds), (y, more) = placed(library, random, weights), placed(library, random, values)
    spread = library.functions["broadcast_weights"]

    def run():
        return library.run(spread(w, y), {**feeds, **more})

    check = held(library, lambda: library.functions["assert_broadcastable"](w, y), {**feeds, **more})
    return [attempt(run), check]


@program
def squeezed(library, random):
    """Take away a last dimension of labels or predictions."""
    rows = [integer(random, 1, 3) for _ in range(integer(random, 1, 3))]
    shapes = [rows + [1] * integer(random, 0, 2) if maybe(random) else [*rows, 2] for _ in range(2)]
    tensors, feeds = [], {}
    for shape in shapes:
        known = [None if random.random() < 0.2 else d for d in shape]
        tensors.append(library.api.placeholder("float32", known))
        feeds[tensors[-1]] = floats(random, *shape)
    surplus = integer(random, -1, 2)
    squeeze = library.functions["remove_squeezable_dimensions"]
    found = attempt(lambda: library.run(list(squeeze(*tensors, surplus)), feeds))
    return [found] if isinstance(found, str) else found


def texts(values):
    """Return strings as Python's."""
    return [each.decode() if isinstance(each, bytes) else str(each) for each in np.ravel(values)]
