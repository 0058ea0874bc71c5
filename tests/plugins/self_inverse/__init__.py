"""A pass with a rule class of its own: two self-inverse operations in a row are none.

An operation type takes part by the rule ``rules=[SelfInverse()]``, in this package or any other.
"""

from dataclasses import dataclass

import tagloom as tg
from tagloom import operations


@dataclass(frozen=True, slots=True)
class SelfInverse:
    """The operation, applied to its own result, returns its input.

    Attributes
    ----------
    attrs : tuple of str
        Attributes in which both operations must agree.
    """

    attrs: tuple[str, ...] = ()


def cancel(op, builder):
    """Return the input of a pair of self-inverse operations, for the result of the second."""
    rule = op.rule(SelfInverse)
    if rule is None:
        return None
    inner = op.inputs[0].op
    same = inner.type == op.type and all(inner.attrs[name] == op.attrs[name] for name in rule.attrs)
    return [inner.inputs[0]] if same else None


def cancel_pairs(program):
    """Return a program without pairs of self-inverse operations."""
    return operations.rewrite(program, cancel)


def install():
    """Register the pass; the registration's `unregister` takes it back."""
    return operations.register_pass("cancel_pairs", cancel_pairs, after="merge")


def define():
    """Define an operation with the rule: the elements of an axis in reverse."""
    return operations.define(
        "self_inverse.Mirror",
        "x: T -> y: T",
        where={"T": (tg.float32, tg.float64)},
        attrs={"axis": operations.REQUIRED},
        shape=lambda op: op.inputs[0].shape,
        kernel=lambda xp, x, axis: xp.flip(x, axis),
        gradient=lambda op, g: [mirror(g, op.attrs["axis"])],
        rules=[SelfInverse(attrs=("axis",))],
    )


def mirror(x, axis=0):
    """Return the elements of an axis in reverse."""
    return operations.apply("self_inverse.Mirror", x, axis=axis)
