"""tagflow: a tagged-token dataflow engine for asyncio programs whose control flow is decided by data.

Build a graph with ``cond``, ``while_loop`` and ``TensorArray``, differentiate it, and await steps of it.
"""

import typing as _typing

from . import nn as nn
from . import streams as streams
from . import training as training
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
from .base.dtypes import bool_ as _bool
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
from .compile.liveness import liveness
from .frontend.conditional import case, cond, smart_cond, switch_case
from .frontend.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
from .frontend.embedding import embedding_lookup
from .frontend.full_softmax import full_softmax_loss
from .frontend.functional import foldl, foldr, map_fn, scan
from .frontend.least_squares import matrix_solve_ls
from .frontend.loops import while_loop
from .frontend.partitioned import PartitionedVariable
from .frontend.partitioners import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from .frontend.py_function import py_function
from .frontend.sampled import compute_accidental_hits, nce_loss, sampled_softmax_loss
from .frontend.scopes import colocate_with, control_dependencies, device, name_scope
from .frontend.stacking import parallel_stack, stack
from .frontend.tensor_array import TensorArray
from .frontend.variables import (
    Variable,
    global_variables,
    global_variables_initializer,
    is_variable_initialized,
    report_uninitialized_variables,
    trainable_variables,
    variables_initializer,
)
from .gradients import gradients, hessians
from .ir.apply import constant, convert_to_tensor
from .ir.graph import Graph
from .ir.indexing import newaxis
from .ir.operation import Operation
from .ir.scopes import get_default_graph
from .ir.tensor import Tensor
from .ops.array.argminmax import argmax, argmin
from .ops.array.broadcasting import broadcast_to
from .ops.array.concat import concat, split, unstack
from .ops.array.creation import fill, linspace, ones, ones_like, zeros, zeros_like
from .ops.array.creation import range as range
from .ops.array.gather import gather, gather_nd, scatter_nd, unsorted_segment_sum
from .ops.array.layout import reverse, tile, transpose
from .ops.array.one_hot import eye, one_hot
from .ops.array.padding import pad
from .ops.array.partitioning import dynamic_partition, dynamic_stitch
from .ops.array.shapes import expand_dims, rank, reshape, shape, size, squeeze
from .ops.array.slicing import boolean_mask
from .ops.array.slicing import slice as slice
from .ops.array.strided import strided_slice
from .ops.array.where import where
from .ops.control.checks import check_numerics, clip_by_global_norm, clip_by_norm, global_norm
from .ops.control.effects import (
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
from .ops.control.identity import identity_n
from .ops.control.placeholders import (
    identity,
    no_op,
    placeholder,
    placeholder_with_default,
    prevent_gradient,
    stop_gradient,
)
from .ops.control.primitives import control_trigger, enter, loop_cond, merge, next_iteration, switch
from .ops.control.primitives import exit as exit
from .ops.linalg.cholesky import cholesky, cholesky_solve, logdet
from .ops.linalg.determinants import matrix_determinant, slogdet
from .ops.linalg.diagonals import matrix_diag, matrix_diag_part, matrix_set_diag
from .ops.linalg.eigenvalues import self_adjoint_eig, self_adjoint_eigvals
from .ops.linalg.einsum import einsum
from .ops.linalg.exponential import expm
from .ops.linalg.orthogonal import qr
from .ops.linalg.singular_values import pinv, svd
from .ops.linalg.solving import matrix_inverse, matrix_solve, matrix_triangular_solve
from .ops.linalg.tensor_diagonals import diag, diag_part
from .ops.linalg.tensordot import cross, tensordot
from .ops.linalg.transposing import matrix_transpose
from .ops.linalg.triangles import matrix_band_part, trace
from .ops.math.arithmetic import (
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
    squared_difference,
    subtract,
    xlogy,
)
from .ops.math.arithmetic import pow as pow
from .ops.math.casting import cast
from .ops.math.comparison import (
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
from .ops.math.complex import angle, conj, imag, real
from .ops.math.complex import complex as complex
from .ops.math.cumulative import cumprod, cumsum, reduce_prod
from .ops.math.elementwise import abs as abs
from .ops.math.elementwise import (
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
    rsqrt,
    sign,
    sqrt,
    square,
)
from .ops.math.elementwise import round as round
from .ops.math.linear import l2_loss, matmul, norm
from .ops.math.random import (
    categorical,
    random_normal,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from .ops.math.reductions import (
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
)
from .ops.math.trigonometry import acos, acosh, asin, asinh, atan, atanh, cos, cosh, sin, sinh, tan, tanh
from .ops.nn.activations import elu, gelu, leaky_relu, log_sigmoid, relu, relu6, selu, sigmoid, softplus, softsign
from .ops.nn.convolution import atrous_conv2d, conv1d, conv2d, conv3d, convolution, depthwise_conv2d, separable_conv2d
from .ops.nn.convolution_transpose import (
    conv1d_transpose,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv3d_transpose,
)
from .ops.nn.losses import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from .ops.nn.normalization import bias_add, l2_normalize, moments
from .ops.state.session_handles import get_session_handle
from .ops.state.stacks import stack_close, stack_pop, stack_push
from .ops.support.indexed_slices import IndexedSlices
from .runtime.devices.session_devices import DeviceAttributes
from .runtime.functions.arguments import TensorSpec
from .runtime.functions.differentiate import grad, value_and_grad
from .runtime.functions.function import Function, function
from .runtime.observe.statistics import Statistics
from .runtime.observe.trace import Span, Trace
from .runtime.observe.watch import Watch
from .runtime.session import Session
from .runtime.steps.outcomes import StepRecord
from .runtime.steps.partial_run import PartialRun
from .runtime.steps.report import ClusterReport, LoopReport, Report
from .runtime.steps.step import Step
from .runtime.steps.stream import StepStream
from .runtime.steps.tensor_handle import TensorHandle
from .runtime.sync import SyncSession
from .swap import SwapPolicy, SwapReport

if not _typing.TYPE_CHECKING:  # for which a module with `__getattr__` has all names
    from .frontend.missing_names import __dir__ as __dir__
    from .frontend.missing_names import __getattr__ as __getattr__

__version__ = "0.1.0"
bool: DType = _bool
__all__ = [  # but for names of Python's own: abs, bool, complex, exit, pow, range, round, slice
    "Assert",
    "BranchMismatchError",
    "CheckpointError",
    "ClusterReport",
    "DType",
    "DeadFetchError",
    "DeviceAttributes",
    "DeviceMemoryError",
    "DtypeError",
    "Function",
    "Graph",
    "GraphError",
    "IndexedSlices",
    "LoopReport",
    "LoopVariableError",
    "OpError",
    "Operation",
    "Overloaded",
    "PartialRun",
    "PartitionedVariable",
    "QueueClosed",
    "Report",
    "Session",
    "SessionClosed",
    "Settings",
    "Shape",
    "ShapeError",
    "Span",
    "StackError",
    "Statistics",
    "Step",
    "StepRecord",
    "StepStream",
    "StepTimeout",
    "SwapError",
    "SwapPolicy",
    "SwapReport",
    "SyncSession",
    "TagflowError",
    "Tensor",
    "TensorArray",
    "TensorArrayError",
    "TensorHandle",
    "TensorSpec",
    "Trace",
    "UninitializedVariableError",
    "Variable",
    "Watch",
    "__version__",
    "accumulate_n",
    "acos",
    "acosh",
    "add",
    "add_n",
    "angle",
    "argmax",
    "argmin",
    "as_dtype",
    "asin",
    "asinh",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "atan",
    "atan2",
    "atanh",
    "atrous_conv2d",
    "bfloat16",
    "bias_add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "boolean_mask",
    "broadcast_to",
    "case",
    "cast",
    "categorical",
    "ceil",
    "check_numerics",
    "cholesky",
    "cholesky_solve",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "colocate_with",
    "complex128",
    "complex64",
    "compute_accidental_hits",
    "concat",
    "cond",
    "conj",
    "constant",
    "control_dependencies",
    "control_trigger",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_backprop_filter",
    "conv2d_backprop_input",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "convert_to_tensor",
    "convolution",
    "cos",
    "cosh",
    "cross",
    "cumprod",
    "cumsum",
    "custom_gradient",
    "depthwise_conv2d",
    "device",
    "diag",
    "diag_part",
    "div_no_nan",
    "divide",
    "dynamic_partition",
    "dynamic_stitch",
    "einsum",
    "elu",
    "embedding_lookup",
    "enter",
    "equal",
    "erf",
    "erfc",
    "exp",
    "expand_dims",
    "expm",
    "expm1",
    "eye",
    "fill",
    "fixed_size_partitioner",
    "float16",
    "float32",
    "float64",
    "floor",
    "floordiv",
    "floormod",
    "foldl",
    "foldr",
    "full_softmax_loss",
    "function",
    "gather",
    "gather_nd",
    "gelu",
    "get_default_graph",
    "get_session_handle",
    "global_norm",
    "global_variables",
    "global_variables_initializer",
    "grad",
    "grad_pass_through",
    "gradients",
    "greater",
    "greater_equal",
    "group",
    "hessians",
    "identity",
    "identity_n",
    "imag",
    "int16",
    "int32",
    "int64",
    "int8",
    "invert",
    "is_finite",
    "is_inf",
    "is_nan",
    "is_variable_initialized",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "left_shift",
    "less",
    "less_equal",
    "linspace",
    "liveness",
    "log",
    "log1p",
    "log_sigmoid",
    "log_softmax",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "loop_cond",
    "map_fn",
    "matmul",
    "matrix_band_part",
    "matrix_determinant",
    "matrix_diag",
    "matrix_diag_part",
    "matrix_inverse",
    "matrix_set_diag",
    "matrix_solve",
    "matrix_solve_ls",
    "matrix_transpose",
    "matrix_triangular_solve",
    "maximum",
    "merge",
    "min_max_variable_partitioner",
    "minimum",
    "mod",
    "moments",
    "multiply",
    "name_scope",
    "nce_loss",
    "negative",
    "newaxis",
    "next_iteration",
    "no_op",
    "norm",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "parallel_stack",
    "pinv",
    "placeholder",
    "placeholder_with_default",
    "prevent_gradient",
    "print_",
    "py_function",
    "qr",
    "random_normal",
    "random_shuffle",
    "random_uniform",
    "rank",
    "real",
    "reciprocal",
    "recompute_grad",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "relu6",
    "report_uninitialized_variables",
    "reshape",
    "reverse",
    "right_shift",
    "rint",
    "rsqrt",
    "sampled_softmax_loss",
    "scan",
    "scatter_nd",
    "self_adjoint_eig",
    "self_adjoint_eigvals",
    "selu",
    "separable_conv2d",
    "set_random_seed",
    "shape",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "sign",
    "sin",
    "sinh",
    "size",
    "slogdet",
    "smart_cond",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softplus",
    "softsign",
    "sparse_softmax_cross_entropy_with_logits",
    "split",
    "sqrt",
    "square",
    "squared_difference",
    "squeeze",
    "stack",
    "stack_close",
    "stack_pop",
    "stack_push",
    "stop_gradient",
    "strided_slice",
    "string",
    "subtract",
    "svd",
    "switch",
    "switch_case",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "trace",
    "trainable_variables",
    "transpose",
    "truncated_normal",
    "tuple_",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unsorted_segment_sum",
    "unstack",
    "value_and_grad",
    "variable_axis_size_partitioner",
    "variables_initializer",
    "where",
    "while_loop",
    "xlogy",
    "zeros",
    "zeros_like",
]
