"""Version of tagloom."""

VERSION = "0.1.0"
