"""tagflow: a tagged-token dataflow engine for programs whose control flow is decided by data."""
