"""Containers that users register, wherever structures are taken: loops, branches, functions, fetches, queues, files."""

from collections import namedtuple

import numpy as np
import optree
import pytest
import tagloom as tg
from tagloom.training.checkpoints.structures import decode_structure

from tests.data.running import plain, rest_of, through_a_file


class Params:
    """A container of two children with a name in the metadata."""

    def __init__(self, w, b, use="relu"):
        self.w, self.b, self.use = w, b, use

    def plain(self):
        return plain(self.w), plain(self.b), self.use


tg.nest.register(Params, lambda p: ((p.w, p.b), p.use, ("w", "b")), lambda use, children: Params(*children, use))


Pair = namedtuple("Pair", "left right")


class Foreign:
    """A container that another library registers, for all users of optree."""

    def __init__(self, inner):
        self.inner = inner


optree.register_pytree_node(
    Foreign,
    lambda x: ((x.inner,), None),
    lambda _, children: Foreign(*children),
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)


def scalars():
    return Params(tg.constant(2.0), tg.constant(3.0))


def vectors():
    return Params(tg.constant([1.0, 2.0]), tg.constant([3.0, 4.0]))


def differentiated():
    p = scalars()
    return tg.gradients(p.w * p.b, p)


def jacobians():
    p = scalars()
    return tg.jacobian(tg.stack([p.w * p.b, p.b]), p)


def custom():
    f = tg.custom_gradient(lambda p: (p.w, lambda dy: Params(10 * dy, 20 * dy)))
    p = scalars()
    return tg.gradients(f(p), p)


def while_growing():
    body = lambda k, p: (k + 1, Params(p.w + 1.0, tg.concat([p.b, p.b], 0)))  # noqa: E731
    shapes = ([], Params([], [None]))
    return tg.while_loop(lambda k, p: k < 2, body, (0, Params(0.0, tg.constant([1.0]))), shape_invariants=shapes)[1]


def of_a_queue():
    queue = tg.FIFOQueue(3, Params("float32", "float32"), shapes=[[], []])
    with tg.control_dependencies([queue.enqueue_many(vectors())]):
        return queue.dequeue()


def of_a_list_queue():
    queue = tg.FIFOQueue(3, ["float32", "float32"])
    with tg.control_dependencies([queue.enqueue(scalars())]):
        return Params(*queue.dequeue())


def of_an_area():
    area = tg.compat.tf1.StagingArea(Params("float32", "float32"), [[], []])
    with tg.control_dependencies([area.put(Params(2.0, 3.0))]):
        return area.get()


PROGRAMS = {
    "fetch": (lambda: Params(tg.constant(1.0), {"x": tg.constant(2.0)}), (1.0, {"x": 2.0}, "relu")),
    "while": (
        lambda: tg.while_loop(lambda p: p.w < 5.0, lambda p: Params(p.w + 1.0, p.b * 2.0), Params(0.0, 1.0)),
        (5.0, 32.0, "relu"),
    ),
    "while with shapes": (while_growing, (2.0, [1.0] * 4, "relu")),
    "cond": (lambda: tg.cond(tg.constant(True), scalars, lambda: Params(0.0, 0.0)), (2.0, 3.0, "relu")),
    "case": (lambda: tg.case([(tg.constant(True), scalars)], default=scalars), (2.0, 3.0, "relu")),
    "switch_case": (lambda: tg.switch_case(tg.constant(1), [scalars, lambda: Params(0.0, 1.0)]), (0.0, 1.0, "relu")),
    "map_fn": (lambda: tg.map_fn(lambda p: Params(p.b, p.w), vectors()), ([3.0, 4.0], [1.0, 2.0], "relu")),
    "map_fn with dtypes": (
        lambda: tg.map_fn(lambda p: Params(p.b, p.w, "x"), vectors(), dtype=Params("float32", "float32", "x")),
        ([3.0, 4.0], [1.0, 2.0], "x"),
    ),
    "scan": (
        lambda: tg.scan(lambda a, x: Params(a.w + x.w, a.b * x.b), vectors(), Params(0.0, 1.0)),
        ([1.0, 3.0], [3.0, 12.0], "relu"),
    ),
    "foldl": (
        lambda: tg.foldl(lambda a, x: Params(a.w + x.w, a.b * x.b), vectors(), Params(0.0, 1.0)),
        (3.0, 12.0, "relu"),
    ),
    "foldr": (lambda: tg.foldr(lambda a, x: Params(a.w - x.w, a.b), vectors()), (1.0, 4.0, "relu")),
    "gradients": (differentiated, (3.0, 2.0, "relu")),
    "jacobian": (jacobians, ([3.0, 0.0], [2.0, 1.0], "relu")),
    "custom_gradient": (custom, (10.0, 20.0, "relu")),
    "queue": (of_a_queue, (1.0, 3.0, "relu")),
    "queue of a list": (of_a_list_queue, (2.0, 3.0, "relu")),
    "staging area": (of_an_area, (2.0, 3.0, "relu")),
    "py_function": (
        lambda: tg.py_function(
            lambda p, x: Params(p.w + x, [1.0, 2.0], p.use),
            [scalars(), 5.0],
            Params("float32", "float32"),
            output_shapes=[[], [2]],
        ),
        (7.0, [1.0, 2.0], "relu"),
    ),
    "py_function of one": (
        lambda: Params(tg.py_function(lambda p: p.w * p.b, scalars(), "float32"), tg.constant(0.0)),
        (6.0, 0.0, "relu"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_take_and_return_registered_containers(name):
    build, expected = PROGRAMS[name]
    with tg.Graph().as_default() as graph:
        fetches = build()
    assert type(fetches) is Params
    with tg.SyncSession(graph) as session:
        assert session.run(fetches).plain() == expected
        assert session.make_step([fetches])()[0].use == expected[-1]


@pytest.mark.parametrize("dtypes", [Pair("float32", "int32"), {"left": "float32", "right": "int32"}])
def test_elements_of_queues_come_in_the_container_of_the_dtypes(dtypes):
    element = tg.nest.pack_as(dtypes, [1.0, 2])
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(2, dtypes)
        with tg.control_dependencies([queue.enqueue(element)]):
            taken = queue.dequeue()
    with tg.SyncSession(graph) as session:
        assert session.run(taken) == element


def test_containers_of_other_libraries_are_taken():
    with tg.Graph().as_default() as graph:
        end = tg.while_loop(lambda f: f.inner[0] < 3.0, lambda f: Foreign([f.inner[0] + 1.0]), Foreign([0.0]))
    with tg.SyncSession(graph) as session:
        assert session.run({"end": end})["end"].inner == [3.0]


def test_feeds_may_be_containers():
    with tg.Graph().as_default() as graph:
        p = Params(tg.placeholder("float32", []), [tg.placeholder("float32", [])])
        total = p.w + p.b[0]
    with tg.SyncSession(graph) as session:
        assert session.run(total, {p: Params(1.0, [2.0])}) == 3
        assert session.make_step(total, feeds=[p])(Params(3.0, [4.0])) == 7


def test_functions_take_and_return_containers_and_trace_for_each_metadata():
    used = []

    @tg.function
    def apply(p):
        used.append(p.use)
        return Params(p.w + p.b, p.b, p.use + "!")

    for use in ("relu", "tanh", "relu"):
        assert apply.sync(Params(np.float32(1), np.float32(2), use)).plain() == (3.0, 2.0, use + "!")
    assert used == ["relu", "tanh"]
    assert tg.value_and_grad(lambda p: p.w * p.b).sync(Params(2.0, 3.0))[1].plain() == (3.0, 2.0, "relu")


def test_a_signature_may_be_a_container():
    spec = tg.TensorSpec([], "float32")
    f = tg.function(lambda p: p.w - p.b, input_signature=[Params(spec, spec)])
    assert f.sync(Params(1.0, 3.0)) == -2
    with pytest.raises(tg.GraphError, match="argument p"):
        f.sync((1.0, 3.0))


def test_metadata_that_cannot_be_a_constant_is_refused():
    f = tg.function(lambda p: p.w)
    with pytest.raises(tg.GraphError, match="the metadata of p"):
        f.sync(Params(1.0, 2.0, use=["relu"]))


ERRORS = {
    "while": (
        lambda: tg.while_loop(lambda p: p.w < 5.0, lambda p: Params(p.w, p.b, "tanh"), Params(0.0, 1.0)),
        tg.LoopVariableError,
        "metadata 'relu' on one side and 'tanh' on the other",
    ),
    "while dtype": (
        lambda: tg.while_loop(lambda p: p.w < 5.0, lambda p: Params(p.w, tg.cast(p.b, "int32")), Params(0.0, 1.0)),
        tg.LoopVariableError,
        "loop variable .b changes its dtype",
    ),
    "cond": (
        lambda: tg.cond(tg.constant(True), scalars, lambda: (2.0, 3.0)),
        tg.BranchMismatchError,
        "the result is a tuple on one side and a Params on the other",
    ),
    "queue": (
        lambda: tg.FIFOQueue(2, [Params("float32", "float32")][0]).enqueue({"w": 1.0}),
        tg.GraphError,
        "the element is a Params on one side and a dict on the other",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_place_in_a_container(name):
    build, error, text = ERRORS[name]
    with tg.Graph().as_default(), pytest.raises(error) as found:
        build()
    assert text in str(found.value)


def test_a_python_function_that_returns_another_container_is_named():
    with tg.Graph().as_default() as graph:
        y = tg.py_function(lambda p: p, [scalars()], Params("float32", "float32", "tanh"))
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError, match="metadata 'tanh' on one side"):
        session.run(y)


async def test_async_python_functions_take_containers():
    async def doubled(p):
        return Params(2 * p.w, 2 * p.b, p.use)

    with tg.Graph().as_default() as graph:
        y = tg.py_function(doubled, [scalars()], Params("float32", "float32"))
    async with tg.Session(graph) as session:
        assert (await session.run(y)).plain() == (4.0, 6.0, "relu")


async def test_pipelines_take_containers_and_their_states_go_through_files():
    data = tg.data.from_arrays(Params(np.arange(6.0), np.arange(6)))
    data = data.map(lambda p: Params(2 * p.w, p.b, "doubled")).shuffle(4, seed=1)
    async with data.iterator() as iterator:
        await iterator.next()
        state, rest = iterator.state(), await rest_of(iterator)
    async with data.iterator() as iterator:
        iterator.restore(through_a_file(state))
        again = await rest_of(iterator)
    assert [p.plain() for p in again] == [p.plain() for p in rest]
    batches = [p.plain() async for p in data.batch(3)]
    assert sorted(w for ws, _, _ in batches for w in ws) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert {use for _, _, use in batches} == {"doubled"}


async def test_batches_of_containers_with_other_metadata_are_refused():
    data = tg.data.from_iterable([Params(1.0, 2.0), Params(1.0, 2.0, "tanh")]).batch(2)
    with pytest.raises(tg.PipelineError) as error:
        _ = [p async for p in data]
    assert "different structures" in f"{error.value}{error.value.__cause__}"


async def test_padded_batches_of_containers_have_fillings_of_their_own():
    rows = [Params(np.ones(1), np.ones(2)), Params(np.ones(2), np.ones(1))]
    data = tg.data.from_iterable(rows).padded_batch(2, padding_values=Params(7.0, 8.0))
    (batch,) = [p async for p in data]
    assert batch.plain() == ([[1.0, 7.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 8.0]], "relu")


def test_graphs_read_pipelines_of_containers():
    data = tg.data.from_arrays(Params(np.arange(4.0), np.arange(4))).batch(2)
    with tg.Graph().as_default() as graph:
        element = data.next()
    assert type(element) is Params
    with tg.SyncSession(graph) as session:
        assert session.run(element).plain() == ([0.0, 1.0], [0, 1], "relu")


async def test_checkpoints_keep_the_containers_of_objects(tmp_path):
    class Trainer:
        state = Params(np.arange(2.0), {"k": [1, "x"]}, "tanh")

        def state_dict(self):
            return {"params": self.state}

        def load_state_dict(self, state):
            self.state = state["params"]

    async with tg.Session(tg.Graph()) as session, tg.training.Checkpointer(tmp_path) as checkpoints:
        trainer = Trainer()
        checkpoints.add("trainer", trainer)
        await (await checkpoints.save(session, 1))
        trainer.state = None
        await checkpoints.restore(session)
    assert trainer.state.plain() == ([0.0, 1.0], {"k": [1, "x"]}, "tanh")


def test_a_saved_container_of_an_unknown_class_is_named():
    with pytest.raises(ValueError, match=r"class gone\.Away, which is not registered"):
        decode_structure({"registered": ["gone.Away", None, []]}, None, None)


def test_modules_find_variables_in_containers():
    class Scale(tg.nn.Module):
        def __init__(self):
            super().__init__()
            self.params = Params(tg.Variable(1.0, name="w"), [tg.Variable(2.0, name="b")])

    with tg.Graph().as_default():
        assert sorted(name for name, _ in Scale().named_parameters()) == ["params.b.0", "params.w"]


def test_states_of_cells_may_be_containers():
    class Counter:
        state_size = Params(2, 3)
        output_size = 2
        name = "counter"

        def __call__(self, inputs, state):
            return state.w, Params(state.w + 1.0, state.b)

        def zero_state(self, rows, dtype):
            return Params(tg.zeros([rows, 2], dtype), tg.zeros([rows, 3], dtype))

    with tg.Graph().as_default() as graph:
        outputs, state = tg.nn.dynamic_rnn(Counter(), tg.zeros([1, 3, 2]), dtype="float32")
    with tg.SyncSession(graph) as session:
        found, end = session.run([outputs, state])
    assert found[0, :, 0].tolist() == [0.0, 1.0, 2.0]
    assert end.plain() == ([[3.0, 3.0]], [[0.0] * 3], "relu")
