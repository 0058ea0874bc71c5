"""Placeholders, primitives of control flow, checks and effects."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "assertions": (
        "assert_equal assert_greater assert_greater_equal assert_less assert_less_equal assert_near assert_negative "
        "assert_non_negative assert_non_positive assert_none_equal assert_positive"
    ),
    "broadcast_weights": "assert_broadcastable broadcast_weights remove_squeezable_dimensions",
    "checks": "check_numerics clip_by_average_norm clip_by_global_norm clip_by_norm global_norm",
    "effects": "Assert group print_ tuple_",
    "identity": "identity_n",
    "placeholders": "identity no_op placeholder placeholder_with_default prevent_gradient stop_gradient",
    "primitives": "control_trigger enter loop_cond merge next_iteration switch exit",
    "shape_assertions": (
        "assert_integer assert_proper_iterable assert_rank assert_rank_at_least assert_rank_in assert_scalar "
        "assert_type is_non_decreasing is_numeric_tensor is_strictly_increasing"
    ),
}
