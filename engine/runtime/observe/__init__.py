"""Traces, watches, statistics, and the socket that serves them."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "latency": "Latency",
    "statistics": "Statistics",
    "trace": "Span Trace",
    "watch": "Watch",
}
