"""State as users hold it: variables, TensorArrays, lookup tables, stacks."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "partitioned": "PartitionedVariable",
    "partitioners": "fixed_size_partitioner min_max_variable_partitioner variable_axis_size_partitioner",
    "scattering": (
        "scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub scatter_nd_update "
        "scatter_sub scatter_update"
    ),
    "stacking": "parallel_stack stack",
    "tables": "HashTable LookupTable MutableHashTable tables_initializer",
    "tensor_array": "TensorArray",
    "variables": (
        "Variable global_variables global_variables_initializer is_variable_initialized report_uninitialized_variables "
        "trainable_variables variables_initializer"
    ),
    "vocabularies": (
        "index_table_from_file index_table_from_tensor index_to_string_table_from_file "
        "index_to_string_table_from_tensor"
    ),
}
