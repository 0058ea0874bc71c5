"""Barriers: elements put together by keys."""
