"""Twelve loops as newcomers write them, each in several spellings that compute the same numbers."""

from .experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
