"""Datasets: descriptions of input pipelines, and their methods for transformations."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ..base.source_lines import user_source
from ..ir.entry import public
from ..ops.queues.iterators import Sources
from ..runtime.functions.arguments import TensorSpec
from .arguments import batched_spec, check_counts, check_flags, check_shard, check_spec, checked_buckets, checked_calls
from .graph_iterator import GraphIterator
from .iterations import Iterations, begin_iteration
from .iterator import DatasetIterator
from .stages import batches, combining, mapping, prefetching, selecting, shuffling
from .stages.stage import Context, Opens, Stage

MakeStage = Callable[..., Stage]


class Dataset:
    """An input pipeline: a source of elements and the transformations of these. A Dataset can be iterated many times.

    The functions of `tagloom.data`, such as `from_text`, make Datasets; their methods return new ones. Nothing is read
    before an element is requested. ``async for element in dataset`` iterates over a Dataset; so does `iterator`, whose
    state can be saved; `next` delivers the elements to a graph.

    Each iteration has a number, counted from 0. `shuffle` has another order, and ``map(seed=)`` other random numbers,
    in each iteration: both depend on the seed and the number. A Dataset counts the iterations over itself
    and over derived Datasets; the iterators of sessions count their own.

    Elements are tuples (also named tuples) or dicts of arrays, or single arrays; before batching they may be any
    objects. Lists count as arrays.

    Attributes
    ----------
    element_spec : structure of TensorSpec or None
        Dtypes and shapes of an element; None if unknown, as after a `map` without `output`.

    Examples
    --------
    >>> import asyncio, numpy as np, tagloom as tg
    >>> async def main():
    ...     squares = tg.data.from_iterable(range(5)).map(lambda x: x * x)
    ...     return [batch.tolist() async for batch in squares.filter(lambda x: x != 4).batch(3)]
    >>> asyncio.run(main())
    [[0, 1, 9], [16]]
    """

    def __init__(self, stage: MakeStage, inputs: Sequence[Opens] = (), spec: Any = None, **parameters: Any) -> None:
        self._make = stage
        self._inputs: tuple[Opens, ...] = tuple(inputs)
        self._parameters = parameters
        self._line = user_source()
        self._iterations = Iterations()  # over this Dataset and, if random, over Datasets derived from it
        self.element_spec: Any = spec

    def __repr__(self) -> str:
        spec = "unknown" if self.element_spec is None else self.element_spec
        return f"<Dataset of {spec}>"

    def open_stage(self, context: Context) -> Stage:
        """Open the stages of a pipeline, with a shared `context`, and return the last stage; for iterators."""
        stage = self._make(context, *self._inputs, **self._parameters)
        stage.line = self._line
        return stage

    def _add_stage(self, stage: MakeStage, spec: object, **parameters: Any) -> Dataset:
        return Dataset(stage, [self], spec, **parameters)

    # ---- going through it

    def iterator(self, name: str = "pipeline", iteration: int | None = None) -> DatasetIterator:
        """Return an iterator over this Dataset, whose state can be saved.

        Parameters
        ----------
        name : str
            Label in error messages.
        iteration : int, optional
            Number of the iteration, such as an epoch's, on which random orders and ``map(seed=)`` depend; by default
            the next number, 0 at first. GraphError for anything except an integer of at least 0.

        Returns
        -------
        DatasetIterator
            To be closed, by ``async with`` or `aclose`.
        """
        if iteration is not None:
            check_counts(least=0, iteration=iteration)
        return DatasetIterator(self, name, self._begin_iteration(iteration), self._begin_iteration)

    def open_iterator(self, name: str, iteration: int) -> DatasetIterator:
        """Return an iterator called `name`, whose `iteration` the caller counts; for sessions."""
        return DatasetIterator(self, name, iteration)

    def _begin_iteration(self, number: int | None) -> int:
        return begin_iteration([self._iterations, *self.drawing_counts()], number)

    def drawing_counts(self) -> Iterator[Iterations]:
        """Yield the iteration counts of this Dataset and its inputs, where they draw or may open other Datasets."""
        for each in (*self._inputs, self._parameters.get("source")):
            if isinstance(each, Dataset):
                yield from each.drawing_counts()
        if self._parameters.get("seed") is not None or self._make is combining.InterleaveStage:
            yield self._iterations

    async def __aiter__(self) -> AsyncIterator[Any]:
        async with self.iterator() as iterator:
            async for element in iterator:
                yield element

    @public
    def next(self, shared_name: str | None = None, name: str = "iterator") -> Any:
        """Return the outputs of an operation by which each step takes the next element.

        The iterator belongs to the session: the session makes it when a step first requests an element, or when a state
        is restored, and closes the iterator at the session's end. Its state is saved by ``Session.snapshot()`` and by a
        `Checkpointer`. Concurrent steps get different elements, first come, first served.

        Parameters
        ----------
        shared_name : str, optional
            Calls with the same shared name share an iterator in a session; by default the operation's own name.
        name : str
            Name of the operations in the graph.

        Returns
        -------
        Tensor or structure of them
            With the dtypes and shapes of `element_spec`.

        Raises
        ------
        GraphError
            If `element_spec` is unknown.
        QueueClosed, PipelineError
            When a step runs the operation, as for `GraphIterator.next`.
        OpError
            When a step runs the operation, if another Dataset has the iterator's shared name.
        """
        return GraphIterator(self, shared_name, name).next()

    @public
    def graph_iterator(self, shared_name: str | None = None, name: str = "iterator") -> GraphIterator:
        """Return an iterator in a graph with restarts: for epochs, and for training and validation in the same graph.

        Parameters
        ----------
        shared_name, name
            As for `next`.

        Returns
        -------
        GraphIterator

        """
        return GraphIterator(self, shared_name, name)

    @cached_property
    def components(self) -> Dataset:
        """The same elements as tuples of arrays; a single Dataset, such that operations can share an iterator."""
        return self._add_stage(selecting.CheckStage, self.element_spec, check=self.element_spec, flat=True)

    @cached_property
    def graph_sources(self) -> Sources:
        """The pipelines of all iterators with a shared name; this Dataset is the first."""
        return Sources([self.components])

    # ---- one element at a time

    def map(
        self,
        function: Callable[..., Any],
        *,
        output: Any = None,
        parallel: int = 1,
        threads: bool | None = None,
        seed: int | None = None,
    ) -> Dataset:
        """Return the results of a function for each element, in the same order.

        Parameters
        ----------
        function : callable
            Plain or ``async def``; called with an element, whose arrays the function must not change.
        output : structure of TensorSpec, optional
            Spec of the results, which are checked; Python's numbers and lists become arrays of these dtypes.
        parallel : int
            Number of elements processed at the same time; more than 1 for waiting functions: ``async def``, or
            in threads, of which a pipeline has 64.
        threads : bool, optional
            True to call a plain function in threads. By default calls are on the event loop until a call takes
            more than 5 ms, then in threads.
        seed : int, optional
            If present, the function also receives a `numpy.random.Generator`. Its random numbers depend on the seed,
            the numbers of the iteration and the epoch, and the number of the element: neither on `parallel` nor on the
            place at which a state was saved.

        Returns
        -------
        Dataset
        """
        threads = checked_calls(function, parallel, threads, seed)
        made = self._add_stage(mapping.MapStage, None, function=function, parallel=parallel, threads=threads, seed=seed)
        return made if output is None else made.check(output)

    def filter(
        self, predicate: Callable[..., Any], *, parallel: int = 1, threads: bool | None = None, seed: int | None = None
    ) -> Dataset:
        """Return the elements for which a function returns True.

        Parameters
        ----------
        predicate : callable
            Plain or ``async def``; called with an element.
        parallel, threads, seed
            As for `map`.

        Returns
        -------
        Dataset
        """
        threads, spec, stage = checked_calls(predicate, parallel, threads, seed), self.element_spec, mapping.FilterStage
        return self._add_stage(stage, spec, function=predicate, parallel=parallel, threads=threads, seed=seed)

    def check(self, spec: Any) -> Dataset:
        """Return the elements as arrays of the given dtypes and shapes; other elements are errors.

        Parameters
        ----------
        spec : structure of TensorSpec
            Or tuples and dicts of specs. Numbers and lists take the dtype, arrays must have the dtype already; bytes
            become vectors of uint8.

        Returns
        -------
        Dataset
        """
        check_spec(spec)
        return self._add_stage(selecting.CheckStage, spec, check=spec)

    def enumerate(self, start: int = 0) -> Dataset:
        """Return pairs of a number and an element.

        Parameters
        ----------
        start : int
            The first number.

        Returns
        -------
        Dataset
        """
        spec = None if self.element_spec is None else (TensorSpec([], "int64"), self.element_spec)
        check_counts(least=None, start=start)
        return self._add_stage(selecting.EnumerateStage, spec, start=start)

    def ignore_errors(self, log: bool = False) -> Dataset:
        """Return the elements without failures.

        Parameters
        ----------
        log : bool
            True to log a warning per omitted element, by the logger "tagloom".

        Returns
        -------
        Dataset
        """
        check_flags(log=log)
        return self._add_stage(selecting.IgnoreErrorsStage, self.element_spec, log=log)

    # ---- how many, and in which order

    def take(self, count: int) -> Dataset:
        """Return the first elements.

        Parameters
        ----------
        count : int

        Returns
        -------
        Dataset
        """
        check_counts(least=0, count=count)
        return self._add_stage(selecting.TakeStage, self.element_spec, count=count)

    def skip(self, count: int) -> Dataset:
        """Return all but the first elements.

        Parameters
        ----------
        count : int

        Returns
        -------
        Dataset
        """
        check_counts(least=0, count=count)
        return self._add_stage(selecting.SkipStage, self.element_spec, count=count)

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return a part of several: the elements whose number divided by `num_shards` has the remainder `index`.

        Each of several processes takes another part. Put `shard` before `shuffle`, or after a `shuffle` with a seed and
        without reshuffling: otherwise the parts have elements in common. A failed element counts, and its error is in a
        single part.

        Parameters
        ----------
        num_shards : int
            Number of parts.
        index : int
            Number of the part, from 0.

        Returns
        -------
        Dataset

        Raises
        ------
        GraphError
            If `index` is not in [0, `num_shards`).

        Examples
        --------
        >>> import asyncio, tagloom as tg
        >>> async def main(index):
        ...     return [x async for x in tg.data.from_iterable(range(8)).shard(3, index)]
        >>> asyncio.run(main(0)), asyncio.run(main(2))
        ([0, 3, 6], [2, 5])
        """
        check_shard(num_shards, index)
        return self._add_stage(selecting.ShardStage, self.element_spec, count=num_shards, index=index)

    def repeat(self, count: int | None = None) -> Dataset:
        """Return all elements repeatedly.

        Parameters
        ----------
        count : int, optional
            Number of epochs; without end by default.

        Returns
        -------
        Dataset
        """
        if count is not None:
            check_counts(least=0, count=count)
        return Dataset(combining.RepeatStage, [], self.element_spec, source=self, count=count)

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True) -> Dataset:
        """Return the elements in random order: each from a random slot of a buffer, which the next element refills.

        Parameters
        ----------
        buffer_size : int
            Number of elements in the buffer. A buffer as large as the input shuffles all elements uniformly.
        seed : int, optional
            The order depends on the seed, the iteration, the epoch and the elements; by default a random seed.
        reshuffle_each_iteration : bool
            True for another order in each iteration, and each epoch of a `repeat`; use False where `take` and `skip`
            divide the elements.

        Returns
        -------
        Dataset
        """
        check_counts(buffer_size=buffer_size)
        seed = secrets.randbits(63) if seed is None else seed  # here, so that all iterators have one seed
        check_counts(least=0, seed=seed)
        check_flags(reshuffle_each_iteration=reshuffle_each_iteration)
        return self._add_stage(
            shuffling.ShuffleStage, self.element_spec, size=buffer_size, seed=seed, reshuffle=reshuffle_each_iteration
        )

    def prefetch(self, buffer_size: int) -> Dataset:
        """Run the earlier stages ahead, while their elements are in use.

        Parameters
        ----------
        buffer_size : int
            Largest number of elements made ahead.

        Returns
        -------
        Dataset
        """
        check_counts(buffer_size=buffer_size)
        return self._add_stage(prefetching.PrefetchStage, self.element_spec, size=buffer_size)

    # ---- batches

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Return batches: arrays of elements of equal structure, dtype and shape along a new first axis.

        Parameters
        ----------
        batch_size : int
        drop_remainder : bool
            True to drop a last batch of fewer elements.

        Returns
        -------
        Dataset
        """
        return self._make_batches(batch_size, drop_remainder, False, None)

    def padded_batch(self, batch_size: int, padding_values: Any = None, drop_remainder: bool = False) -> Dataset:
        """Return batches in which each element is padded, at the end of its axes, to the largest of its batch.

        Parameters
        ----------
        batch_size : int
        padding_values : scalar or structure of scalars, optional
            By default zero, the empty string or False.
        drop_remainder : bool
            True to drop a last batch of fewer elements.

        Returns
        -------
        Dataset
        """
        return self._make_batches(batch_size, drop_remainder, True, padding_values)

    def _make_batches(self, size: int, drop: bool, padded: bool, padding: object) -> Dataset:
        check_counts(batch_size=size)
        check_flags(drop_remainder=drop)
        spec = batched_spec(self.element_spec, size if drop else None, padded)  # None: the last may be smaller
        return self._add_stage(batches.BatchStage, spec, size=size, drop_remainder=drop, padded=padded, padding=padding)

    def bucket_by_length(
        self,
        element_length: Callable[[Any], int],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: int | Sequence[int],
        padding_values: Any = None,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Return padded batches of elements of about the same length.

        Parameters
        ----------
        element_length : callable
            Returns the length of an element.
        bucket_boundaries : sequence of int
            Increasing. The first bucket has lengths below the first boundary, the last bucket all from the last on.
        bucket_batch_sizes : int or sequence of int
            Batch sizes of all buckets; there are n + 1 buckets for n boundaries.
        padding_values, drop_remainder
            As for `padded_batch`.

        Returns
        -------
        Dataset
        """
        bounds, sizes = checked_buckets(bucket_boundaries, bucket_batch_sizes)
        check_flags(drop_remainder=drop_remainder)
        return self._add_stage(
            batches.BucketStage,
            batched_spec(self.element_spec, None, True),
            buckets=batches.Buckets(element_length, bounds, sizes),
            drop_remainder=drop_remainder,
            padding=padding_values,
        )

    # ---- several pipelines

    def interleave(
        self, function: Callable[[Any], Any], cycle_length: int = 1, block_length: int = 1, *, output: Any = None
    ) -> Dataset:
        """Return the elements of the Datasets made by a function of elements, some of each in turn.

        Parameters
        ----------
        function : callable
            Takes an element, such as a path, and returns a Dataset. The result must depend on nothing else, for states
            to be restored.
        cycle_length : int
            Number of open Datasets; 1 to read Datasets in sequence.
        block_length : int
            Number of consecutive elements of a Dataset.
        output : structure of TensorSpec, optional
            Spec of the elements; see `check`.

        Returns
        -------
        Dataset
        """
        check_counts(cycle_length=cycle_length, block_length=block_length)
        stage = combining.InterleaveStage
        mixed = self._add_stage(stage, None, function=function, cycle=cycle_length, block=block_length)
        return mixed if output is None else mixed.check(output)
