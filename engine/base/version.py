"""Which tagloom this is."""

VERSION = "0.1.0"
