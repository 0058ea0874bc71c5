"""Names of devices and partial constraints (PL3)."""

import pytest
import tagloom as tg
from tagloom.base.device_names import DeviceSpec, parse_device


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("", DeviceSpec()),
        ("/", DeviceSpec()),
        ("/job:worker/replica:2/task:0/device:CPU:1", DeviceSpec("worker", 2, 0, "CPU", 1)),
        ("/job:worker/task:0/cpu:1", DeviceSpec("worker", None, 0, "CPU", 1)),
        ("/gpu:0", DeviceSpec(type="GPU", index=0)),
        ("cpu:3", DeviceSpec(type="CPU", index=3)),
        ("/device:GPU", DeviceSpec(type="GPU")),
        ("/device:GPU:*", DeviceSpec(type="GPU")),
        ("/device:*:2", DeviceSpec(index=2)),
        ("/task:*/device:cpu:2", DeviceSpec(type="CPU", index=2)),
        ("/job:ps", DeviceSpec(job="ps")),
    ],
)
def test_names(name, spec):
    assert parse_device(name) == spec
    assert parse_device(str(spec)) == spec


@pytest.mark.parametrize(
    "name",
    ["/cpu:x", "/cpu:-1", "/job:", "/task:one", "/device:", "/device", "/cpu:1:2", "/task:1:2", "/c3:1", "/cpu:²"],
)
def test_what_is_no_name(name):
    with pytest.raises(tg.GraphError, match="not the name of a device") as caught:
        parse_device(name)
    assert caught.value.got == repr(name)
    assert "/cpu:1" in caught.value.hint


@pytest.mark.parametrize("name", ["/cpu:0/gpu:0", "/job:a/job:b", "/task:0/task:0"])
def test_a_thing_said_twice(name):
    with pytest.raises(tg.GraphError, match="twice"):
        parse_device(name)


FULL = "/job:worker/task:1/device:CPU:1"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("", True), ("/cpu:1", True), ("/task:1", True), (FULL, True), ("/gpu:1", False), ("/task:0/cpu:1", False)],
)
def test_what_a_constraint_allows(name, allowed):
    assert parse_device(name).allows(parse_device(FULL)) is allowed


@pytest.mark.parametrize(
    ("inner", "outer", "merged"),
    [
        ("/cpu:1", "/job:ps/task:3", "/job:ps/task:3/cpu:1"),
        ("/task:0", "/job:ps/task:3/gpu:1", "/job:ps/task:0/gpu:1"),
        ("/gpu:*", "/cpu:1", "/device:GPU:*"),
        ("/cpu:*", "/cpu:1", "/cpu:1"),
        ("", "/cpu:1", "/cpu:1"),
    ],
)
def test_inner_scopes_go_first(inner, outer, merged):
    assert parse_device(inner).within(parse_device(outer)) == parse_device(merged)


def test_two_constraints():
    assert parse_device("/task:1").both(parse_device("/cpu:1")) == parse_device("/task:1/cpu:1")
    assert parse_device("/task:1").both(parse_device("/task:2/cpu:1")) is None


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [("/gpu:*", "/device:*:1", "/gpu:1"), ("/task:0", "/gpu:1", "/task:0/gpu:1"), ("/cpu:*", "/gpu:1", None)],
)
def test_constraints_hold_together_in_either_order(one, other, together):
    wanted = None if together is None else parse_device(together)
    assert parse_device(one).both(parse_device(other)) == wanted
    assert parse_device(other).both(parse_device(one)) == wanted
