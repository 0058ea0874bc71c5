"""Sparse tensors."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "arithmetic": "sparse_add sparse_eye sparse_maximum sparse_minimum",
    "dense": "sparse_from_dense sparse_tensor_to_dense sparse_to_dense sparse_to_indicator",
    "layout": "sparse_concat sparse_expand_dims sparse_reshape sparse_split sparse_transpose",
    "masking": "sparse_mask",
    "merging": "sparse_merge sparse_reset_shape",
    "product": "sparse_tensor_dense_matmul",
    "reducing": "sparse_reduce_max sparse_reduce_max_sparse sparse_reduce_sum sparse_reduce_sum_sparse sparse_softmax",
    "rows": "sparse_fill_empty_rows sparse_reorder sparse_retain sparse_slice",
    "sparse_tensor": "SparseTensor SparseTensorValue sparse_placeholder",
}
