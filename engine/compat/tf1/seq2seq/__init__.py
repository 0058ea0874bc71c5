"""Decoders with helpers, attention wrappers and beam search."""
