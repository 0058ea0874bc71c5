"""Counts of how the sources read: ``python -m tests.architecture.words`` prints a table of the packages.

With ``-v`` each finding is listed; with folders as arguments the sources in them are counted, such as those of an
installed library.
"""

import ast
import functools
import inspect
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.architecture.counts import branches, parse, walk
from tests.architecture.layers import ROOT

PRONOUNS = frozenset({"what", "that", "those", "one", "it"})
MANY = 0.25  # share of pronouns from which on a summary is a riddle
LONG = 8  # lines of a private function that wants a docstring
HARDEST = 40  # functions with the most branches
PEOPLE = r"(?:users?|callers?|readers?|people|persons?|someone|somebody|anyone|anybody|nobody|everyone|authors?)"
IDIOMS = {
    "behind": r"\bbehind\b",
    "in front of": r"\bin front of\b",
    "can not": r"\bcan not\b",
    "is to be had": r"\b(?:is|are|was|were) to be had\b",
    "at hand": r"\bat hand\b",
    "but for": r"\bbut for\b",
    "who, of an object": r"\bwhom?\b",
}
ABOUT_PEOPLE = re.compile(rf"\b{PEOPLE},? whom?\b", re.IGNORECASE)
OPENINGS = re.compile(r"(?:What|Those who|Whoever|Whether|Say|Says|Let|Lets|Have|Has)\b")
SECTION = re.compile(r"^\s*(Examples?|References)\n\s*-+\n", re.MULTILINE)
PRAGMA = re.compile(r"#\s*(?:noqa|type:|pragma|pylint|ruff|fmt|mypy|cython:|distutils|!|-\*-|%%)")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
CYTHON = (".pyx", ".pxd", ".pyi")
HEADER_BEGINS = re.compile(r"(?:async )?(?:def|cdef|cpdef|class|property)\b(?!.*\bextern\b)")
HEADER_ENDS = re.compile(r":\s*(?:#.*)?$")


@dataclass
class Counts:
    """Counts of one package; two are added field by field."""

    words: int = 0
    pronouns: int = 0
    summaries: int = 0
    riddles: list[str] = field(default_factory=list)
    openings: list[str] = field(default_factory=list)
    idioms: Counter = field(default_factory=Counter)
    functions: int = 0
    one_word: int = 0
    long_private: int = 0
    undocumented: list[str] = field(default_factory=list)
    lines: int = 0
    comment_lines: int = 0

    def __add__(self, other):
        return Counts(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def pronoun_share(self):
        return self.pronouns / max(1, self.words)

    def one_word_share(self):
        return self.one_word / max(1, self.functions)

    def comment_share(self):
        return self.comment_lines / max(1, self.lines)

    def documented_share(self):
        return 1 - len(self.undocumented) / max(1, self.long_private)


def prose_of(docstring):
    """Return a docstring without its examples, literal code and underlines."""
    text = SECTION.split(docstring, maxsplit=1)[0]
    text = re.sub(r"^\s*(>>>|\.\.\.).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"``[^`]*``|`[^`]*`|:\w+:", " ", text)


def find_idioms(text):
    """Return how often each idiom stands in a text."""
    text = re.sub(r"\s+", " ", ABOUT_PEOPLE.sub(" ", text))
    return Counter({name: len(re.findall(pattern, text, re.IGNORECASE)) for name, pattern in IDIOMS.items()})


def count_comment_lines(tree, text):
    """Return how many lines of a Python source have a comment that is no pragma."""
    strings = {}  # by line: the columns of the strings on it, counted in bytes
    for node in walk(tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)):
            for line in range(node.lineno, node.end_lineno + 1):
                first = node.col_offset if line == node.lineno else 0
                end = node.end_col_offset if line == node.end_lineno else sys.maxsize
                strings.setdefault(line, []).append((first, end))
    found = 0
    for number, line in enumerate(text.encode().split(b"\n"), 1):
        for mark in re.finditer(b"#", line):
            if not any(first <= mark.start() < end for first, end in strings.get(number, ())):
                found += PRAGMA.match(line[mark.start() :].decode()) is None
                break
    return found


def documented_nodes(tree):
    return [n for n in walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]


def cython_docstrings(text):
    """Yield line number and docstring of the definitions in a Cython source or a stub, and of the file."""
    lines = text.splitlines()
    depth, in_header, expected, i = 0, False, True, 0
    while i < len(lines):
        line = lines[i].strip()
        i += 1
        if expected and line.startswith('"""'):
            first, quoted = i, line[3:]
            while '"""' not in quoted:
                quoted += "\n" + lines[i]
                i += 1
            yield first, inspect.cleandoc(quoted.split('"""')[0])
            expected = False
        elif line and not line.startswith("#"):
            in_header = in_header or HEADER_BEGINS.match(line) is not None
            depth = depth + sum(map(line.count, "([{")) - sum(map(line.count, ")]}")) if in_header else 0
            expected = in_header and depth == 0 and HEADER_ENDS.search(line) is not None
            in_header = depth > 0  # else the line ends the header, or a declaration without a body


def count_docstring(docstring, where, counts):
    """Add the words of a docstring to the counts; `where` is the file and line."""
    if not docstring:
        return
    prose = prose_of(docstring)
    words = [word.lower() for word in WORD.findall(prose)]
    counts.words += len(words)
    counts.pronouns += sum(word in PRONOUNS for word in words)
    counts.idioms += find_idioms(prose)
    summary = prose.strip().split("\n\n")[0]
    of_summary = [word.lower() for word in WORD.findall(summary)]
    counts.summaries += 1
    place = f"{where}: {' '.join(summary.split())}"
    if of_summary and sum(word in PRONOUNS for word in of_summary) >= MANY * len(of_summary):
        counts.riddles.append(place)
    if OPENINGS.match(summary):
        counts.openings.append(place)


def is_overload(function):
    return any("overload" in ast.unparse(decorator) for decorator in function.decorator_list)


def count_function(function, where, counts):
    """Add a function's name, and its docstring if it is long and private, to the counts."""
    if function.name.startswith("__") or is_overload(function):
        return
    counts.functions += 1
    counts.one_word += "_" not in function.name.strip("_")
    if function.name.startswith("_") and function.end_lineno - function.lineno + 1 > LONG:
        counts.long_private += 1
        if not ast.get_docstring(function):
            counts.undocumented.append(f"{where}:{function.lineno}: {function.name}")


@functools.cache
def count_file(path, root=ROOT):
    """Return the counts of one Python file."""
    text = path.read_text()
    tree, where = parse(path), path.relative_to(root)
    counts = Counts(lines=len(text.splitlines()), comment_lines=count_comment_lines(tree, text))
    for node in documented_nodes(tree):
        count_docstring(ast.get_docstring(node), f"{where}:{getattr(node, 'lineno', 1)}", counts)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count_function(node, where, counts)
    return counts


def count_cython_file(path):
    """Return the counts of the docstrings of a Cython source or a stub; its functions and lines are not counted."""
    counts = Counts()
    for line, docstring in cython_docstrings(path.read_text()):
        count_docstring(docstring, f"{path.relative_to(ROOT)}:{line}", counts)
    return counts


def package_of(path):
    """Return the package that a file of the project is counted under, such as ``runtime`` or ``kernels``."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "engine" and len(parts) > 2 else parts[0]


def sources(folders=("engine", "kernels", "streams", "swap"), suffixes=(".py",)):
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.*"))]
    return [path for path in files if path.suffix in suffixes]


def counts_by_package():
    """Return the counts of each package of the project."""
    found = {}
    for path in sources():
        found[package_of(path)] = found.get(package_of(path), Counts()) + count_file(path)
    return dict(sorted(found.items()))


def cython_counts():
    """Return the counts of the docstrings of each package's Cython sources and stubs."""
    found = {}
    for path in sources(suffixes=CYTHON):
        name = f"{package_of(path)} (cy)"
        found[name] = found.get(name, Counts()) + count_cython_file(path)
    return found


def idioms_in_documents():
    """Return the idioms in README, ARCHITECTURE, CONTRIBUTING, CHANGELOG and docs/, by file; code apart."""
    found = {}
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        idioms = +find_idioms(re.sub(r"`[^`\n]*`", " ", text))
        if idioms:
            found[str(path.relative_to(ROOT))] = idioms
    return found


def hardest_functions():
    """Return (branches, file, name) of the functions of engine/ that branch most."""
    found = []
    for path in sources(("engine",)):
        for node in documented_nodes(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((branches(node), path.relative_to(ROOT), node.name))
    return sorted(found, key=lambda row: (-row[0], str(row[1]), row[2]))[:HARDEST]


def comment_share_of_the_hardest():
    """Return the share of comment lines in the files of the functions that branch most."""
    files = {where for _, where, _ in hardest_functions()}
    return sum((count_file(ROOT / where) for where in files), Counts()).comment_share()


HEADER = f"{'package':14}{'words':>8}{'pronouns':>10}{'riddles':>9}{'openings':>10}{'idioms':>8}"
HEADER += f"{'one word':>10}{'undocumented':>14}{'documented':>12}{'comments':>10}"


def row(name, counts):
    """Return a line of the table."""
    return (
        f"{name:14}{counts.words:8}{counts.pronoun_share():10.2%}{len(counts.riddles):9}{len(counts.openings):10}"
        f"{counts.idioms.total():8}{counts.one_word_share():10.1%}{len(counts.undocumented):14}"
        f"{counts.documented_share():12.1%}{counts.comment_share():10.2%}"
    )


def print_project(verbose):
    """Print the table of the project's packages, and the idioms of its documents."""
    packages = counts_by_package()
    print(HEADER)
    for name, counts in packages.items():
        print(row(name, counts))
    print(row("all", sum(packages.values(), Counts())))
    cython = cython_counts()
    for name, counts in cython.items():
        print(row(name, counts))
    print(f"comments in the files of the {HARDEST} hardest functions: {comment_share_of_the_hardest():.2%}")
    documents = idioms_in_documents()
    print(f"idioms in documents: {dict(sum(documents.values(), Counter()))}")
    if not verbose:
        return
    print(*(f"    {name}: {dict(idioms)}" for name, idioms in documents.items()), sep="\n")
    for name, counts in (packages | cython).items():
        print(f"{name}: {dict(+counts.idioms)}")
        for listed in ("riddles", "openings", "undocumented"):
            print(*(f"    {listed}: {place}" for place in getattr(counts, listed)), sep="\n")
    print(*(f"    {n} branches: {where}: {name}" for n, where, name in hardest_functions()), sep="\n")


def main():
    verbose, folders = "-v" in sys.argv, [Path(a) for a in sys.argv[1:] if a != "-v"]
    if not folders:
        print_project(verbose)
        return
    print(HEADER)
    for folder in folders:
        files = [path for path in sorted(folder.rglob("*.py")) if "tests" not in path.parts]
        print(row(folder.name, sum((count_file(path, folder) for path in files), Counts())))


if __name__ == "__main__":
    main()
