"""Tracing of Python functions into regions."""
