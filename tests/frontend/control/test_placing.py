"""Loops and conds get the device and the colocation of their scope, as every operation does."""

import pytest
import tagloom as tg


def loop():
    return tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0])


def branches():
    return tg.cond(tg.constant(True), lambda: 1, lambda: 2)


@pytest.mark.parametrize("build", [loop, branches])
def test_device_name(build):
    with tg.device("/cpu:1"):
        assert build().device == "/device:CPU:1"


@pytest.mark.parametrize("build", [loop, branches])
def test_device_function(build):
    with tg.device(lambda op: "/cpu:2" if op.type in ("While", "Cond") else None):
        result = build()
    assert result.device == "/device:CPU:2"
    assert {op.device for region in result.op.regions for op in region.operations} == {""}


@pytest.mark.parametrize("build", [loop, branches])
def test_colocation(build):
    with tg.colocate_with(tg.constant(1.0, name="there")):
        assert build().op.get_attr("colocate") == "there"
