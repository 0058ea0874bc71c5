"""Random programs of variable scopes, run in two libraries that are built alike."""

from contextlib import ExitStack

NAMES = ("a", "b", "w")


def program(random, depth=3):
    """Return a list of statements, some of which hold such lists."""
    return [statement(random, depth) for _ in range(int(random.integers(1, 5)))]


def statement(random, depth):
    """Return what to do, and with what."""
    name = str(random.choice(NAMES))
    kind = random.choice(["scope", "get", "get", "variable", "reuse", "name_scope"], p=[0.4, 0.2, 0.2, 0.1, 0.02, 0.08])
    if depth == 0 and kind in ("scope", "name_scope"):
        kind = "get"
    if kind == "get":
        return "get", name, [int(random.choice([2, 2, 2, 3]))], str(random.choice(["float32", "float32", "int32"]))
    if kind == "name_scope":
        return "name_scope", name, program(random, depth - 1)
    if kind == "scope":
        how = str(random.choice(["name", "default", "again"]))
        return "scope", how, name, int(random.integers(0, 8)), options(random), program(random, depth - 1)
    return str(kind), name


def options(random):
    """Return how a scope is entered."""
    reuse = random.choice(["none", "no", "yes", "auto"], p=[0.5, 0.1, 0.15, 0.25])
    return {"reuse": str(reuse), "auxiliary_name_scope": bool(random.random() < 0.85)}


def run(library, scopes, statements):
    """Run a program in the open graph.

    Parameters
    ----------
    library : module
        ``tagloom`` or ``tensorflow.compat.v1``.
    scopes : module
        Where it has its variable scopes.
    statements : list

    Returns
    -------
    list
        The names of all scopes and variables, and what was refused, in order.
    """
    told, entered = [], []
    reuses = {"none": None, "no": False, "yes": True, "auto": scopes.AUTO_REUSE}

    def follow(inner):
        for each in inner:
            do(*each)

    def do(kind, *rest):
        if kind == "scope":
            enter(*rest)
        elif kind == "name_scope":
            with library.name_scope(rest[0]):
                follow(rest[1])
        elif kind == "reuse":
            scopes.get_variable_scope().reuse_variables()
        elif kind == "get":
            told.append(attempt(lambda: scopes.get_variable(*rest)))
        else:
            told.append(attempt(lambda: library.Variable(1.0, name=rest[0])))

    def enter(how, name, index, given, inner):
        where = {"name": name, "default": None}.get(how, entered[index % len(entered)] if entered else name)
        keywords = {**given, "reuse": reuses[given["reuse"]], "default_name": name}
        with ExitStack() as stack:
            try:
                scope = stack.enter_context(scopes.variable_scope(where, **keywords))
            except Exception:
                told.append("no scope")
                return
            entered.append(scope)
            told.append((scope.name, scope.original_name_scope, str(scope.reuse).rpartition(".")[2]))
            follow(inner)

    def attempt(make):
        try:
            return make().name.removesuffix(":0")
        except Exception as error:
            return "refused: " + ("exists" if "exists" in str(error) else "missing" if is_missing(error) else "other")

    follow(statements)
    return told


def is_missing(error):
    """Whether an error says that there is no such variable."""
    return "does not exist" in str(error) or "there is no variable" in str(error)
