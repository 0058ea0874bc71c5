"""Which operations have a C kernel, by type, dtypes and attributes.

The definition block of an operation gives its meaning by a Python kernel; a C kernel here computes the same where
its inputs are the plain arrays that almost all are, and declines where they are not.
"""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native
from tagflow.kernels.cpu.concat_transpose cimport find_concat, find_split, find_transpose
from tagflow.kernels.cpu.cumulative cimport find_scan
from tagflow.kernels.cpu.elements cimport find_array_access
from tagflow.kernels.cpu.elementwise cimport find_add_n, find_cast, find_sigmoid
from tagflow.kernels.cpu.fused cimport find_fused
from tagflow.kernels.cpu.gather_slice cimport find_gather, find_slice
from tagflow.kernels.cpu.linear cimport find_matmul
from tagflow.kernels.cpu.product_sum cimport find_product_sum
from tagflow.kernels.cpu.reducing cimport find_reduction
from tagflow.kernels.cpu.reshape cimport find_shaping
from tagflow.kernels.cpu.softmax cimport find_row_kernel
from tagflow.kernels.cpu.stack cimport find_stack

_REDUCTIONS = frozenset({"All", "Any", "BroadcastTo", "Max", "Mean", "Min", "Sum", "SumTo", "Unreduce"})
_ROWS = frozenset({"ArgMax", "ArgMin", "LogSoftmax", "Softmax", "SoftmaxCrossEntropyWithLogits",
                   "SparseSoftmaxCrossEntropyWithLogits"})
_SHAPING = frozenset({"ExpandDims", "Fill", "Rank", "Reshape", "Shape", "Size", "Squeeze"})

TYPES = _REDUCTIONS | _ROWS | _SHAPING | {
    "AddN", "Cast", "Concat", "Cumsum", "Fused", "Gather", "MatMul", "MatMulAdd", "ProductSumAdd", "ProductSumBegin",
    "ProductSumEnd", "Sigmoid", "Split", "SplitV", "StridedSlice", "TensorArrayRead", "TensorArrayStack",
    "TensorArrayWrite", "Transpose",
}  # all that find_native may find something for


cdef Native find_native(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *:
    """Return the C kernel of an operation, or NULL; write what it takes from the attributes to `params`.

    Objects that it needs as long as it is used are appended to `kept`.
    """
    if type not in TYPES:
        return NULL
    if type == "MatMul" or type == "MatMulAdd":
        params[0], params[1], params[2] = attrs["transpose_a"], attrs["transpose_b"], type == "MatMulAdd"
        return find_matmul(attrs, inputs, outputs)
    if type.startswith("ProductSum"):
        return find_product_sum(type)
    if type == "Concat":
        params[0] = attrs["axis"]
        return find_concat(attrs, inputs, outputs)
    if type == "Split" or type == "SplitV":
        params[0] = attrs["axis"]
        return find_split(attrs, inputs, outputs)
    if type == "Transpose":
        return find_transpose(attrs, inputs, outputs)
    if type == "TensorArrayRead" or type == "TensorArrayWrite":
        return find_array_access(type)
    if type == "TensorArrayStack":
        return find_stack(outputs)
    if type == "Cast":
        return find_cast(inputs, outputs)
    if type == "AddN":
        return find_add_n(attrs, inputs, outputs)
    if type == "Fused":
        return find_fused(attrs, inputs, outputs, params, kept)
    if type == "Sigmoid":
        return find_sigmoid(attrs, inputs, outputs)
    if type == "Cumsum":
        return find_scan(attrs, outputs, params)
    if type == "Gather":
        return find_gather(attrs, inputs, outputs, params)
    if type == "StridedSlice":
        return find_slice(attrs, outputs, params, kept)
    if type in _REDUCTIONS:
        return find_reduction(type, attrs, inputs, outputs, params, kept)
    if type in _ROWS:
        return find_row_kernel(type, attrs, inputs, outputs, params)
    if type in _SHAPING:
        return find_shaping(type, attrs, outputs, params)
    return NULL
