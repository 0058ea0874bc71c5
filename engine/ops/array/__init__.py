"""Operations on arrays: shapes, selection, joining, sorting."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "argminmax": "argmax argmin",
    "binning": "histogram_fixed_width histogram_fixed_width_bins searchsorted",
    "bits": "bitcast ensure_shape saturate_cast",
    "blocks": "batch_to_space batch_to_space_nd required_space_to_batch_paddings space_to_batch space_to_batch_nd",
    "broadcasting": "broadcast_to",
    "concat": "concat split unstack",
    "counting": "bincount confusion_matrix",
    "creation": "fill linspace ones ones_like zeros zeros_like range",
    "depth": "depth_to_space space_to_depth",
    "gather": "gather unsorted_segment_sum",
    "grids": "broadcast_dynamic_shape broadcast_static_shape meshgrid shape_n unravel_index",
    "index_vectors": "gather_nd scatter_nd",
    "layout": "reverse tile transpose",
    "one_hot": "eye one_hot",
    "padding": "pad",
    "partitioning": "dynamic_partition dynamic_stitch",
    "ranking": "in_top_k nth_element top_k",
    "scattering": (
        "tensor_scatter_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_sub tensor_scatter_update"
    ),
    "segments": (
        "unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n"
    ),
    "sequences": "repeat reverse_sequence roll sequence_mask",
    "shapes": "expand_dims rank reshape shape size squeeze",
    "slicing": "boolean_mask slice",
    "sorted_segments": (
        "segment_max segment_mean segment_min segment_prod segment_sum sparse_segment_mean sparse_segment_sqrt_n "
        "sparse_segment_sum"
    ),
    "sorting": "argsort sort",
    "strided": "strided_slice",
    "unique": "invert_permutation setdiff1d unique unique_with_counts",
    "where": "where",
}
