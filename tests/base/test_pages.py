"""Pages: whole in themselves, and nothing that they show is read as markup."""

import html
import json
import re
import shutil
import subprocess

import pytest
from tagloom.base.pages import page as pages
from tagloom.base.pages.page import embed_json, make_frame, make_page
from tagloom.base.pages.tables import make_table, make_text

from tests.architecture.layers import ROOT
from tests.support.pages import Elements, data_of

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "<img src=x onerror=alert(1)>",
    "&lt;",
    "]]>",
    "\u2028",
    "'\"`${1}",
]
EMPTY = {"graph": {"operations": [], "regions": []}, "trace": {"spans": []}}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_page_is_whole_and_loads_nothing(kind):
    page = make_page(kind, "title", "summary", EMPTY[kind])
    assert data_of(page) == EMPTY[kind]
    assert page == make_page(kind, "title", "summary", EMPTY[kind])
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", EMPTY)
def test_no_text_becomes_markup(kind, text):
    page = make_page(kind, text, text, {text: [text]})
    plain = make_page(kind, "title", "summary", {})
    assert data_of(page) == {text: [text]}
    assert [tag for tag, _ in Elements(page).tags] == [tag for tag, _ in Elements(plain).tags]
    assert html.unescape(re.search("<title>(.*?)</title>", page, re.S)[1]) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_json_in_a_page_says_the_same(text):
    found = embed_json([text])
    assert json.loads(found) == [text]
    assert not set("<>&\u2028") & set(found)


def test_data_that_json_does_not_know_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed_json([float("nan")])


def test_a_frame_holds_a_page_that_reaches_nothing_around_it():
    page = make_page("graph", "title", "", EMPTY["graph"])
    ((tag, attributes),) = Elements(make_frame(page, 300)).tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == page
    assert attributes["sandbox"] == "allow-scripts"
    assert "height: 300px" in attributes["style"]


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_and_texts_are_escaped(text):
    table = make_table(text, [text], [[text], [3], [None]])
    assert [tag for tag, _ in Elements(table).tags] == [
        "table",
        "caption",
        "tr",
        "th",
        "tr",
        "td",
        "tr",
        "td",
        "tr",
        "td",
    ]
    assert html.escape(text) in table
    assert make_text(text) == f'<pre style="white-space: pre-wrap">{html.escape(text)}</pre>\n'


def test_numbers_in_tables_can_be_read():
    table = make_table("", ["n"], [[1234567], [0.25], [True]])
    assert [">1,234,567<" in table, ">0.2<" in table, ">True<" in table] == [True] * 3


def test_scripts_stand_where_the_package_is_installed_from():
    patterns = re.search(r'^"\*" = (\[.*\])$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    suffixes = {p.suffix for p in pages._FOLDER.iterdir() if p.is_file()} - {".py"}
    assert suffixes == {".css", ".js"} <= {s.removeprefix("*") for s in json.loads(patterns)}


LAYOUTS = {
    "none": ([], []),
    "one": ([[30, 20]], []),
    "chain": ([[30, 20]] * 4, [[0, 1], [1, 2], [2, 3], [0, 3]]),
    "diamond": ([[30, 20], [200, 20], [30, 90], [30, 20]], [[0, 1], [0, 2], [1, 3], [2, 3], [0, 3], [0, 3]]),
    "apart": ([[30, 20]] * 6, [[0, 1], [2, 3]]),
    "cycle": ([[30, 20]] * 3, [[0, 1], [1, 2], [2, 0], [1, 1]]),
    "many": (
        [[30 + k % 7 * 10, 20] for k in range(400)],
        [[k * 7919 % (i + 1), i + 1] for i in range(399) for k in (1, 2)],
    ),
}


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node that runs the script of the layout")
@pytest.mark.parametrize("name", LAYOUTS)
def test_boxes_do_not_overlap_and_links_point_down(name):
    sizes, links = LAYOUTS[name]
    script = (ROOT / "engine/base/pages/layout.js").read_text()
    script += f"\nconsole.log(JSON.stringify(layOut({json.dumps(sizes)}, {json.dumps(links)})));"
    found = json.loads(subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True).stdout)
    boxes = [(x, y, x + w, y + h) for x, y, (w, h) in zip(found["left"], found["top"], sizes, strict=True)]
    assert all(x >= -1e-6 and right <= found["width"] + 1e-6 for x, _, right, _ in boxes)
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]
    up = [link for link in links if boxes[link[0]][3] > boxes[link[1]][1] and link[0] != link[1]]
    assert len(up) == (name == "cycle")
    assert len(found["ways"]) == len(links)
