"""Pages as one text: data as JSON, with our own styles and scripts, and without external resources."""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"  # browsers refuse all loading
_VIEWS = {
    "graph": (
        '<div id="view" tabindex="0" role="application" aria-label="{label}"><svg><g></g></svg></div>',
        ("layout.js", "graph.js"),
    ),
    "trace": (
        '<div id="view" tabindex="0" role="application" aria-label="{label}"><canvas></canvas></div>',
        ("trace.js",),
    ),
}


def make_page(kind: str, title: str, summary: str, data: object) -> str:
    """Return the HTML page that shows `data`.

    Parameters
    ----------
    kind : {'graph', 'trace'}
        The script that draws the data.
    title, summary : str
        Plain text for the head of the page.
    data : JSON-compatible structure
        Input of the script.

    Returns
    -------
    str
        The same for equal arguments. Names in the data are never parsed as markup or as a script.

    Examples
    --------
    >>> page = make_page("graph", "a </script> graph", "", {"operations": [], "regions": []})
    >>> page.count("</script>"), "a &lt;/script&gt; graph" in page
    (2, True)
    """
    view, scripts = _VIEWS[kind]
    title, summary = html.escape(title), html.escape(summary)
    styles = _read_asset("page.css") + _read_asset(f"{kind}.css")
    script = "\n".join(_read_asset(name) for name in ("page.js", *scripts))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>
{styles}</style>
</head>
<body>
<header>
<h1>{title}</h1><span class="summary">{summary}</span>
<span class="search"><output aria-live="polite"></output>
<input id="search" type="search" placeholder="Search name or type" aria-label="Search operations" autocomplete="off">
</span>
</header>
<main>
{view.format(label=title)}
<aside aria-label="Details"></aside>
</main>
<div id="tip" hidden></div>
<noscript><p>JavaScript draws this page; it is in the file, and nothing is loaded.</p></noscript>
<script type="application/json" id="data">{embed_json(data)}</script>
<script>
{script}</script>
</body>
</html>
"""


def embed_json(data: object) -> str:
    """Return `data` as JSON for a script element, with all characters able to end the element escaped.

    Examples
    --------
    >>> embed_json(["</script>", "<!--"])
    '["\\\\u003c/script\\\\u003e","\\\\u003c!--"]'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII, so without U+2028 too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def make_frame(page: str, height: int) -> str:
    """Return an iframe with a page, for notebooks, which isolates the styles and names of both.

    Parameters
    ----------
    page : str
        HTML of `make_page`.
    height : int
        In CSS pixels.

    Returns
    -------
    str
        HTML. The page may run its scripts, but cannot reach the notebook.
    """
    # Without allow-same-origin the scripts of the page cannot reach the notebook.
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" style="width: 100%; height: {height}px; '
        'border: 1px solid rgba(128, 128, 128, 0.4); border-radius: 6px"></iframe>'
    )


@cache
def _read_asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
