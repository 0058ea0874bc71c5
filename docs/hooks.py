"""What the site of the documents needs beyond its configuration, ``mkdocs.yml``.

The pages are written to be read on GitHub too, so their links lead through the repository: `on_files` adds what stands
outside of ``docs/`` and is linked to, and `on_page_markdown` says where everything stands on the site.
"""

import inspect
import pkgutil
import posixpath
import re
from pathlib import Path

import griffe
import tagloom
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url
from tagloom import swap

ROOT = Path(__file__).parents[1]
SHIM = "https://unpkg.com/iframe-worker/shim"  # which the theme loads for pages that are opened as files
WORKER = "javascripts/search_worker.js"  # does the same without a network
BESIDE = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "examples/*.py",
]  # pages and files outside of docs/


def on_config(config):
    """Let an entry of the navigation stand for all pages that it matches, as ``design/*.md``."""
    config.nav = _pages(config.nav, Path(config.docs_dir))
    return config


def _pages(entry, docs):
    if isinstance(entry, str):
        return (
            sorted(str(p.relative_to(docs)) for p in docs.glob(entry))
            if "*" in entry
            else [entry]
        )
    if isinstance(entry, list):
        return [page for part in entry for page in _pages(part, docs)]
    return [
        {
            title: part if isinstance(part, str) else _pages(part, docs)
            for title, part in entry.items()
        }
    ]


def on_files(files, config):
    """Add what the documents link to outside of their folder."""
    for path in (p for pattern in BESIDE for p in ROOT.glob(pattern)):
        files.append(
            File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path))
        )
    return files


def on_page_markdown(markdown, page, config, files):
    """Turn links through the repository into links through the site; one to a folder leads to its first page."""
    here = Path(page.file.abs_src_path).relative_to(ROOT).parent.as_posix()

    def moved(link):
        path, mark, fragment = link[2].partition("#")
        target = posixpath.normpath(posixpath.join(here, path)).removeprefix("docs/")
        found = next(
            (
                uri
                for uri in sorted(files.src_uris)
                if uri == target or uri.startswith(f"{target}/")
            ),
            None,
        )
        if not path or found is None:
            return link[0]
        return (
            link[1]
            + posixpath.relpath(found, posixpath.dirname(page.file.src_uri) or ".")
            + mark
            + fragment
        )

    return re.sub(r"(\]\()([^)\s]+)", moved, markdown)


def on_post_page(output, page, config):
    """Load the script for search in pages opened as files from the site itself."""
    return output.replace(SHIM, get_relative_url(WORKER, page.url))


def on_post_template(output_content, template_name, config):
    """Do the same for the page of what is not found, which a server sends with addresses from its root."""
    return output_content.replace(SHIM, f"/{WORKER}")


class Docstrings(griffe.Extension):
    """What Griffe does not know of the package and its docstrings."""

    def on_package(self, *, pkg, loader, **_):
        """Let the public names be what they stand for; one of them, ``gradients``, is a package as well."""
        self._add_swap(pkg, loader)
        found = {
            name: pkg[name]
            for name in dir(tagloom)
            if not inspect.ismodule(getattr(tagloom, name))
        }
        found = {
            name: member[name] if member.is_module else member
            for name, member in found.items()
        }
        for name, member in {
            n: m.final_target for n, m in found.items() if m.is_alias
        }.items():
            if member.name == name:
                pkg[name] = member

    def _add_swap(self, pkg, loader):
        """Add the modules of a folder beside ``engine/``, which Griffe does not look into from there."""
        known = {
            "modules_collection": loader.modules_collection,
            "lines_collection": loader.lines_collection,
        }
        pkg["swap"] = griffe.inspect(
            "swap", filepath=Path(swap.__file__), parent=pkg, **known
        )
        for module in pkgutil.iter_modules(swap.__path__):
            pkg["swap"][module.name] = griffe.inspect(
                module.name, parent=pkg["swap"], **known
            )

    def on_function_instance(self, *, node, func, **_):
        """Mark what is to be awaited, methods too; cut long defaults short."""
        if inspect.iscoroutinefunction(node.obj):
            func.labels.add("async")
        for parameter in func.parameters:
            parameter.default = parameter.default and _shortened(parameter.default)

    def on_object(self, *, obj, **_):
        """Make Markdown of reStructuredText: of roles, as ``:func:`gradients` ``, and of two colons before a block."""
        if obj.docstring is None:
            return
        text = re.sub(
            r":(?:func|meth|class):`([\w.]+)`",
            lambda role: _link(role[1], obj),
            obj.docstring.value,
        )
        text = re.sub("::$", ":", text, flags=re.M)
        obj.docstring.value = re.sub(
            r"^(\*{0,2}\w[\w, *]* : )(.+)$", _as_written, text, flags=re.M
        )


def _shortened(default):
    """Leave out what a default is made of where that is long, or no Python, as the factory of a field."""
    kind, made_of, _ = default.partition("(")
    return (
        "..."
        if default.startswith("<")
        else f"{kind}(...)"
        if made_of and len(default) > 40
        else default
    )


def _as_written(line):
    """Keep a type from being read as Python, where "array-like" is a difference and "int, str or None" a tuple."""
    name, kind = line.groups()
    return (
        f"{name}\N{ZERO WIDTH SPACE}{kind}"
        if re.search("[-,'{]", kind.removesuffix(", optional"))
        else line[0]
    )


def _link(name, obj):
    """Return a reference to a public name, or to a member of the public class that `obj` is or belongs to."""
    owner = obj if obj.is_class else obj.parent
    full = f"{owner.name}.{name}" if owner.is_class and name in owner.members else name
    return (
        f"[`{name}`][tagloom.{full}]"
        if full.partition(".")[0] in dir(tagloom)
        else f"`{name}`"
    )
