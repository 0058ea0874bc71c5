"""The step machine: plans in C tables, and their execution."""
