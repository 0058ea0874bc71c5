"""Small HTML tables and texts, in which notebooks show reports and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_CELL = "padding: 2px 10px 2px 0; vertical-align: top; font-variant-numeric: tabular-nums"


def make_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table, with numbers aligned right and all texts escaped.

    Examples
    --------
    >>> "<td" in make_table("loops", ["name", "runs"], [["a < b", 2]]), make_table("loops", ["name"], [])
    (True, '')
    """
    lines = [[_format_cell("td", value) for value in row] for row in rows]
    if not lines:
        return ""
    head = [_format_cell("th", text) for text in headings]
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in [head, *lines])
    title = f'<caption style="text-align: left; font-weight: 600">{_escape_text(caption)}</caption>'
    return f'<table style="border-collapse: collapse">\n{title}\n{body}\n</table>\n'


def make_text(text: str) -> str:
    """Return plain text as HTML with its lines preserved.

    Examples
    --------
    >>> make_text("a < b")
    '<pre style="white-space: pre-wrap">a &lt; b</pre>\\n'
    """
    return f'<pre style="white-space: pre-wrap">{_escape_text(text)}</pre>\n'


def _format_cell(tag: str, value: object) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = "" if value is None else f"{value:,.1f}" if isinstance(value, float) else str(value)
    if number and isinstance(value, int):
        text = f"{value:,}"
    return f'<{tag} style="{_CELL}; text-align: {"right" if number else "left"}">{_escape_text(text)}</{tag}>'


def _escape_text(text: str) -> str:
    import html  # with a table of 2,000 entities; every session loads the module here

    return html.escape(text)
