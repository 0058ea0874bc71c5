"""tagflow: a tagged-token dataflow engine for asyncio programs whose control flow is decided by data.

Build a graph with ``cond``, ``while_loop`` and ``TensorArray``, differentiate it, and await steps of it.
"""

from .base.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .base.dtypes import bool_ as bool
from .base.errors import (
    BranchMismatchError,
    CheckpointError,
    DeadFetchError,
    DeviceMemoryError,
    DtypeError,
    GraphError,
    LoopVariableError,
    OpError,
    Overloaded,
    QueueClosed,
    SessionClosed,
    ShapeError,
    StackError,
    StepTimeout,
    SwapError,
    TagflowError,
    TensorArrayError,
    UninitializedVariableError,
)
from .base.settings import Settings
from .base.shapes import Shape
from .frontend.conditional import case, cond, switch_case
from .frontend.custom_gradient import custom_gradient
from .frontend.functional import foldl, foldr, map_fn, scan
from .frontend.loops import while_loop
from .frontend.py_function import py_function
from .frontend.scopes import colocate_with, control_dependencies, device, name_scope
from .frontend.stacking import stack
from .frontend.tensor_array import TensorArray
from .frontend.variables import (
    Variable,
    global_variables,
    global_variables_initializer,
    trainable_variables,
    variables_initializer,
)
from .gradients import gradients, hessians
from .ir.build import constant, convert_to_tensor
from .ir.graph import Graph
from .ir.operation import Operation
from .ir.scopes import get_default_graph
from .ir.tensor import Tensor
from .ops.activations import elu, gelu, leaky_relu, log_sigmoid, relu, relu6, selu, sigmoid, softplus, softsign
from .ops.arithmetic import (
    accumulate_n,
    add,
    add_n,
    atan2,
    div_no_nan,
    divide,
    floordiv,
    floormod,
    maximum,
    minimum,
    mod,
    multiply,
    pow,
    squared_difference,
    subtract,
    xlogy,
)
from .ops.broadcasting import broadcast_to
from .ops.casting import cast
from .ops.checks import check_numerics, clip_by_global_norm, clip_by_norm, global_norm
from .ops.comparison import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    right_shift,
)
from .ops.complexes import angle, complex, conj, imag, real
from .ops.control import control_trigger, enter, exit, loop_cond, merge, next_iteration, switch
from .ops.effects import (
    Assert,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    group,
    print_,
    tuple_,
)
from .ops.elementwise import (
    abs,
    ceil,
    clip_by_value,
    erf,
    erfc,
    exp,
    expm1,
    floor,
    is_finite,
    is_inf,
    is_nan,
    log,
    log1p,
    negative,
    reciprocal,
    rint,
    round,
    rsqrt,
    sign,
    sqrt,
    square,
)
from .ops.filling import eye, fill, linspace, one_hot, ones, ones_like, range, zeros, zeros_like
from .ops.gathering import gather, gather_nd, scatter_nd, unsorted_segment_sum
from .ops.joining import concat, split, unstack
from .ops.layout import reverse, tile, transpose
from .ops.linear import l2_loss, matmul, norm
from .ops.nn import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from .ops.normalization import bias_add, l2_normalize, moments
from .ops.padding import pad
from .ops.passing import identity_n
from .ops.products import cumprod, cumsum, reduce_prod
from .ops.random import categorical, random_normal, random_shuffle, random_uniform, truncated_normal
from .ops.reductions import (
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
)
from .ops.searching import argmax, argmin
from .ops.selecting import where
from .ops.shapes import expand_dims, rank, reshape, shape, size, squeeze
from .ops.slices import IndexedSlices
from .ops.slicing import boolean_mask, slice
from .ops.source import identity, no_op, placeholder, placeholder_with_default, stop_gradient
from .ops.stacks import stack_close, stack_pop, stack_push
from .ops.strided import strided_slice
from .ops.trigonometry import acos, acosh, asin, asinh, atan, atanh, cos, cosh, sin, sinh, tan, tanh
from .runtime.partial import PartialRun
from .runtime.report import LoopReport, Report
from .runtime.session import Session
from .runtime.statistics import Statistics
from .runtime.step import Step
from .runtime.sync import SyncSession
from .runtime.trace import Span, Trace
from .runtime.watch import Watch
from .swap import SwapPolicy, SwapReport

__version__ = "0.1.0"
__all__ = [
    "Assert", "BranchMismatchError", "CheckpointError", "DType", "DeadFetchError", "DeviceMemoryError", "DtypeError",
    "Graph", "GraphError", "IndexedSlices", "LoopReport", "LoopVariableError", "OpError", "Operation", "Overloaded",
    "PartialRun", "QueueClosed", "Report", "Session", "SessionClosed", "Settings", "Shape", "ShapeError", "Span",
    "StackError", "Statistics", "Step", "StepTimeout", "SwapError", "SwapPolicy", "SwapReport", "SyncSession",
    "TagflowError", "Tensor", "TensorArray", "TensorArrayError", "Trace", "UninitializedVariableError", "Variable",
    "Watch", "__version__", "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "argmax", "argmin",
    "as_dtype", "asin", "asinh", "assert_equal", "assert_greater", "assert_greater_equal", "assert_less",
    "assert_less_equal", "atan", "atan2", "atanh", "bfloat16", "bias_add", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bool", "boolean_mask", "broadcast_to", "case", "cast", "categorical", "ceil", "check_numerics",
    "clip_by_global_norm", "clip_by_norm", "clip_by_value", "colocate_with", "complex", "complex128", "complex64",
    "concat", "cond", "conj", "constant", "control_dependencies", "control_trigger", "convert_to_tensor", "cos", "cosh",
    "cumprod", "cumsum", "custom_gradient", "device", "div_no_nan", "divide", "elu", "enter", "equal", "erf", "erfc",
    "exit", "exp", "expand_dims", "expm1", "eye", "fill", "float16", "float32", "float64", "floor", "floordiv",
    "floormod", "foldl", "foldr", "gather", "gather_nd", "gelu", "get_default_graph", "global_norm", "global_variables",
    "global_variables_initializer", "gradients", "greater", "greater_equal", "group", "hessians", "identity",
    "identity_n", "imag", "int16", "int32", "int64", "int8", "invert", "is_finite", "is_inf", "is_nan", "l2_loss",
    "l2_normalize", "leaky_relu", "left_shift", "less", "less_equal", "linspace", "log", "log1p", "log_sigmoid",
    "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "loop_cond", "map_fn", "matmul",
    "maximum", "merge", "minimum", "mod", "moments", "multiply", "name_scope", "negative", "next_iteration", "no_op",
    "norm", "not_equal", "one_hot", "ones", "ones_like", "pad", "placeholder", "placeholder_with_default", "pow",
    "print_", "py_function", "random_normal", "random_shuffle", "random_uniform", "range", "rank", "real", "reciprocal",
    "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
    "reduce_sum", "relu", "relu6", "reshape", "reverse", "right_shift", "rint", "round", "rsqrt", "scan", "scatter_nd",
    "selu", "shape", "sigmoid", "sigmoid_cross_entropy_with_logits", "sign", "sin", "sinh", "size", "slice", "softmax",
    "softmax_cross_entropy_with_logits", "softplus", "softsign", "sparse_softmax_cross_entropy_with_logits", "split",
    "sqrt", "square", "squared_difference", "squeeze", "stack", "stack_close", "stack_pop", "stack_push",
    "stop_gradient", "strided_slice", "string", "subtract", "switch", "switch_case", "tan", "tanh", "tile",
    "trainable_variables", "transpose", "truncated_normal", "tuple_", "uint16", "uint32", "uint64", "uint8",
    "unsorted_segment_sum", "unstack", "variables_initializer", "where", "while_loop", "xlogy", "zeros", "zeros_like",
]  # fmt: skip
