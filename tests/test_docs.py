"""What the documents say is so: their examples run, the files and names they mention exist."""

import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import httpx
import pytest
import tagloom as tg
from tagloom import data, losses, metrics, monitoring, nest, nn, operations, streams, swap, testing, training
from tagloom.compat import tf1
from tagloom.compile import PIPELINE
from tagloom.ir.definition import _REGISTRY, all_definitions

from tests.architecture.layers import LAYERS, sources
from tests.support.cases import each

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NAMES = {str(p.relative_to(ROOT)): p.read_text() for p in sorted(PAGES)}


def blocks(text):
    """Return the Python blocks of a page, with the line each starts at."""
    found = re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in found]


def example(name, line, code):
    marks = [pytest.mark.gpu] if "gpu:0" in code else []
    for framework in ("fastapi", "quart"):
        if f"from {framework} import" in code and importlib.util.find_spec(framework) is None:
            marks.append(pytest.mark.skip(reason=f"needs {framework}"))
    return pytest.param(name, line, code, id=f"{name}-{line}", marks=marks)


CONTINUED = "docs/start.md"  # its blocks are one program
EXAMPLES = [
    example(name, line, code) for name, text in NAMES.items() if name != CONTINUED for line, code in blocks(text)
]


def run(name, line, code):
    """Execute a block as a module of its own, its lines numbered as in its page."""
    namespace = {"__name__": "example"}
    try:
        exec(compile("\n" * (line - 1) + code, ROOT / name, "exec"), namespace)
    finally:
        forget_operations(namespace["__name__"])
    return namespace


def forget_operations(module):
    """Take back what a module has defined, which other tests would take for operations of tagloom."""
    for definition in all_definitions():
        if definition.shape.__module__ == module:
            del _REGISTRY[definition.type]


@pytest.mark.usefixtures("fast_paths")
@pytest.mark.parametrize(("name", "line", "code"), EXAMPLES)
def test_example_runs(name, line, code):
    run(name, line, code)


@pytest.mark.usefixtures("fast_paths")
def test_the_start_page_prints_what_its_comments_show(capsys):
    program, shown = "", []
    for line, code in blocks(NAMES[CONTINUED]):
        program += "\n" * (line - 1 - program.count("\n")) + code
        shown += re.findall(r"^ *print\(.*\)  # ([^,\n]+?)(?:,.*| \.\.\.)?$", code, re.M)
    run(CONTINUED, 1, program)
    printed = capsys.readouterr().out.splitlines()
    assert len(shown) > 6
    assert printed[: len(shown)] == shown


async def test_web_handler_of_the_readme_answers_with_the_gradient():
    (example,) = [p.values for p in EXAMPLES if "Starlette" in p.values[2]]
    app = run(*example)["app"]
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        answers = [(await client.get("/settle", params={"x": x})).json() for x in (0.5 - 1e-5, 0.5, 0.5 + 1e-5)]
        refused = [await client.get("/settle" + query) for query in ("", "?x=abc", "?x=nan", "?x=1e999")]
    low, middle, high = answers
    assert [(r.status_code, list(r.json())) for r in refused] == [(400, ["error"])] * 4
    assert 10 < middle["trips"] < 1000
    assert middle["dy/dx"] == pytest.approx((high["y"] - low["y"]) / 2e-5, rel=1e-3)


def test_every_page_with_code_is_tried():
    assert {p.values[0] for p in EXAMPLES} >= {"README.md", "docs/errors.md"}


@each("name", NAMES)
def test_paths_and_links_lead_somewhere(name):
    text = NAMES[name]
    paths = re.findall(r"`((?:engine|kernels|tests|bench|examples|docs|\.ci)/[\w./]*)`", text)
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    assert [p for p in paths if not (ROOT / p).exists()] == []
    assert [p for p in links if not ((ROOT / name).parent / p).exists()] == []


@each("name", NAMES)
def test_names_exist(name):
    assert [n for n in re.findall(r"`tg\.(\w+)", NAMES[name]) if not hasattr(tg, n)] == []


@each("name", sorted(name for name in NAMES if name.startswith(("docs/", "README")) and "design" not in name))
def test_blocks_of_code_are_not_cut_off(name):
    inside = re.findall(r"^```(?:python|text)\n(.*?)^```", NAMES[name], re.M | re.S)
    assert [line for block in inside for line in block.splitlines() if len(line) > 88] == []


def test_documents_named_in_sources_are_there():
    named = {
        (link, str(path.relative_to(ROOT)))
        for path, _ in sources()
        for link in re.findall(r"docs/[\w/.-]+\.md", path.read_text())
    }
    assert [pair for pair in sorted(named) if not (ROOT / pair[0]).exists()] == []


def test_the_front_page_leads_to_every_page():
    """Directly, but for the design notes, of which it names the first."""
    links = set(re.findall(r"\]\(([\w./-]+\.md)\)", NAMES["docs/index.md"]))
    pages = {name.removeprefix("docs/") for name in NAMES if name.startswith("docs/")} - {"index.md"}
    assert {page for page in pages if not page.startswith("design/")} - links == set()


def test_every_error_is_in_the_index():
    classes = {n for n in tg.__all__ if isinstance(getattr(tg, n), type) and issubclass(getattr(tg, n), Exception)}
    assert {n for n in classes if f"`{n}`" not in NAMES["docs/errors.md"]} == set()


def test_every_rule_has_its_line():
    from tests.support.rules import FIRST, LAST

    numbers = [int(n) for n in re.findall(r"^(\d+)\. ", NAMES["docs/semantics.md"], re.M)]
    assert numbers == list(range(FIRST, LAST + 1))


MODULES = {m.name for m in pkgutil.walk_packages(tg.__path__, "tagloom.") if ".kernels" not in m.name}
for package in (streams, swap):
    MODULES |= {m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")}


@pytest.mark.usefixtures("fast_paths")
@pytest.mark.parametrize("name", sorted(MODULES))
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_examples_of_the_public_names_are_among_them():
    public = [getattr(tg, name) for name in dir(tg)] + [
        getattr(m, name)
        for m in (data, losses, metrics, monitoring, nest, nn, testing, tf1, training)
        for name in m.__all__
    ]
    assert {value.__module__ for value in public if callable(value)} <= MODULES


def test_each_public_name_is_on_one_page_of_the_api():
    pages = [text for name, text in NAMES.items() if name.startswith("docs/api/")]
    named = [name for text in pages for name in re.findall(r"^(?:::: |\| `)tagloom\.([\w.]+)", text, re.M)]
    public = {name for name in dir(tg) if not isinstance(getattr(tg, name), ModuleType)} - {"__version__"}
    public |= {
        f"{m.__name__.partition('.')[2]}.{name}"
        for m in (data, losses, metrics, monitoring, nest, nn, testing, tf1, training, operations)
        for name in m.__all__
    }
    assert sorted(named) == sorted(public)


def test_every_page_is_in_the_navigation():
    entries = re.findall(r"^ +- (?:[^:]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md")]
    assert [p for p in pages if not any(p.match(entry) for entry in entries)] == []
    assert [e for e in entries if "*" not in e and not any((ROOT / top / e).exists() for top in ("docs", ""))] == []


def test_the_pipeline_names_every_row_in_order():
    text = NAMES["ARCHITECTURE.md"]
    rows = re.findall(r"^\| `(\w+)` \| `([\w/]+\.py)`", text, re.M)
    assert [name for name, _ in rows] == [row.name for row in PIPELINE]
    assert all((ROOT / "engine" / path).exists() for _, path in rows)
    numbers = [int(n) for n in re.findall(r"^(\d+)\. \*\*", text, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_folder_stands_in_the_table_of_layers():
    rows = re.findall(r"^\| (\d+) \| `([\w/.]+)`", NAMES["ARCHITECTURE.md"], re.M)
    tops = ("engine", "engine/compile", "kernels")
    folders = [p for top in tops for p in (ROOT / top).iterdir() if any(p.glob("*.py")) and not p.is_symlink()]
    folders = [str(p.relative_to(ROOT)) for p in [*folders, ROOT / "streams", ROOT / "swap"]]
    assert sorted(folders) == sorted(place for _, place in rows if not place.endswith(".py"))
    for layer, place in rows:
        name = re.sub(r"^engine/?", "tagloom.", place).removesuffix(".py").removesuffix("__init__").rstrip(".")
        if place.startswith(("kernels/", "streams", "swap")):
            name = f"tagloom.{place}".removesuffix(".py")
        name = name.replace("/", ".")
        assert LAYERS[name] == int(layer), place
