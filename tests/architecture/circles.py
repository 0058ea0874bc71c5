"""Who imports whom at run time, among modules and among packages, and the circles in that."""

from tests.architecture.layers import imports, sources


def module_graph():
    """Return module -> modules it imports as it is imported; a .pyx and its .pxd are one module."""
    found = [(module, imports(path.read_text(), module, path.suffix, at_run_time=True)) for path, module in sources()]
    modules = {module for module, _ in found}
    graph = {module: set() for module in modules}
    for module, names in found:
        graph[module] |= {owner for name in names if (owner := owner_of(name, modules)) not in (None, module)}
    return graph


def owner_of(name, modules):
    """Return the module that a full name is, or is in; a package is its ``__init__``. None if it is not ours."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        for module in (".".join(parts[:end]), ".".join([*parts[:end], "__init__"])):
            if module in modules:
                return module
    return None


def package_graph(graph):
    """Return package -> packages that its modules import; the face of a package, its ``__init__``, apart.

    A module beside the packages of ``tagloom`` is a package of its own.
    """
    found = {}
    for module, targets in graph.items():
        found.setdefault(_package(module), set()).update(_package(target) for target in targets)
    return {package: targets - {package} for package, targets in found.items()}


def _package(module):
    package = module.rpartition(".")[0]
    return module if package == "tagloom" or module.endswith(".__init__") else package


def circles(graph):
    """Return the groups of nodes that import each other, however far round (Tarjan)."""
    number, lowest, path, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        path.append(node)
        for target in graph.get(node, ()):
            if target not in number:
                visit(target)
            if target in path:
                lowest[node] = min(lowest[node], lowest[target])
        if lowest[node] == number[node]:
            group = path[path.index(node) :]
            del path[path.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found
