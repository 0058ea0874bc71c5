"""Random durations of work, for simulated devices."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random

from ..base.errors import TagloomError


class Distribution(ABC):
    """Durations in seconds, drawn at random."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean, in seconds."""

    @abstractmethod
    def sample(self, random: Random) -> float:
        """Draw a duration in seconds."""


Time = float | Distribution


def draw_duration(time: Time, random: Random) -> float:
    """Draw a duration in seconds; a number is its own sample."""
    return time.sample(random) if isinstance(time, Distribution) else time


def mean_duration(time: Time) -> float:
    """Return the mean of a duration in seconds."""
    return time.mean if isinstance(time, Distribution) else time


@dataclass(frozen=True)
class Exponential(Distribution):
    """Durations with an exponential distribution.

    Parameters
    ----------
    average : float
        Their mean, in seconds.
    """

    average: float

    def __post_init__(self) -> None:
        _refuse_out_of_range("average", self.average)

    @property
    def mean(self) -> float:
        return self.average

    def sample(self, random: Random) -> float:
        return random.expovariate(1.0) * self.average


@dataclass(frozen=True)
class Lognormal(Distribution):
    """Durations with a normally distributed logarithm.

    Parameters
    ----------
    median : float
        In seconds.
    sigma : float
        Standard deviation of the logarithm: 0.1 is about a tenth.
    """

    median: float
    sigma: float

    def __post_init__(self) -> None:
        _refuse_out_of_range("median", self.median)
        _refuse_out_of_range("sigma", self.sigma)

    @property
    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def sample(self, random: Random) -> float:
        return self.median * math.exp(random.gauss(0.0, self.sigma))


@dataclass(frozen=True)
class Sum(Distribution):
    """The sum of independent durations.

    Parameters
    ----------
    parts : tuple of float or Distribution
    """

    parts: tuple[Time, ...]

    @property
    def mean(self) -> float:
        return sum(mean_duration(part) for part in self.parts)

    def sample(self, random: Random) -> float:
        return sum(draw_duration(part, random) for part in self.parts)


@dataclass(frozen=True)
class Mixture(Distribution):
    """Another duration with some probability: ``Mixture(1.0, 5.0, 0.02)`` is 1 s, and 5 s in 2 of 100 cases.

    Parameters
    ----------
    usual, other : float or Distribution
    probability : float
        Of the other.
    """

    usual: Time
    other: Time
    probability: float

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise TagloomError(
                "a probability is out of range", wanted="0 to 1", got=self.probability, hint="0.02 is 2 of 100"
            )

    @property
    def mean(self) -> float:
        return (1 - self.probability) * mean_duration(self.usual) + self.probability * mean_duration(self.other)

    def sample(self, random: Random) -> float:
        return draw_duration(self.other if random.random() < self.probability else self.usual, random)


def _refuse_out_of_range(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise TagloomError(
            f"{name} of a distribution is out of range", wanted="a number, 0 or more", got=value, hint="0 for none"
        )
