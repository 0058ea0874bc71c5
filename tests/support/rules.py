"""The numbered rules of the semantics, and where those go that no test here can check yet."""

FIRST, LAST = 1, 150

LATER: dict[int, str] = {}  # what a rule waits for that no test can check yet


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
