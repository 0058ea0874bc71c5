"""The numbered rules of the semantics, and where those go that no test here can check yet."""

FIRST, LAST = 1, 146

TO_COME = range(126, 132)  # they have no line in docs/semantics.md yet

LATER = {
    48: "queues: closing a session cancels operations that wait in one",
    **dict.fromkeys(range(126, 132), "queues"),
}


def coverage(items):
    """Return rule -> ids of the collected tests that are marked with it."""
    covered = {}
    for item in items:
        for mark in item.iter_markers("rule"):
            for number in mark.args:
                covered.setdefault(number, []).append(item.nodeid.split("[")[0])
    return {number: sorted(set(ids)) for number, ids in covered.items()}


def report(covered):
    """Return the lines to print, and the rules that are neither covered nor listed for later."""
    lines, holes = [], []
    for number in range(FIRST, LAST + 1):
        tests, later = covered.get(number, []), LATER.get(number)
        lines += [f"{number:4}  {test}" for test in tests]
        if not tests and later:
            lines.append(f"{number:4}  later, in {later}")
        elif not tests:
            holes.append(number)
            lines.append(f"{number:4}  NOT COVERED")
    return lines, holes
