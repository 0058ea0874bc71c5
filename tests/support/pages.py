"""Pages taken apart: the data in them, and the proof that they load nothing."""

import json
import re
from html.parser import HTMLParser

LOADING = {"src", "href", "srcset", "action", "data", "poster", "background", "formaction", "xlink:href"}


class Elements(HTMLParser):
    """The start tags of a page, and the texts of its scripts, as a browser separates them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "script"

    def handle_data(self, text):
        if self.inside:
            self.scripts[-1] += text


def data_of(page):
    """Return the data of a page, after a check that the page is whole and loads nothing."""
    elements = Elements(page)
    assert [tag for tag, _ in elements.tags if tag in ("link", "iframe", "img", "object", "embed", "base")] == []
    assert [name for _, attributes in elements.tags for name in attributes if name in LOADING] == []
    assert [name for _, attributes in elements.tags for name in attributes if name.startswith("on")] == []
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch\(|XMLHttp|WebSocket|import\(", without_data(page))
    assert "default-src 'none'" in page
    data, script = elements.scripts
    assert script.strip()
    assert page.rstrip().endswith("</html>")
    return json.loads(data)


def without_data(page):
    """Return a page without its data and comments of scripts."""
    page = re.sub(r'(id="data">).*?(</script>)', r"\1\2", page, flags=re.S)
    return re.sub(r"^\s*(//|/?\*).*$|\s// .*$", "", page, flags=re.M)
