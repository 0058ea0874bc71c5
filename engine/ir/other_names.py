"""What TensorFlow 1, NumPy, JAX and PyTorch call things that tagflow has under another name: errors say which.

There is one name for each thing, so these names do not work; whoever tries one is told the other.
"""

from __future__ import annotations

from .entry import PUBLIC

NAMES = {  # what follows `tagflow.`
    "absolute": "abs",
    "all_variables": "global_variables",
    "amax": "reduce_max",
    "amin": "reduce_min",
    "arange": "range",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "arg_max": "argmax",
    "arg_min": "argmin",
    "argwhere": "where(condition)",
    "array": "constant",
    "as_tensor": "convert_to_tensor",
    "asarray": "convert_to_tensor",
    "batch_matmul": "matmul",
    "bitwise_not": "invert",
    "bmm": "matmul",
    "cat": "concat",
    "clamp": "clip_by_value",
    "clip": "clip_by_value",
    "complex_abs": "abs",
    "concatenate": "concat",
    "conjugate": "conj",
    "detach": "stop_gradient",
    "div": "divide",
    "dot": "matmul",
    "double": "float64",
    "dynamic_rnn": "while_loop",
    "expit": "sigmoid",
    "flatten": "reshape(x, [-1])",
    "flip": "reverse",
    "float": "float32",
    "floor_div": "floordiv",
    "floor_divide": "floordiv",
    "fori_loop": "while_loop",
    "full": "fill",
    "full_like": "fill(shape(x), value)",
    "get_variable": "Variable",
    "half": "float16",
    "index_select": "gather",
    "initialize_all_variables": "global_variables_initializer",
    "initialize_variables": "variables_initializer",
    "int": "int32",
    "InteractiveSession": "SyncSession",
    "inv": "reciprocal",
    "isfinite": "is_finite",
    "isinf": "is_inf",
    "isnan": "is_nan",
    "lin_space": "linspace",
    "long": "int64",
    "mm": "matmul",
    "moveaxis": "transpose(x, perm)",
    "mul": "multiply",
    "multinomial": "categorical",
    "ndim": "rank",
    "neg": "negative",
    "nonzero": "where(condition)",
    "pack": "stack",
    "permute": "transpose",
    "power": "pow",
    "Print": "print_",
    "py_func": "py_function",
    "ravel": "reshape(x, [-1])",
    "realdiv": "divide",
    "remainder": "floormod",
    "segment_sum": "unsorted_segment_sum",
    "select": "where",
    "sub": "subtract",
    "swapaxes": "transpose(x, perm)",
    "take": "gather",
    "tensor": "constant",
    "TensorShape": "Shape(dims)",
    "to_bfloat16": 'cast(x, "bfloat16")',
    "to_double": 'cast(x, "float64")',
    "to_float": 'cast(x, "float32")',
    "to_int32": 'cast(x, "int32")',
    "to_int64": 'cast(x, "int64")',
    "true_divide": "divide",
    "truediv": "divide",
    "tuple": "tuple_",
    "unpack": "unstack",
    "unsqueeze": "expand_dims",
    "vmap": "map_fn",
    "vstack": "concat",
}
ATTRIBUTES = {  # of tensors and variables
    "backward": "tagflow.gradients(t, xs)",
    "bool": 't.astype("bool")',
    "double": 't.astype("float64")',
    "eval": "await session.run(t)",
    "flatten": "t.reshape([-1])",
    "float": 't.astype("float32")',
    "grad": "tagflow.gradients(ys, [t])",
    "half": 't.astype("float16")',
    "initialized_value": "t.initial_value",
    "int": 't.astype("int32")',
    "item": "await session.run(t)",
    "load": "await session.write_variables({name: value})",
    "long": 't.astype("int64")',
    "numpy": "await session.run(t)",
    "ravel": "t.reshape([-1])",
    "to": "t.astype(dtype), or `with tagflow.device(name):` around what makes it",
    "tolist": "await session.run(t)",
    "type": "t.astype(dtype)",
    "view": "t.reshape(shape)",
}


def name_here(name: str) -> str | None:
    """Return what something is called in tagflow, without ``tagflow.``; None where this table does not know."""
    same = name if name in PUBLIC else f"reduce_{name}"
    return NAMES.get(name, same if same in PUBLIC else None)


def missing_attribute(kind: str, name: str) -> str:
    """Return the text of the error for an attribute that a kind of tensor does not have."""
    known = name_here(name)
    call = known if known is None or "(" in known else f"{known}(t)"
    hint = ATTRIBUTES.get(name, call and f"tagflow.{call}")
    return f"a {kind} has no attribute '{name}'" + (f"\n  try: {hint}" if hint else "")
