"""One execution of a plan."""

from .state import StepState

class StepMachine(StepState):
    """One execution of a compiled plan; see `StepState` for what it is made of."""

    def drain(self, seconds: float) -> bool:
        """Run ready instances until there are none, or for about `seconds`; return whether more are ready."""

    def expect(self, descriptor: int) -> bool:
        """Have a descriptor written to when a worker has done its work; False if it is time to drain instead."""
