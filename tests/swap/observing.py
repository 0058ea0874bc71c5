"""What tests see of steps that swap."""

from contextlib import contextmanager
from unittest import mock

from tagloom.swap import swapper as swapping


@contextmanager
def watched():
    """Give a list to which the StepSwapper of each share of each step is added as it begins."""
    found = []

    def make(*args):
        found.append(swapping_step(*args))
        return found[-1]

    swapping_step = swapping.StepSwapper
    with mock.patch.object(swapping, "StepSwapper", make):
        yield found


def bytes_in_tiers(session):
    """Return how many bytes the tiers of a session hold; none if it has no tiers yet."""
    tiers = session._steps.environment.swapping._tiers
    return 0 if tiers is None else sum(live for live, _ in tiers.bytes_by_tier.values())
