"""Deadness analysis: predicates for when values are alive, in lowered programs and in regions."""
