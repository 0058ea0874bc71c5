"""Which strings a function mentions: the types of the operations it builds are among them."""

import inspect

from tagloom.ir.indexing import slice_tensor


def strings(function):
    """Return the strings that a function, or a helper in its module, mentions or closes over."""
    seen, waiting, found = set(), [function], set()
    while waiting:
        current = inspect.unwrap(waiting.pop())  # the function itself, not what marks it as public
        if current in seen:
            continue
        seen.add(current)
        found |= {c.cell_contents for c in current.__closure__ or () if isinstance(c.cell_contents, str)}
        for code in codes(current.__code__):
            found |= {c for c in code.co_consts if isinstance(c, str)}
            waiting += helpers(current, code)
    return found


def codes(code):
    yield code
    for inner in code.co_consts:
        if inspect.iscode(inner):
            yield from codes(inner)


def helpers(function, code):
    known = [function.__globals__.get(name) for name in code.co_names]
    classes = [c for c in known if inspect.isclass(c) and c.__module__ == function.__module__]
    known += [f for c in classes for f in vars(c).values()]
    return [f for f in known if inspect.isfunction(f) and (f.__module__ == function.__module__ or f is slice_tensor)]
