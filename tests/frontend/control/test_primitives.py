"""The raw primitives: deadness and frames as a user who closes loops by hand sees them (rules 1 to 40, 83)."""

import asyncio

import pytest
import tagloom as tg

from tests.support.execute import Calls

BOTH = pytest.mark.parametrize("chosen", [True, False])


def flag(value):
    """Return a predicate that no pass can fold."""
    return tg.placeholder_with_default(tg.constant(value), [])


def dead(value=0):
    """Return a tensor that is dead in every run."""
    return tg.identity(tg.switch(tg.constant(value), flag(False))[1])


def note(calls, value=1):
    """Return a tensor made by a Python function without inputs."""
    return tg.py_function(lambda: calls(value), [], "int32", output_shapes=[])


def hand_made(start, limit, step, frame="loop", parallel_iterations=32):
    """Close a loop by hand: ``while x < limit: x = step(x)``."""
    merged, _ = tg.merge([tg.enter(start, frame, parallel_iterations=parallel_iterations)] * 2)
    bound = tg.enter(limit, frame, is_constant=True, parallel_iterations=parallel_iterations)
    stop, go = tg.switch(merged, tg.loop_cond(merged < bound))
    merged.op.update_input(1, tg.next_iteration(step(go)))
    result = tg.exit(stop)
    result.set_shape([])  # that of a non-constant Enter is unknown (rule 56)
    return result


def plus_one(frame="loop"):
    one = tg.enter(1, frame, is_constant=True)
    return lambda x: x + one


class TestDeadness:
    @pytest.mark.rule(1, 2)
    def test_a_node_with_a_dead_input_is_dead_and_does_not_run(self, run):
        calls, x = Calls(), tg.constant(1)
        y = calls.watch(x + dead())
        assert run(tg.merge([y, x])[0]) == 1
        assert calls.count == 0

    @pytest.mark.rule(1)
    def test_deadness_never_makes_it_fire_early(self, run):
        slow_ran = Calls()
        late = slow_ran.watch(3)
        with tg.control_dependencies([late + dead()]):
            after = tg.control_trigger()
        with tg.control_dependencies([after]):
            count = tg.py_function(lambda: slow_ran.count, [], "int64")
        assert run(count) == 1

    @pytest.mark.rule(1)
    def test_a_dead_control_input_makes_a_node_dead(self, run):
        calls = Calls()
        with tg.control_dependencies([dead()]):
            y = note(calls, 5)
        assert run(tg.merge([y, tg.constant(7)])[0]) == 7
        assert calls.count == 0

    @pytest.mark.rule(3, 4)
    @BOTH
    def test_one_output_of_a_switch_is_live(self, run, chosen):
        true, false = Calls(), Calls()
        f, t = tg.switch(tg.constant(4), flag(chosen))
        assert run(tg.merge([false.watch(f), true.watch(t)])[0]) == 4
        assert (true.count, false.count) == ((1, 0) if chosen else (0, 1))

    @pytest.mark.rule(4)
    @BOTH
    def test_what_waits_for_a_live_switch_is_live(self, run, chosen):
        with tg.control_dependencies([tg.switch(tg.constant(4), flag(chosen))[0].op]):
            y = note(Calls(), 9)
        assert run(y) == 9

    @pytest.mark.rule(4)
    @pytest.mark.parametrize("part", ["data", "pred"])
    def test_a_switch_with_a_dead_input_is_dead_on_both_sides(self, run, part):
        data = dead(3) if part == "data" else tg.constant(3)
        pred = flag(True) if part == "data" else tg.identity(tg.switch(flag(True), flag(False))[1])
        f, t = tg.switch(data, pred)
        assert run(tg.merge([f, t, tg.constant(8)])) == (8, 2)

    @pytest.mark.rule(4)
    def test_the_predicate_is_a_scalar(self):
        with pytest.raises(tg.ShapeError, match="scalar"):
            tg.switch(tg.constant(1), tg.constant([True]))

    @pytest.mark.rule(17)
    def test_a_control_trigger_is_live_whatever_it_waits_for(self, run):
        calls = Calls()
        with tg.control_dependencies([dead(), dead() + 1]):
            trigger = tg.control_trigger()
        with tg.control_dependencies([trigger]):
            y = note(calls, 6)
        assert run(y) == 6
        assert calls.count == 1

    @pytest.mark.rule(20)
    @BOTH
    def test_a_dead_value_is_not_fetched(self, run, chosen):
        f, t = tg.switch(tg.constant(4), flag(chosen))
        alive, gone = (t, f) if chosen else (f, t)
        assert run(alive + 1) == 5
        with pytest.raises(tg.DeadFetchError, match="dead") as caught:
            run([alive, gone + 1])
        assert f"predicate was {chosen}" in str(caught.value)
        assert run(alive) == 4


class TestMerge:
    @pytest.mark.rule(6)
    @BOTH
    def test_takes_the_live_input(self, run, chosen):
        f, t = tg.switch(tg.constant(10), flag(chosen))
        value, index = run(tg.merge([f + 1, t + 2]))
        assert (value, index) == ((12, 1) if chosen else (11, 0))

    @pytest.mark.rule(6)
    def test_does_not_wait_for_the_others(self, run):
        event = asyncio.Event()

        async def wait():
            await event.wait()
            return 2

        late = tg.py_function(wait, [], "int32", output_shapes=[], stateful=False)
        merged, _ = tg.merge([late, tg.constant(1)])
        opened = tg.py_function(lambda x: event.set() or x, [merged], "int32", stateful=False)
        assert run([opened, late]) == [1, 2]

    @pytest.mark.rule(7)
    def test_is_dead_when_all_inputs_are(self, run):
        merged, index = tg.merge([dead(1), dead(2)])
        assert run(tg.merge([merged, index, tg.constant(5)])) == (5, 2)

    @pytest.mark.rule(7)
    def test_ignores_that_a_control_input_is_dead(self, run):
        inputs = [dead(1), tg.placeholder_with_default(3, [])]
        with tg.control_dependencies([dead()]):
            merged, index = tg.merge(inputs)
            ordinary = tg.identity(inputs[1])
        assert run([merged, index]) == [3, 1]
        with pytest.raises(tg.DeadFetchError):
            run(ordinary)

    @pytest.mark.rule(6, 7)
    def test_waits_for_its_control_inputs(self, run):
        calls = Calls()
        x = tg.placeholder_with_default(3, [])
        with tg.control_dependencies([calls.watch(1)]):
            merged, _ = tg.merge([x, dead(1)])
        assert run(tg.py_function(lambda x: calls.count, [merged], "int64")) == 1

    @pytest.mark.rule(8)
    def test_fires_once(self, run):
        calls = Calls()
        merged, _ = tg.merge([note(Calls(), 1), note(Calls(), 2)])
        assert run(calls.watch(merged)) in (1, 2)
        assert calls.count == 1

    @pytest.mark.rule(9)
    def test_tells_which_input_it_was(self, run):
        assert run(tg.merge([dead(), dead(), tg.constant(3)])[1]) == 2
        assert tg.merge([tg.constant(1)])[1].dtype is tg.int32


class TestLoopsByHand:
    @pytest.mark.rule(10, 12, 37, 71)
    @pytest.mark.parametrize("window", [1, 2, 32])
    @pytest.mark.parametrize(("start", "limit"), [(0, 10), (9, 10), (10, 10), (20, 10)])
    def test_counts(self, run, start, limit, window):
        calls, after = Calls(), Calls()
        one = plus_one()
        result = hand_made(start, limit, lambda x: one(calls.watch(x)), parallel_iterations=window)
        assert run(after.watch(result)) == max(start, limit)
        assert sorted(calls.values) == list(range(start, limit))
        assert after.count == 1

    @pytest.mark.rule(21)
    def test_a_constant_comes_in_by_a_control_dependency(self, run):
        def step(x):
            with tg.control_dependencies([x]):
                return x + 2

        assert run(hand_made(0, 7, step)) == 8

    def test_matches_while_loop(self, run):
        one = plus_one()
        by_hand = hand_made(0, 5, lambda x: one(x))
        assert run(by_hand) == run(tg.while_loop(lambda x: x < 5, lambda x: x + 1, [0]))

    @pytest.mark.rule(23, 41)
    def test_one_in_another(self, run):
        calls = Calls()

        def outer(x):
            with tg.control_dependencies([x]):
                limit, one = x + 3, tg.constant(1)
            unit = tg.enter(one, "inner", is_constant=True)
            merged, _ = tg.merge([tg.enter(x, "inner")] * 2)
            stop, go = tg.switch(merged, tg.loop_cond(merged < tg.enter(limit, "inner", is_constant=True)))
            merged.op.update_input(1, tg.next_iteration(calls.watch(go) + unit))
            return tg.exit(stop)

        assert run(hand_made(0, 7, outer)) == 9
        assert sorted(calls.values) == list(range(9))

    @pytest.mark.rule(11, 13, 14, 16, 40)
    @BOTH
    def test_in_a_branch_not_taken_drains(self, run, chosen):
        calls = Calls()
        f, t = tg.switch(tg.constant(0), flag(chosen))
        one = plus_one()
        looped = hand_made(t, 4, lambda x: one(calls.watch(x)))
        value, index = run(tg.merge([f - 5, looped]))
        assert (value, index) == ((4, 1) if chosen else (-5, 0))
        assert calls.count == (4 if chosen else 0)

    @pytest.mark.rule(15)
    def test_a_live_exit_leaves_at_once(self, run):
        event = asyncio.Event()

        async def slow(x):
            await event.wait()
            return x + 1

        i, x = tg.while_loop(
            lambda i, x: i < 3,
            lambda i, x: (i + 1, tg.py_function(slow, [x], "int32", output_shapes=[], stateful=False)),
            (0, 0),
        )
        opened = tg.py_function(lambda i: event.set() or i, [i], "int32", stateful=False)
        assert run([opened, x]) == [3, 3]

    @pytest.mark.rule(27)
    def test_a_node_that_waits_for_ever_does_not_keep_the_frame_alive(self, run):
        never = tg.enter(flag(False), "loop")  # not constant: iteration 1 has no predicate
        merged, _ = tg.merge([tg.enter(10, "loop")] * 2)
        stop, _ = tg.switch(merged, never)
        merged.op.update_input(1, tg.next_iteration(stop))
        assert run(tg.exit(stop)) == 10

    @pytest.mark.rule(29, 30)
    def test_a_late_invariant_reaches_every_iteration(self, run):
        async def late():
            await asyncio.sleep(0)
            return 2

        calls = Calls()
        slow = tg.enter(tg.py_function(late, [], "int32", output_shapes=[]), "loop", is_constant=True)
        merged, _ = tg.merge([tg.enter(0, "loop")] * 2)
        bound, one = tg.enter(6, "loop", is_constant=True), tg.enter(1, "loop", is_constant=True)
        pred = tg.loop_cond(merged < bound)
        stop, go = tg.switch(merged, pred)
        merged.op.update_input(1, tg.next_iteration(go + one))
        total, _ = tg.merge([tg.enter(0, "loop")] * 2)
        done, more = tg.switch(total, pred)
        total.op.update_input(1, tg.next_iteration(more + calls.watch(slow * go)))
        assert run([tg.exit(stop), tg.exit(done)]) == [6, 2 * sum(range(6))]
        assert sorted(calls.values) == [0, 2, 4, 6, 8, 10]

    @pytest.mark.rule(35)
    def test_arguments_of_enter(self):
        with pytest.raises(tg.GraphError, match="positive"):
            tg.enter(1, "loop", parallel_iterations=0)
        with pytest.raises(tg.GraphError, match="name"):
            tg.enter(1, "")

    def test_in_a_region_of_cond(self, run):
        pred = tg.placeholder("bool", [])

        def branch():
            one = plus_one()
            return hand_made(0, 5, lambda x: one(x))

        y = tg.cond(pred, branch, lambda: tg.constant(-1))
        assert (run(y, {pred: True}), run(y, {pred: False})) == (5, -1)

    def test_in_the_body_of_while_loop(self, run):
        def body(i, total):
            one = plus_one()
            return i + 1, total + hand_made(i, 10, lambda x: one(x))

        assert run(tg.while_loop(lambda i, t: i < 12, body, (8, 0))[1]) == 10 + 10 + 10 + 11


class TestUpdateInput:
    def test_needs_an_input_of_that_number(self):
        merged, _ = tg.merge([tg.constant(1)])
        with pytest.raises(tg.GraphError, match="no such input"):
            merged.op.update_input(1, tg.constant(2))

    def test_keeps_the_dtype(self):
        merged, _ = tg.merge([tg.constant(1)])
        with pytest.raises(tg.GraphError, match="another dtype"):
            merged.op.update_input(0, tg.constant(2.0))

    def test_keeps_the_region(self):
        merged, inside = tg.merge([tg.constant(1)])[0], []
        tg.cond(flag(True), lambda: inside.append(tg.constant(2)) or inside[0], lambda: tg.constant(3))
        with pytest.raises(tg.GraphError, match="another region"):
            merged.op.update_input(0, inside[0])

    def test_a_session_sees_the_change(self, run):
        one, two = tg.constant(1), tg.constant(2)
        merged, _ = tg.merge([one])
        assert run(merged) == 1
        merged.op.update_input(0, two)
        assert run(merged) == 2
        assert merged.op not in one.consumers()
        assert merged.op in two.consumers()


@pytest.mark.rule(9, 83)
class TestGradientsOfFreeSwitchAndMerge:
    @BOTH
    def test_both_sides_used(self, run, chosen):
        x = tg.constant(3.0)
        f, t = tg.switch(x, flag(chosen))
        y, _ = tg.merge([f * f, t * t * t])
        (first,) = tg.gradients(y, [x])
        (second,) = tg.gradients(first, [x])
        assert run([y, first, second]) == ([27.0, 27.0, 18.0] if chosen else [9.0, 6.0, 2.0])

    @BOTH
    def test_one_side_used(self, run, chosen):
        x, z = tg.constant(3.0), tg.constant(5.0)
        pred = flag(chosen)
        used, other = tg.switch(x, pred)[0], tg.switch(z, pred)[1]
        y, _ = tg.merge([used * used, other * 7.0])
        gx, gz = tg.gradients(y, [x, z])
        assert run([gx, gz]) == ([0.0, 7.0] if chosen else [6.0, 0.0])

    @BOTH
    def test_a_merge_routes_by_its_index(self, run, chosen):
        x, pred = tg.constant([3.0, 4.0]), flag(chosen)
        w = tg.constant([1.0, 2.0])
        (f, t), (wf, wt) = tg.switch(x, pred), tg.switch(w, pred)
        y, _ = tg.merge([f * wf, t * wt * wt])
        gx, gw = run(tg.gradients(y, [x, w]))
        assert gx.tolist() == ([1.0, 4.0] if chosen else [1.0, 2.0])
        assert gw.tolist() == ([6.0, 16.0] if chosen else [3.0, 4.0])

    def test_a_merge_of_what_is_live_alone(self, run):
        x = tg.constant(2.0)
        y, _ = tg.merge([tg.identity(x) * 5.0])
        assert run(tg.gradients(y, [x])) == [5.0]


class TestGradientsOfLoopsByHand:
    def loop(self, x, cut=None):
        x = tg.enter(x, "loop", is_constant=True)
        merged, _ = tg.merge([tg.enter(1.0, "loop")] * 2)
        stop, go = tg.switch(merged, tg.loop_cond(merged < tg.enter(10.0, "loop", is_constant=True)))
        merged.op.update_input(1, tg.next_iteration(go * x))
        return tg.exit(stop)

    def test_are_refused(self):
        x = tg.constant(2.0)
        y = self.loop(x)
        with pytest.raises(tg.GraphError, match="hand-made") as caught:
            tg.gradients(y, [x])
        assert "use while_loop" in caught.value.hint
        assert caught.value.source.file == __file__

    def test_unless_stop_gradient_cuts_the_path(self, run):
        x = tg.constant(2.0)
        y = tg.stop_gradient(self.loop(x)) * x
        assert run([y, tg.gradients(y, [x])]) == [32.0, [16.0]]
        y = self.loop(tg.stop_gradient(x)) * x
        assert run([y, tg.gradients(y, [x])]) == [32.0, [16.0]]

    def test_or_the_xs_do_not_reach_them(self, run):
        x, w = tg.constant(2.0), tg.constant(3.0)
        y = self.loop(x) * w
        assert run(tg.gradients(y, [w])) == [16.0]
