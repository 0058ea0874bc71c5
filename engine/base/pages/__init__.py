"""Self-contained HTML pages: one file that shows a graph or a trace without a network.

See docs/design/0044-pages.md.
"""
