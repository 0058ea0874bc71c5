"""Rules of operation types: each pass and each backend asks for its own class, and the core knows none of them."""

import dataclasses
from dataclasses import dataclass
from typing import get_args

import pytest
import tagloom as tg
from tagloom import operations
from tagloom.ir.definition import OpDefinition, all_definitions
from tagloom.ir.outputs import ManyOutputs, NoOutput
from tagloom.ir.rules.batching import Batch
from tagloom.ir.rules.placing import TakesPart
from tagloom.ops.type_modules import module_of


@dataclass(frozen=True)
class Cost:
    """A rule of a pass that tagloom does not have."""

    seconds: float


def define(type, rules):
    return operations.define(
        type,
        "x: float32 -> y: float32",
        shape=lambda op: op.inputs[0].shape,
        kernel=lambda xp, x: x,
        gradient=lambda op, g: [g],
        rules=rules,
    )


def test_a_consumer_gets_its_own_rule_and_no_other():
    define("tests.WithCost", [Cost(2.0), TakesPart()])
    with tg.Graph().as_default():
        op = operations.apply("tests.WithCost", tg.constant(1.0)).op
    assert op.rule(Cost) == Cost(2.0)
    assert op.definition.has(TakesPart)
    assert op.rule(Batch) is None
    assert not op.definition.has(Batch)


def test_two_rules_of_a_class_are_refused():
    with pytest.raises(tg.GraphError, match=r"WithTwo has two rules of the same class[\s\S]*got: Cost, Cost"):
        define("tests.WithTwo", [Cost(1.0), Cost(2.0)])


def test_rules_cannot_be_changed():
    definition = define("tests.Fixed", [Cost(1.0)])
    with pytest.raises(TypeError):
        definition.rules[Cost] = Cost(3.0)


def test_a_definition_has_few_fields_of_its_own():
    assert len(dataclasses.fields(OpDefinition)) <= 16


def test_each_rule_is_frozen_and_listed_by_its_class():
    for definition in all_definitions():
        for kind, rule in definition.rules.items():
            assert type(rule) is kind
            assert kind.__dataclass_params__.frozen


def test_the_types_of_apply_are_those_of_the_definitions():
    """Editors know by them whether an operation has one output, several, or none."""
    outputs = {d.type: d.signature.outputs for d in all_definitions() if module_of(d.type) and d.type[0].isupper()}
    assert set(get_args(NoOutput)) == {type for type, found in outputs.items() if not found}
    assert set(get_args(ManyOutputs)) == {
        type for type, found in outputs.items() if len(found) > 1 or any(p.many for p in found)
    }


def test_an_outside_type_has_tangents_by_its_gradient_or_by_a_rule_of_its_own():
    calls = []

    def push(op, given):
        calls.append(op.type)
        return [given[0] * 5.0]

    define("tests.ByGradient", [])
    define("tests.ByRule", [operations.Tangents(push)])
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [])
        found = [
            tg.jvp(lambda x, name=name: operations.apply(name, x), (x,), (2.0,))[1]
            for name in ("tests.ByGradient", "tests.ByRule")
        ]
    with tg.SyncSession(graph) as session:
        assert [float(value) for value in session.run(found, {x: 3.0})] == [2.0, 10.0]
    assert calls == ["tests.ByRule"]
