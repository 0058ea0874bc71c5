"""Operations of any number of outputs that have one, on both executors."""

import pytest
import tagloom as tg

MAKERS = {
    "Split": lambda x: tg.split(x, 1),
    "SplitV": lambda x: tg.split(x, [2]),
    "Unstack": lambda x: tg.unstack(tg.expand_dims(x, 0)),
    "IdentityN": lambda x: tg.identity_n([x]),
    "PyFunction": lambda x: tg.py_function(lambda a: [a * 1], [x], ["float32"]),
}


@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize("type", MAKERS)
def test_one_output_is_a_list_of_one(type, executor):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2])
        outputs = MAKERS[type](x)
    assert [y.op.type for y in outputs] == [type]
    with tg.SyncSession(graph, executor=executor) as session:
        (value,) = session.run(outputs, {x: [1.0, 2.0]})
    assert value.tolist() == [1.0, 2.0]
