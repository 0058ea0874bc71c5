"""Experiments that measure tagflow beside other engines: ``python -m bench NAME --peer tf``."""
