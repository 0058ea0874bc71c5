"""Public names of `tagloom` except its modules; written by ``make names`` from the families' lists ``PUBLIC``.

The package reads this file when the first of the names is used: see `engine/__init__.py`. Type checkers read it too.
"""

# ruff: noqa: I001

from .base.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_ as _bool,
    complex128,
    complex64,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
    int8,
    string,
    uint16,
    uint32,
    uint64,
    uint8,
)
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
    PipelineError,
    QueueClosed,
    SessionClosed,
    ShapeError,
    StackError,
    StepTimeout,
    SwapError,
    TagloomError,
    TensorArrayError,
    UninitializedVariableError,
    VectorizationError,
)
from .base.settings import Settings, Switches
from .base.shapes import Shape
from .base.version import VERSION as __version__
from .compile.liveness import liveness
from .frontend.control.conditional import case, cond, smart_cond, switch_case
from .frontend.control.counted_loop import fori_loop
from .frontend.control.loops import while_loop
from .frontend.control.scopes import colocate_with, control_dependencies, device, name_scope
from .frontend.embedding.candidates import learned_unigram_candidate_sampler
from .frontend.embedding.embedding import embedding_lookup
from .frontend.embedding.full_softmax import full_softmax_loss
from .frontend.embedding.sampled import compute_accidental_hits, nce_loss, sampled_softmax_loss
from .frontend.embedding.sparse_embedding import embedding_lookup_sparse
from .frontend.functions.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
from .frontend.functions.functional import foldl, foldr, map_fn, scan
from .frontend.functions.prefixes import associative_scan
from .frontend.functions.py_function import py_function
from .frontend.functions.vectorized import vectorized_map, vmap
from .frontend.least_squares import matrix_solve_ls
from .frontend.queues.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from .frontend.queues.async_sources import from_async
from .frontend.queues.queue_base import QueueBase
from .frontend.queues.queue_bridges import Bridge
from .frontend.queues.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from .frontend.state.partitioned import PartitionedVariable
from .frontend.state.partitioners import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from .frontend.state.scattering import (
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    scatter_sub,
    scatter_update,
)
from .frontend.state.stacking import parallel_stack, stack
from .frontend.state.tables import HashTable, LookupTable, MutableHashTable, tables_initializer
from .frontend.state.tensor_array import TensorArray
from .frontend.state.variables import (
    Variable,
    global_variables,
    global_variables_initializer,
    is_variable_initialized,
    report_uninitialized_variables,
    trainable_variables,
    variables_initializer,
)
from .frontend.state.vocabularies import (
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)
from .gradients.api import gradients
from .gradients.hessian import hessians
from .gradients.jacobian import batch_jacobian, hessian_vector_product, jacobian
from .gradients.jvp import jvp
from .ir.apply import constant, convert_to_tensor
from .ir.gradient_overrides import RegisterGradient
from .ir.graph import Graph
from .ir.indexing import newaxis
from .ir.operation import Operation
from .ir.scopes import get_default_graph
from .ir.tensor import Tensor
from .ops.array.argminmax import argmax, argmin
from .ops.array.binning import histogram_fixed_width, histogram_fixed_width_bins, searchsorted
from .ops.array.bits import bitcast, ensure_shape, saturate_cast
from .ops.array.blocks import (
    batch_to_space,
    batch_to_space_nd,
    required_space_to_batch_paddings,
    space_to_batch,
    space_to_batch_nd,
)
from .ops.array.broadcasting import broadcast_to
from .ops.array.concat import concat, split, unstack
from .ops.array.counting import bincount, confusion_matrix
from .ops.array.creation import fill, linspace, ones, ones_like, range as range, zeros, zeros_like
from .ops.array.depth import depth_to_space, space_to_depth
from .ops.array.gather import gather, unsorted_segment_sum
from .ops.array.grids import broadcast_dynamic_shape, broadcast_static_shape, meshgrid, shape_n, unravel_index
from .ops.array.index_vectors import gather_nd, scatter_nd
from .ops.array.layout import reverse, tile, transpose
from .ops.array.one_hot import eye, one_hot
from .ops.array.padding import pad
from .ops.array.partitioning import dynamic_partition, dynamic_stitch
from .ops.array.ranking import in_top_k, nth_element, top_k
from .ops.array.scattering import (
    tensor_scatter_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_sub,
    tensor_scatter_update,
)
from .ops.array.segments import (
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
)
from .ops.array.sequences import repeat, reverse_sequence, roll, sequence_mask
from .ops.array.shapes import expand_dims, rank, reshape, shape, size, squeeze
from .ops.array.slicing import boolean_mask, slice as slice
from .ops.array.sorted_segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from .ops.array.sorting import argsort, sort
from .ops.array.strided import strided_slice
from .ops.array.unique import invert_permutation, setdiff1d, unique, unique_with_counts
from .ops.array.where import where
from .ops.control.assertions import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
)
from .ops.control.broadcast_weights import assert_broadcastable, broadcast_weights, remove_squeezable_dimensions
from .ops.control.checks import check_numerics, clip_by_average_norm, clip_by_global_norm, clip_by_norm, global_norm
from .ops.control.effects import Assert, group, print_, tuple_
from .ops.control.identity import identity_n
from .ops.control.placeholders import (
    identity,
    no_op,
    placeholder,
    placeholder_with_default,
    prevent_gradient,
    stop_gradient,
)
from .ops.control.primitives import control_trigger, enter, exit as exit, loop_cond, merge, next_iteration, switch
from .ops.control.shape_assertions import (
    assert_integer,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_scalar,
    assert_type,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
)
from .ops.image.adjusting import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    convert_image_dtype,
    grayscale_to_rgb,
    transpose_image,
)
from .ops.image.boxes import (
    crop_and_resize,
    non_max_suppression,
    non_max_suppression_padded,
    non_max_suppression_with_scores,
)
from .ops.image.coding import adjust_jpeg_quality, decode_image, encode_jpeg, encode_png
from .ops.image.color import hsv_to_rgb, rgb_to_grayscale, rgb_to_hsv
from .ops.image.cropping import central_crop, crop_to_bounding_box, pad_to_bounding_box, resize_image_with_crop_or_pad
from .ops.image.drawing import draw_bounding_boxes
from .ops.image.fitting import resize_image_with_pad
from .ops.image.luma import rgb_to_yiq, rgb_to_yuv, yiq_to_rgb, yuv_to_rgb
from .ops.image.measures import image_gradients, psnr, sobel_edges, ssim, ssim_multiscale, total_variation
from .ops.image.morphology import dilation2d, erosion2d
from .ops.image.patches import extract_image_patches, extract_volume_patches
from .ops.image.random_changes import (
    random_brightness,
    random_contrast,
    random_flip_left_right,
    random_flip_up_down,
    random_hue,
    random_saturation,
)
from .ops.image.resize import resize_area, resize_bicubic, resize_bilinear, resize_nearest_neighbor
from .ops.image.transforms import flip_left_right, flip_up_down, per_image_standardization, rot90
from .ops.linalg.cholesky import cholesky, cholesky_solve, logdet
from .ops.linalg.determinants import matrix_determinant, slogdet
from .ops.linalg.diagonals import matrix_diag, matrix_diag_part, matrix_set_diag
from .ops.linalg.eigenvalues import self_adjoint_eig, self_adjoint_eigvals
from .ops.linalg.einsum import einsum
from .ops.linalg.exponential import expm
from .ops.linalg.norms import norm
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
    pow as pow,
    squared_difference,
    subtract,
    xlogy,
)
from .ops.math.bessel import (
    bessel_i0,
    bessel_i0e,
    bessel_i1,
    bessel_i1e,
    bessel_j0,
    bessel_j1,
    bessel_k0,
    bessel_k0e,
    bessel_k1,
    bessel_k1e,
    bessel_y0,
    bessel_y1,
)
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
from .ops.math.complex import angle, complex as complex, conj, imag, real
from .ops.math.cosine import dct, idct
from .ops.math.cumulative import cumprod, cumsum, reduce_prod
from .ops.math.dispersion import count_nonzero, reduce_euclidean_norm, reduce_std, reduce_variance
from .ops.math.elementwise import (
    abs as abs,
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
    round as round,
    rsqrt,
    sign,
    sqrt,
    square,
)
from .ops.math.fake_quantizing import (
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_per_channel,
)
from .ops.math.gamma import digamma, lbeta, lgamma, polygamma, zeta
from .ops.math.guarded import nextafter, polyval, reciprocal_no_nan, truncatediv, truncatemod
from .ops.math.incomplete import betainc, igamma, igammac
from .ops.math.linear import l2_loss, matmul
from .ops.math.quantizing import Quantized, dequantize, quantize, quantized_matmul
from .ops.math.random import random_normal, random_uniform, set_random_seed, truncated_normal
from .ops.math.reductions import (
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
)
from .ops.math.running_logsumexp import cumulative_logsumexp
from .ops.math.short_time import inverse_stft, inverse_stft_window_fn, stft
from .ops.math.signal import fftshift, frame, hamming_window, hann_window, ifftshift, overlap_and_add
from .ops.math.special import dawsn, erfcinv, erfinv, expint, fresnel_cos, fresnel_sin, ndtri, spence, xdivy, xlog1py
from .ops.math.spectra import fft, fft2d, fft3d, ifft, ifft2d, ifft3d, irfft, irfft2d, irfft3d, rfft, rfft2d, rfft3d
from .ops.math.trigonometry import acos, acosh, asin, asinh, atan, atanh, cos, cosh, sin, sinh, tan, tanh
from .ops.math.zero_products import multiply_no_nan
from .ops.nn.activations import elu, gelu, leaky_relu, log_sigmoid, relu, relu6, selu, sigmoid, softplus, softsign
from .ops.nn.activations_composed import crelu, hard_sigmoid, swish, zero_fraction
from .ops.nn.batch_norm import (
    batch_normalization,
    fused_batch_norm,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from .ops.nn.convolution import atrous_conv2d, conv1d, conv2d, conv3d, convolution
from .ops.nn.convolution_transpose import (
    conv1d_transpose,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv3d_transpose,
)
from .ops.nn.ctc import ctc_loss
from .ops.nn.ctc_decoding import ctc_beam_search_decoder, ctc_greedy_decoder
from .ops.nn.depthwise import depthwise_conv2d, separable_conv2d
from .ops.nn.dropout import dropout
from .ops.nn.edit_distance import collapse_repeated, edit_distance
from .ops.nn.likelihoods import log_poisson_loss, weighted_cross_entropy_with_logits
from .ops.nn.local_response import lrn
from .ops.nn.logaddexp import logaddexp
from .ops.nn.losses import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from .ops.nn.normalization import bias_add, l2_normalize, moments
from .ops.nn.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool3d,
    max_pool,
    max_pool1d,
    max_pool3d,
    max_pool_with_argmax,
    pool,
)
from .ops.nn.stateless_dropout import stateless_dropout
from .ops.queues.accumulators.figures import AccumulatorStatistics
from .ops.queues.figures import IteratorStatistics, QueueStatistics
from .ops.queues import iterators as _iterators  # noqa: F401  declares operations
from .ops.random.candidates import (
    Candidates,
    fixed_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from .ops.random.discrete import categorical, random_shuffle
from .ops.random.distributions import random_crop, random_gamma, random_poisson
from .ops.random.keys import fold_in, stateless_split
from .ops.random.stateless import (
    stateless_categorical,
    stateless_random_gamma,
    stateless_random_normal,
    stateless_random_poisson,
    stateless_random_uniform,
    stateless_shuffle,
    stateless_truncated_normal,
)
from .ops.sparse.arithmetic import sparse_add, sparse_eye, sparse_maximum, sparse_minimum
from .ops.sparse.dense import sparse_from_dense, sparse_tensor_to_dense, sparse_to_dense, sparse_to_indicator
from .ops.sparse.layout import sparse_concat, sparse_expand_dims, sparse_reshape, sparse_split, sparse_transpose
from .ops.sparse.masking import sparse_mask
from .ops.sparse.merging import sparse_merge, sparse_reset_shape
from .ops.sparse.product import sparse_tensor_dense_matmul
from .ops.sparse.reducing import (
    sparse_reduce_max,
    sparse_reduce_max_sparse,
    sparse_reduce_sum,
    sparse_reduce_sum_sparse,
    sparse_softmax,
)
from .ops.sparse.rows import sparse_fill_empty_rows, sparse_reorder, sparse_retain, sparse_slice
from .ops.sparse.sparse_tensor import SparseTensor, SparseTensorValue, sparse_placeholder
from .ops.state.files import matching_files, read_file, write_file
from .ops.state.saving import restore_v2, save_v2
from .ops.state.session_handles import get_session_handle
from .ops.state.stacks import stack_close, stack_pop, stack_push
from .ops.state.variables import scattering as _scattering  # noqa: F401  declares operations
from .ops.strings.conversions import as_string, decode_base64, encode_base64, string_to_hash_bucket, string_to_number
from .ops.strings.elementwise import string_length, string_lower, string_strip, string_upper, substr
from .ops.strings.expressions import regex_full_match, regex_replace
from .ops.strings.joining import SplitStrings, reduce_join, string_join, string_split
from .ops.support.indexed_slices import IndexedSlices
from .runtime.devices.session_devices import DeviceAttributes
from .runtime.functions.arguments import TensorSpec
from .runtime.functions.decorator import function
from .runtime.functions.differentiate import grad, value_and_grad
from .runtime.functions.function import Function
from .runtime.memory.budget import MemoryBudget
from .runtime.observe.latency import Latency
from .runtime.observe.statistics import Statistics
from .runtime.observe.trace import Span, Trace
from .runtime.observe.watch import Watch
from .runtime.runners.group import Runners, runners
from .runtime.runners.repeating_step import Runner, RunnerStatistics
from .runtime.scheduling.priorities import priority
from .runtime.session.session import Session
from .runtime.session.sync import SyncSession
from .runtime.steps.outcomes import StepRecord
from .runtime.steps.partial.partial_run import PartialRun
from .runtime.steps.report.report import ClusterReport, LoopReport, Report
from .runtime.steps.step import Step
from .runtime.steps.stream import StepStream
from .runtime.steps.tensor_handle import TensorHandle
from .swap.policy import SwapPolicy
from .swap.report import SwapReport

bool = _bool

__all__ = [
    "AccumulatorStatistics",
    "Assert",
    "BranchMismatchError",
    "Bridge",
    "Candidates",
    "CheckpointError",
    "ClusterReport",
    "ConditionalAccumulator",
    "DType",
    "DeadFetchError",
    "DeviceAttributes",
    "DeviceMemoryError",
    "DtypeError",
    "FIFOQueue",
    "Function",
    "Graph",
    "GraphError",
    "HashTable",
    "IndexedSlices",
    "IteratorStatistics",
    "Latency",
    "LookupTable",
    "LoopReport",
    "LoopVariableError",
    "MemoryBudget",
    "MutableHashTable",
    "OpError",
    "Operation",
    "Overloaded",
    "PaddingFIFOQueue",
    "PartialRun",
    "PartitionedVariable",
    "PipelineError",
    "PriorityQueue",
    "Quantized",
    "QueueBase",
    "QueueClosed",
    "QueueStatistics",
    "RandomShuffleQueue",
    "RegisterGradient",
    "Report",
    "Runner",
    "RunnerStatistics",
    "Runners",
    "Session",
    "SessionClosed",
    "Settings",
    "Shape",
    "ShapeError",
    "Span",
    "SparseConditionalAccumulator",
    "SparseTensor",
    "SparseTensorValue",
    "SplitStrings",
    "StackError",
    "Statistics",
    "Step",
    "StepRecord",
    "StepStream",
    "StepTimeout",
    "SwapError",
    "SwapPolicy",
    "SwapReport",
    "Switches",
    "SyncSession",
    "TagloomError",
    "Tensor",
    "TensorArray",
    "TensorArrayError",
    "TensorHandle",
    "TensorSpec",
    "Trace",
    "UninitializedVariableError",
    "Variable",
    "VectorizationError",
    "Watch",
    "__version__",
    "accumulate_n",
    "acos",
    "acosh",
    "add",
    "add_n",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_jpeg_quality",
    "adjust_saturation",
    "angle",
    "argmax",
    "argmin",
    "argsort",
    "as_dtype",
    "as_string",
    "asin",
    "asinh",
    "assert_broadcastable",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_scalar",
    "assert_type",
    "associative_scan",
    "atan",
    "atan2",
    "atanh",
    "atrous_conv2d",
    "avg_pool",
    "avg_pool1d",
    "avg_pool3d",
    "batch_jacobian",
    "batch_normalization",
    "batch_to_space",
    "batch_to_space_nd",
    "bessel_i0",
    "bessel_i0e",
    "bessel_i1",
    "bessel_i1e",
    "bessel_j0",
    "bessel_j1",
    "bessel_k0",
    "bessel_k0e",
    "bessel_k1",
    "bessel_k1e",
    "bessel_y0",
    "bessel_y1",
    "betainc",
    "bfloat16",
    "bias_add",
    "bincount",
    "bitcast",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "boolean_mask",
    "broadcast_dynamic_shape",
    "broadcast_static_shape",
    "broadcast_to",
    "broadcast_weights",
    "case",
    "cast",
    "categorical",
    "ceil",
    "central_crop",
    "check_numerics",
    "cholesky",
    "cholesky_solve",
    "clip_by_average_norm",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "collapse_repeated",
    "colocate_with",
    "complex128",
    "complex64",
    "compute_accidental_hits",
    "concat",
    "cond",
    "confusion_matrix",
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
    "convert_image_dtype",
    "convert_to_tensor",
    "convolution",
    "cos",
    "cosh",
    "count_nonzero",
    "crelu",
    "crop_and_resize",
    "crop_to_bounding_box",
    "cross",
    "ctc_beam_search_decoder",
    "ctc_greedy_decoder",
    "ctc_loss",
    "cumprod",
    "cumsum",
    "cumulative_logsumexp",
    "custom_gradient",
    "dawsn",
    "dct",
    "decode_base64",
    "decode_image",
    "depth_to_space",
    "depthwise_conv2d",
    "dequantize",
    "device",
    "diag",
    "diag_part",
    "digamma",
    "dilation2d",
    "div_no_nan",
    "divide",
    "draw_bounding_boxes",
    "dropout",
    "dynamic_partition",
    "dynamic_stitch",
    "edit_distance",
    "einsum",
    "elu",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "encode_base64",
    "encode_jpeg",
    "encode_png",
    "ensure_shape",
    "enter",
    "equal",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "erosion2d",
    "exp",
    "expand_dims",
    "expint",
    "expm",
    "expm1",
    "extract_image_patches",
    "extract_volume_patches",
    "eye",
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_per_channel",
    "fft",
    "fft2d",
    "fft3d",
    "fftshift",
    "fill",
    "fixed_size_partitioner",
    "fixed_unigram_candidate_sampler",
    "flip_left_right",
    "flip_up_down",
    "float16",
    "float32",
    "float64",
    "floor",
    "floordiv",
    "floormod",
    "fold_in",
    "foldl",
    "foldr",
    "fori_loop",
    "frame",
    "fresnel_cos",
    "fresnel_sin",
    "from_async",
    "full_softmax_loss",
    "function",
    "fused_batch_norm",
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
    "grayscale_to_rgb",
    "greater",
    "greater_equal",
    "group",
    "hamming_window",
    "hann_window",
    "hard_sigmoid",
    "hessian_vector_product",
    "hessians",
    "histogram_fixed_width",
    "histogram_fixed_width_bins",
    "hsv_to_rgb",
    "idct",
    "identity",
    "identity_n",
    "ifft",
    "ifft2d",
    "ifft3d",
    "ifftshift",
    "igamma",
    "igammac",
    "imag",
    "image_gradients",
    "in_top_k",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "int16",
    "int32",
    "int64",
    "int8",
    "inverse_stft",
    "inverse_stft_window_fn",
    "invert",
    "invert_permutation",
    "irfft",
    "irfft2d",
    "irfft3d",
    "is_finite",
    "is_inf",
    "is_nan",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
    "is_variable_initialized",
    "jacobian",
    "jvp",
    "l2_loss",
    "l2_normalize",
    "lbeta",
    "leaky_relu",
    "learned_unigram_candidate_sampler",
    "left_shift",
    "less",
    "less_equal",
    "lgamma",
    "linspace",
    "liveness",
    "log",
    "log1p",
    "log_poisson_loss",
    "log_sigmoid",
    "log_softmax",
    "log_uniform_candidate_sampler",
    "logaddexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "loop_cond",
    "lrn",
    "map_fn",
    "matching_files",
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
    "max_pool",
    "max_pool1d",
    "max_pool3d",
    "max_pool_with_argmax",
    "maximum",
    "merge",
    "meshgrid",
    "min_max_variable_partitioner",
    "minimum",
    "mod",
    "moments",
    "multiply",
    "multiply_no_nan",
    "name_scope",
    "nce_loss",
    "ndtri",
    "negative",
    "newaxis",
    "next_iteration",
    "nextafter",
    "no_op",
    "non_max_suppression",
    "non_max_suppression_padded",
    "non_max_suppression_with_scores",
    "norm",
    "normalize_moments",
    "not_equal",
    "nth_element",
    "one_hot",
    "ones",
    "ones_like",
    "overlap_and_add",
    "pad",
    "pad_to_bounding_box",
    "parallel_stack",
    "per_image_standardization",
    "pinv",
    "placeholder",
    "placeholder_with_default",
    "polygamma",
    "polyval",
    "pool",
    "prevent_gradient",
    "print_",
    "priority",
    "psnr",
    "py_function",
    "qr",
    "quantize",
    "quantized_matmul",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_gamma",
    "random_hue",
    "random_normal",
    "random_poisson",
    "random_saturation",
    "random_shuffle",
    "random_uniform",
    "rank",
    "read_file",
    "real",
    "reciprocal",
    "reciprocal_no_nan",
    "recompute_grad",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_join",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
    "regex_full_match",
    "regex_replace",
    "relu",
    "relu6",
    "remove_squeezable_dimensions",
    "repeat",
    "report_uninitialized_variables",
    "required_space_to_batch_paddings",
    "reshape",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_image_with_crop_or_pad",
    "resize_image_with_pad",
    "resize_nearest_neighbor",
    "restore_v2",
    "reverse",
    "reverse_sequence",
    "rfft",
    "rfft2d",
    "rfft3d",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "right_shift",
    "rint",
    "roll",
    "rot90",
    "rsqrt",
    "runners",
    "sampled_softmax_loss",
    "saturate_cast",
    "save_v2",
    "scan",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
    "searchsorted",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "self_adjoint_eig",
    "self_adjoint_eigvals",
    "selu",
    "separable_conv2d",
    "sequence_mask",
    "set_random_seed",
    "setdiff1d",
    "shape",
    "shape_n",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "sign",
    "sin",
    "sinh",
    "size",
    "slogdet",
    "smart_cond",
    "sobel_edges",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softplus",
    "softsign",
    "sort",
    "space_to_batch",
    "space_to_batch_nd",
    "space_to_depth",
    "sparse_add",
    "sparse_concat",
    "sparse_expand_dims",
    "sparse_eye",
    "sparse_fill_empty_rows",
    "sparse_from_dense",
    "sparse_mask",
    "sparse_maximum",
    "sparse_merge",
    "sparse_minimum",
    "sparse_placeholder",
    "sparse_reduce_max",
    "sparse_reduce_max_sparse",
    "sparse_reduce_sum",
    "sparse_reduce_sum_sparse",
    "sparse_reorder",
    "sparse_reset_shape",
    "sparse_reshape",
    "sparse_retain",
    "sparse_segment_mean",
    "sparse_segment_sqrt_n",
    "sparse_segment_sum",
    "sparse_slice",
    "sparse_softmax",
    "sparse_softmax_cross_entropy_with_logits",
    "sparse_split",
    "sparse_tensor_dense_matmul",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
    "sparse_to_indicator",
    "sparse_transpose",
    "spence",
    "split",
    "sqrt",
    "square",
    "squared_difference",
    "squeeze",
    "ssim",
    "ssim_multiscale",
    "stack",
    "stack_close",
    "stack_pop",
    "stack_push",
    "stateless_categorical",
    "stateless_dropout",
    "stateless_random_gamma",
    "stateless_random_normal",
    "stateless_random_poisson",
    "stateless_random_uniform",
    "stateless_shuffle",
    "stateless_split",
    "stateless_truncated_normal",
    "stft",
    "stop_gradient",
    "strided_slice",
    "string",
    "string_join",
    "string_length",
    "string_lower",
    "string_split",
    "string_strip",
    "string_to_hash_bucket",
    "string_to_number",
    "string_upper",
    "substr",
    "subtract",
    "sufficient_statistics",
    "svd",
    "swish",
    "switch",
    "switch_case",
    "tables_initializer",
    "tan",
    "tanh",
    "tensor_scatter_add",
    "tensor_scatter_nd_max",
    "tensor_scatter_nd_min",
    "tensor_scatter_sub",
    "tensor_scatter_update",
    "tensordot",
    "tile",
    "top_k",
    "total_variation",
    "trace",
    "trainable_variables",
    "transpose",
    "transpose_image",
    "truncated_normal",
    "truncatediv",
    "truncatemod",
    "tuple_",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "uniform_candidate_sampler",
    "unique",
    "unique_with_counts",
    "unravel_index",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
    "unstack",
    "value_and_grad",
    "variable_axis_size_partitioner",
    "variables_initializer",
    "vectorized_map",
    "vmap",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
    "where",
    "while_loop",
    "write_file",
    "xdivy",
    "xlog1py",
    "xlogy",
    "yiq_to_rgb",
    "yuv_to_rgb",
    "zero_fraction",
    "zeros",
    "zeros_like",
    "zeta",
]
