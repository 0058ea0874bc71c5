"""Staging areas: elements prepared before the step that takes them."""
