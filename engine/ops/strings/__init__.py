"""Operations on strings."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "conversions": "as_string decode_base64 encode_base64 string_to_hash_bucket string_to_number",
    "elementwise": "string_length string_lower string_strip string_upper substr",
    "expressions": "regex_full_match regex_replace",
    "joining": "SplitStrings reduce_join string_join string_split",
}
