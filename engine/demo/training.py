"""The job from text to text: build the graph, train, evaluate on held-out text, write."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import tagloom as tg
from tagloom.training import AdamOptimizer

from .model import CharacterModel, initial_weights
from .options import Options
from .plot import plot_losses, require_matplotlib
from .storage import load_weights, save_weights
from .text import Alphabet, cut_epochs, cut_windows, load_text, split_held_out

if TYPE_CHECKING:
    from .progress import Meter

Array = np.ndarray[Any, Any]

_LARGEST_NORM = 1.0  # global norm to which gradients are clipped
_JUDGING_LENGTH = 64  # characters of each stream in a step on held-out text
_PROMPT = "\n\nThe "
_SHORTEST, _LONGEST = 500, 1000  # characters of the written text


@dataclass(frozen=True)
class Result:
    """Result of a run of the demo.

    Attributes
    ----------
    before, after : float
        Loss on held-out text, in nats per character.
    losses : list of float
        Training loss of each step.
    text : str
        Text written by the model.
    """

    before: float
    after: float
    losses: list[float]
    text: str


class Program:
    """Graph of a model: a step of training, its loss, and writing.

    Parameters
    ----------
    weights : mapping of str to array
    newline : int
        Number of the character with which a text may end.
    batch : int
        Parallel streams of text. With a static batch the loop's gradient need not compute at each time step which
        inputs were broadcast.
    seed : int
        Seed of the graph's random numbers.
    spare : bool
        Whether to sum the loss in the loop, so memory outside the loop does not grow with the length.
    swap : bool
        Whether values saved by this loop may leave the device's memory.
    """

    def __init__(
        self,
        weights: dict[str, Array],
        newline: int,
        batch: int,
        seed: int = 0,
        *,
        spare: bool = False,
        swap: bool = False,
    ) -> None:
        self.batch = batch
        self.spare: bool = spare
        self.swap: bool = swap
        with tg.Graph(seed).as_default() as self.graph:
            self.model: CharacterModel = CharacterModel(weights)
            self._build_training()
            self._build_writing(newline)
            self.initialize: tg.Operation = tg.global_variables_initializer()

    def _build_training(self) -> None:
        """Add placeholders, loss, next state and the training operation."""
        self.inputs, self.targets = (tg.placeholder("int32", [None, self.batch], name=n) for n in ("inputs", "targets"))
        self.state: tuple[tg.Tensor, ...] = tuple(
            tg.placeholder("float32", [self.batch, self.model.units], name=n) for n in ("h", "c")
        )
        # Fed at each step, because the schedule depends on the total number of steps, unknown to the graph.
        self.rate: tg.Tensor = tg.placeholder("float32", [], name="rate")
        if self.spare:
            h, c = self.state
            self.loss, *self.next_state = self.model.summed_loss(self.inputs, self.targets, h, c, self.swap)
        else:
            outputs, *self.next_state = self.model.states(self.inputs, *self.state)
            self.loss = self.model.loss(outputs, self.targets)
        optimizer = AdamOptimizer(self.rate, beta2=0.99)
        gradients, variables = zip(*optimizer.compute_gradients(self.loss), strict=True)
        # Gradients through many time steps explode now and then; a single such step would ruin the weights.
        clipped, _ = tg.clip_by_global_norm(gradients, _LARGEST_NORM)
        self.train: tg.Operation = optimizer.apply_gradients(zip(clipped, variables, strict=True), name="train")

    def _build_writing(self, newline: int) -> None:
        self.prompt: tg.Tensor = tg.placeholder("int32", [None], name="prompt")
        self.draws: tg.Tensor = tg.placeholder_with_default(tg.random_uniform([_LONGEST]), [None], name="draws")
        self.temperature: tg.Tensor = tg.placeholder("float32", [], name="temperature")
        self.minimum: tg.Tensor = tg.placeholder("int32", [], name="minimum")
        self.text: Any = self.model.write(self.prompt, self.draws, self.temperature, self.minimum, newline)

    def fresh_state(self) -> list[Array]:
        """Return zeros for the state."""
        # One array for both h and c: feeds are only read.
        return [np.zeros((self.batch, self.model.units), np.float32)] * 2


async def run(options: Options, say: Callable[[str], None] = print) -> Result:
    """Train a model on Python's help texts, then write a text with the model.

    Parameters
    ----------
    options : Options
    say : callable
        Called with each line of the report.

    Returns
    -------
    Result

    Raises
    ------
    CheckpointError
        If the weights cannot be loaded.
    TagloomError
        If a plot is requested and matplotlib is missing.
    ValueError
        If the text is too short for batch and length, or has characters unknown to a loaded model.
    """
    if options.plot is not None:
        require_matplotlib()
    text = load_text()
    alphabet, weights = _initial_model(options, text)
    training, held_out = split_held_out(alphabet.encode(text))
    program = Program(
        weights,
        int(alphabet.encode("\n")[0]),
        options.batch,
        options.seed,
        spare=options.memory_limit is not None,
        swap=options.swap,
    )
    say(f"{len(training):,} characters to train on, {len(held_out):,} held out, {len(alphabet)} different ones")
    async with tg.Session(program.graph, memory_limit=options.memory_limit) as session:
        await session.run(program.initialize)
        before = await measure_loss(session, program, held_out)
        say(f"held-out loss before: {before:.3f} nats/char (ln {len(alphabet)} = {math.log(len(alphabet)):.3f})")
        meter = await train_model(session, program, training, options)
        if options.swap:
            say("\n".join(map(str, session.report().swap)))
        after = await measure_loss(session, program, held_out) if options.steps else before
        say(
            f"held-out loss after: {after:.3f} nats/char; {meter.seconds:.1f} s of training, {meter.speed:,.0f} chars/s"
        )
        if options.save is not None:
            save_weights(options.save, alphabet, await session.read_variables(list(weights)))
        written = await write_text(session, program, alphabet, options.temperature)
    say(f"\n{written}")
    if options.plot is not None:
        plot_losses(options.plot, meter.losses, before, after)
    return Result(before, after, meter.losses, written)


def _initial_model(options: Options, text: str) -> tuple[Alphabet, dict[str, Array]]:
    if options.load is not None:
        return load_weights(options.load)
    alphabet = Alphabet.of(text)
    return alphabet, initial_weights(len(alphabet), options.embedding, options.units, options.seed)


async def train_model(session: tg.Session, program: Program, numbers: Array, options: Options) -> Meter:
    """Train for `options.steps` steps and return their Meter; the state carries over between consecutive windows."""
    feeds = [program.inputs, program.targets, *program.state, program.rate]
    step = session.make_step([program.loss, *program.next_state, program.train], feeds)
    zeros = state = program.fresh_state()
    texts = islice(cut_epochs(numbers, options.batch, options.length, options.seed), options.steps)
    from .progress import Meter  # which imports rich

    with Meter(options.steps, options.batch * options.length) as meter:
        for i, window in enumerate(texts):
            state = state if window.continues else zeros
            rate = options.rate * scale_learning_rate(i, options.steps)
            loss, *state, _ = await step(window.inputs, window.targets, *state, rate)
            meter.step(float(loss))
    return meter


def scale_learning_rate(step: int, steps: int) -> float:
    """Return a step's share of the highest learning rate: a rising tenth, then a falling cosine."""
    return min(1.0, 10 * (step + 1) / steps) * 0.5 * (1 + math.cos(math.pi * step / steps))


async def measure_loss(session: tg.Session, program: Program, numbers: Array) -> float:
    """Return the mean loss on a text, in nats per character."""
    step = session.make_step([program.loss, *program.next_state], [program.inputs, program.targets, *program.state])
    state, total, count = program.fresh_state(), 0.0, 0
    for window in cut_windows(numbers, program.batch, _JUDGING_LENGTH):
        loss, *state = await step(window.inputs, window.targets, *state)
        total, count = total + float(loss) * window.inputs.size, count + window.inputs.size
    return total / count


async def write_text(session: tg.Session, program: Program, alphabet: Alphabet, temperature: float) -> str:
    """Write a text with the model, until a newline after the shortest length or until the longest length."""
    feeds = {
        program.prompt: alphabet.encode(_PROMPT),
        program.temperature: temperature,
        program.minimum: _SHORTEST,
    }
    return (_PROMPT + alphabet.decode(await session.run(program.text, feeds))).strip("\n")
