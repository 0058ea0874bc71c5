"""A pass of an outside package at a named place of the pipeline, with a rule class for its operations."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom import operations
from tagloom.base.settings import DEFAULTS
from tagloom.cli import main
from tagloom.compile import PIPELINE, Target, compile_until
from tagloom.compile.passes import with_registered
from tagloom.ir.program import Program

from tests.plugins import self_inverse
from tests.plugins.self_inverse import mirror
from tests.support import fast_path_switches
from tests.support.settings import ON

X = np.float32([[1.0, 2.0, 3.0]])


@pytest.fixture(autouse=True)
def defined(forget):
    self_inverse.define()


@pytest.fixture
def installed():
    with self_inverse.install():
        yield


def program():
    """Build a loop with a branch, in each of which a value is mirrored twice, and once."""
    x = tg.placeholder("float32", [1, 3], name="x")

    def body(i, h):
        h = mirror(mirror(h, 1), 1)
        return i + 1, tg.cond(i > 0, lambda: mirror(mirror(h, 1), 1) + x, lambda: mirror(mirror(h, 0), 1))

    _, y = tg.while_loop(lambda i, _: i < 3, body, [0, x])
    return x, [y, *tg.gradients(tg.reduce_sum(y * y), x)]


@pytest.fixture
def built():
    with tg.Graph().as_default() as graph:
        return graph, *program()


def mirrors(built, row="fuse", settings=ON):
    """Return the number of mirroring operations after a row."""
    graph, x, fetches = built
    form = compile_until(row, Program(graph, [x], fetches), Target(settings))
    return sum(op.type == "self_inverse.Mirror" for op in form.graph.root.walk())


def run_once(graph, fetches, feeds, settings=ON):
    with tg.SyncSession(graph, settings=settings) as session:
        return session.run(fetches, feeds)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_results_with_the_pass_are_those_without(built, executor):
    graph, x, fetches = built
    settings = replace(ON, check_passes=True)
    async with tg.Session(graph, settings=settings.without("cancel_pairs")) as session:
        wanted = await session.run(fetches, {x: X})
    async with tg.Session(graph, settings=settings, executor=executor) as session:
        for found, expected in zip(await session.run(fetches, {x: X}), wanted, strict=True):
            np.testing.assert_allclose(found, expected)


@pytest.mark.usefixtures("installed")
def test_pairs_in_loops_and_branches_are_gone_after_the_pass(built):
    before, after = mirrors(built, "merge"), mirrors(built, "cancel_pairs")
    assert after < before
    assert before - after >= 4
    assert mirrors(built, "fuse", replace(ON, passes_off=("cancel_pairs",))) >= before
    assert mirrors(built, "fuse", ON.without("cancel_pairs")) >= before
    assert mirrors(built, "fuse", replace(ON, passes_off=("all",))) >= before


def test_a_pass_is_a_row_like_any_other(built, capsys):
    with self_inverse.install():
        names = [row.name for row in with_registered(PIPELINE)]
        assert names[names.index("merge") + 1] == "cancel_pairs"
        assert [name for name in names if name != "cancel_pairs"] == [row.name for row in PIPELINE]
        mirrors(built, settings=replace(ON, dump="cancel_pairs"))
        assert "# after cancel_pairs (structured)" in capsys.readouterr().err
        mirrors(built, settings=replace(ON, dump="all"))
        printed = capsys.readouterr().err
        assert (
            printed.index("# after merge ") < printed.index("# after cancel_pairs ") < printed.index("# after hoist ")
        )
        assert main(["info", "--passes"]) == 0
        listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
        assert listed["cancel_pairs"] == "structured  off by Settings(passes_off=('cancel_pairs',))"
        assert listed["merge"] == "structured  off by merge"
        with pytest.raises(tg.GraphError, match="no such pass") as caught:
            compile_until("nonsense", Program(*built[:1], [], []))
        assert "cancel_pairs" in caught.value.wanted
    with pytest.raises(tg.GraphError, match="no such fast path"):
        ON.without("cancel_pairs")
    main(["info", "--passes"])
    assert "cancel_pairs" not in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
def test_the_suite_can_run_without_it(built):
    """As ``TAGLOOM_OFF=cancel_pairs`` has it."""
    before = DEFAULTS.passes_off
    fast_path_switches.switch_off("cancel_pairs")
    try:
        assert tg.Settings().passes_off == ("cancel_pairs",)
        with fast_path_switches.all_on():
            assert tg.Settings().passes_off == ()
    finally:
        fast_path_switches._set_defaults({"passes_off": before})
    assert tg.Settings().passes_off == before


async def test_steps_compiled_before_are_compiled_again(built):
    graph, x, fetches = built
    seen = []
    async with tg.Session(graph) as session:
        await session.run(fetches, {x: X})
        with operations.register_pass("note", lambda p: (seen.append(p), p)[1], after="cluster"):
            await session.run(fetches, {x: X})
            await session.run(fetches, {x: X})
            assert len(seen) == 1
        await session.run(fetches, {x: X})
        assert len(seen) == 1


def unchanged(program):
    return program


def test_places_and_their_order():
    def names():
        return [row.name for row in with_registered(PIPELINE)]

    with (
        operations.register_pass("a", unchanged, after="lower"),
        operations.register_pass("b", unchanged, after="lower"),
        operations.register_pass("c", unchanged, before="place"),
        operations.register_pass("d", unchanged, after="a"),
        operations.register_pass("e", unchanged, before="a"),
    ):
        found = names()
        assert found[found.index("lower") : found.index("place") + 1] == ["lower", "e", "a", "d", "b", "c", "place"]
        stages = {row.name: row.stage for row in with_registered(PIPELINE)}
        assert {stages[name] for name in "abcde"} == {"lowered"}
    assert names() == [row.name for row in PIPELINE]


def test_a_pass_that_others_rest_on_stays():
    first = operations.register_pass("first", unchanged, after="fuse")
    second = operations.register_pass("second", unchanged, before="first")
    with pytest.raises(tg.GraphError, match="second is placed before it"):
        first.unregister()
    second.unregister()
    first.unregister()
    first.unregister()  # may be repeated


def test_a_pass_for_a_device_kind(built):
    graph, x, fetches = built
    seen = []
    with operations.register_pass("note", lambda p: (seen.append(p), p)[1], after="fuse", device_kind="gpu"):
        run_once(graph, fetches, {x: X})
    assert seen == []
    with operations.register_pass("note", lambda p: (seen.append(p), p)[1], after="fuse", device_kind="cpu"):
        run_once(graph, fetches, {x: X})
    assert len(seen) == 1


def without_input(program):
    """Leave an operation of a loop outside of all regions."""
    for op in program.graph.root.walk():
        if op.type == "self_inverse.Mirror":
            op.attrs["unknown"] = 3
    return program


def swap(op, builder):
    """Replace two mirrored values by each other."""
    if op.type != "self_inverse.Mirror":
        return None
    inner = op.inputs[0].op
    if inner.type == op.type:
        return [inner.outputs[0]]
    return [next((user.outputs[0] for user in op.outputs[0].consumers() if user.type == op.type), op.inputs[0])]


@pytest.mark.parametrize(
    ("run", "got"),
    [
        (lambda program: None, "it returned NoneType"),
        (lambda program: 1 / 0, "ZeroDivisionError: division by zero"),
        (without_input, "unknown"),
        (lambda p: operations.rewrite(p, lambda op, builder: []), "a pass replaces an operation by other results"),
        (lambda p: operations.rewrite(p, swap), "a pass replaces operations by each other's results"),
        (lambda p: operations.rewrite(p, lambda op, builder: [op]), "got <Operation"),
    ],
)
def test_a_failing_pass_names_its_line(built, run, got):
    graph, x, fetches = built
    with operations.register_pass("bad", run, after="merge"):
        with pytest.raises(tg.GraphError, match=r"the pass bad, registered at .*test_self_inverse.py:\d+") as caught:
            run_once(graph, fetches, {x: X}, replace(ON, check_passes=False))
        assert got in str(caught.value)
        assert "without('bad')" in caught.value.hint
        run_once(graph, fetches, {x: X}, ON.without("bad"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "x y"}, "not the name of a pass"),
        ({"name": "all"}, "not the name of a pass"),
        ({"name": 3}, "not the name of a pass"),
        ({"name": "fuse"}, "there is a pass fuse already"),
        ({"name": "cancel_pairs"}, r"there is a pass cancel_pairs already, registered at .*self_inverse"),
        ({"run": None}, "the pass mine cannot be called"),
        ({"after": None}, r"needs a place[\s\S]*got: neither"),
        ({"before": "fuse"}, r"needs a place[\s\S]*got: both"),
        ({"after": "nothing"}, r"there is no such row[\s\S]*fuse"),
        ({"after": "require_here", "before": None}, None),
        ({"after": None, "before": "prune"}, "cannot be placed there"),
        ({"after": "partial_run"}, "cannot be placed there"),
        ({"after": "place"}, "cannot be placed there"),
        ({"after": "plan"}, "cannot be placed there"),
        ({"device_kind": "npu"}, "a device kind that is not registered"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_wrong_registrations_of_passes(arguments, message):
    given = {"name": "mine", "run": unchanged, "after": "fuse", **arguments}
    if message is None:
        operations.register_pass(**given).unregister()
        return
    with pytest.raises(tg.GraphError, match=message):
        operations.register_pass(**given)
