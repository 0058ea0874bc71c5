"""The error of benches."""


class BenchError(Exception):
    """The experiment can not be run as asked, or its engines disagree."""
