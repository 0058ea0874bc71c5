"""Regions of pure operations as programs over plain memory."""

from . import entry as _entry  # noqa: F401  registers the kernel of Native
