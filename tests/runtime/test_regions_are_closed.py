"""What a step may be fed and asked for: nothing inside a branch or a loop, everything outside."""

import numpy as np
import pytest
import tagloom as tg


class Program:
    """A cond and a while_loop, and the tensors inside them."""

    def __init__(self):
        self.inside = {}
        self.start = tg.constant(1, name="start")
        self.loop = tg.while_loop(lambda i: self.note("predicate", i < 10), self.body, [self.start])
        self.choice = tg.cond(self.loop > 5, self.double, self.negate)

    def double(self):
        return self.note("true branch", self.loop * 2)

    def negate(self):
        return self.note("false branch", -self.loop)

    def note(self, where, tensor):
        self.inside[where] = tensor
        return tensor

    def body(self, i):
        self.note("loop variable", i)
        nested = tg.cond(i > 3, lambda: self.note("branch in the body", i + 2), lambda: i + 1)
        return self.note("body", nested)


WHERE = ["predicate", "loop variable", "branch in the body", "body", "true branch", "false branch"]


@pytest.fixture
def program(graph):
    return Program()


@pytest.mark.rule(61)
@pytest.mark.parametrize("where", WHERE)
async def test_what_is_inside_can_not_be_fed(program, graph, executor, where):
    tensor = program.inside[where]
    assert not graph.is_feedable(tensor)
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.GraphError, match="may not be fed") as caught:
            await session.run(program.loop, {tensor: np.asarray(1, tensor.dtype.numpy)})
        assert tensor.op is caught.value.operation
        assert tensor.op.region.role in str(caught.value.got)
        assert await session.run(program.loop) == 10


@pytest.mark.rule(61)
async def test_an_initial_value_made_outside_can_be_fed(program, graph, executor):
    assert graph.is_feedable(program.start)
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run([program.start, program.loop], {program.start: 9}) == [9, 11]
        assert await session.run(program.loop, {program.start: 70}) == 70


@pytest.mark.rule(61)
async def test_a_result_can_be_fed_and_cuts_off_its_loop(program, graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(program.choice, {program.loop: 4}) == -4
        assert await session.run(program.choice, {program.loop: 6}) == 12


@pytest.mark.rule(62)
@pytest.mark.parametrize("where", WHERE)
async def test_what_is_inside_can_not_be_fetched(program, graph, executor, where):
    tensor = program.inside[where]
    for wanted in (tensor, tensor.op, tensor.name):
        assert not graph.is_fetchable(graph.as_graph_element(wanted))
        async with tg.Session(graph, executor=executor) as session:
            with pytest.raises(tg.GraphError, match="may not be fetched") as caught:
                await session.run(wanted)
            assert "return it" in caught.value.hint
            assert await session.run(program.loop) == 10


@pytest.mark.rule(62)
async def test_results_of_the_outermost_can_be_fetched(program, graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run({"loop": program.loop, "choice": program.choice}) == {"loop": 10, "choice": 20}
