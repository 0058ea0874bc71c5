"""Where the machines of a step meet: what one sends another takes, in the same iteration of the same frame."""

class Rendezvous:
    """Where the machines of a step meet, over channels numbered from 0."""

    def __init__(self, num_channels: int) -> None: ...
    @property
    def id_collision(self) -> bool:
        """Whether two frames were met that have one id: an internal error."""

    @property
    def waiting(self) -> int:
        """How many ends of channels wait for the other."""

    def traffic(self) -> list[dict[str, int]]:
        """Return what went over each channel."""
