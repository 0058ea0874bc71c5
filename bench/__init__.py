"""Experiments that measure tagloom beside other engines: ``python -m bench NAME --peer tf``."""
