"""Regions of pure operations as programs that run over plain memory."""

from . import entry as _entry  # noqa: F401  registers the kernel of Native
