"""Step machine: an execution of a compiled plan."""

from .state import StepState

class StepMachine(StepState):
    """An execution of a compiled plan; see `StepState` for the parameters."""

    def drain(self, seconds: float) -> bool:
        """Run ready instances until there are none, or for about `seconds`; return whether more are ready."""

    def expect(self, descriptor: int) -> bool:
        """Ask workers to write to a descriptor when they have done some work; return False if some is done already."""
