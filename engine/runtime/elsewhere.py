"""Kernels on a device whose arrays are not NumPy's: what is where, and what must be copied first.

Values in the host's memory and on the device travel along the same edges. Scalars and short vectors of integers, such
as counters, shapes and predicates, are computed with by the host as long as nothing else is among the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ..base.dtypes import ON_GPU, as_dtype
from ..base.errors import GraphError
from ..base.settings import Settings
from ..base.tags import Kind
from ..ir.definition import Ufunc, runs_on
from ..ir.operation import Operation
from ..ir.rewrite import Program
from ..kernels.cuda.registry import Compiled, find_compiled
from ..kernels.scheduler.calls import Resumed
from ..kernels.scheduler.series import Series, Stored
from ..ops.variables import VariableSlot
from ..plan.build import bound_kernel
from ..plan.elsewhere import Kernels, build_elsewhere, host_inputs
from ..plan.plan import Plan
from ..streams.contract import Device
from ..streams.event import DeviceClosed, Event
from .devices import SessionDevice

# They hand on what they are given, or look at its shape only.
_PASSING = frozenset({"CustomGradient", "IdentityN", "PlaceholderWithDefault", "Print", "Rank", "Shape", "Size"})
# Of those with inputs in the host's memory, such as bounds, the ones that make nothing larger.
_CUTTING = frozenset({"Reshape", "Slice", "SplitV", "StridedSlice", "SumTo"})
# They look at values to say what is wrong, or how large the result is: the host waits for the device.
_WAITING = frozenset({
    "BooleanMask", "CheckNumerics", "FloorDiv", "FloorMod", "Gather", "GatherGrad", "GatherNd", "NonZero", "Pow",
    "ScatterNd", "SparseSoftmaxCrossEntropyWithLogits", "UnsortedSegmentSum",
})  # fmt: skip
_SHORT = 64  # elements
_residences: WeakKeyDictionary[Device, WeakSet[Residence]] = WeakKeyDictionary()
Put = Callable[[Any], None]
Coming = tuple[Put, Event[Any]]  # what the result of a copy is given to, and the copy


@dataclass(slots=True)
class Arrival:
    """A value of the host's memory on the device.

    No result of the copy is used: a thread that has just ended it would keep the array for a moment more.

    Attributes
    ----------
    array : array
    copy : Event or None
        What is to be waited for before the array is used; None for a scalar.
    """

    array: Any
    copy: Event[None] | None = None

    @property
    def is_there(self) -> bool:
        """Whether it can be used."""
        return self.copy is None or (self.copy.done and self.copy.error is None)

    async def wait(self) -> Any:
        """Return the array when it can be used."""
        if self.copy is not None:
            await self.copy
        return self.array


class Residence:
    """The memory of a device, as one compiled step uses it.

    Parameters
    ----------
    place : SessionDevice
        Its device computes with another array library than NumPy.
    native : bool
        Whether operations run by kernels in CUDA C, where they have one and the library compiles it.

    Attributes
    ----------
    xp : module
        That library.
    """

    def __init__(self, place: SessionDevice, native: bool = False) -> None:
        self.device: Device = place.device
        self.contexts = place.contexts
        self.xp = place.device.arrays
        self.native = native
        self._constants: dict[int, tuple[Any, Arrival | None]] = {}

    @property
    def is_limited(self) -> bool:
        """Whether the device's memory has a limit."""
        return self.device.limit is not None

    def settle(self, plan: Plan) -> None:
        """Keep constants on the device from when they are first used there."""
        _residences.setdefault(self.device, WeakSet()).add(self)
        values = [node.value for node in plan.nodes if node.kind is Kind.CONST]
        self._constants = {id(value): (value, None) for value in values}

    def has(self, value: Any) -> bool:
        """Say whether a value is an array on the device."""
        return isinstance(value, self.xp.ndarray)

    def bring(self, values: Sequence[Any]) -> list[Arrival]:
        """Return values of the host's memory as arrays on the device, each with the copy under way, if there is one.

        Raises
        ------
        MemoryError
            If there is no room for all of them; then no copy has begun, so that what was taken is given back at once.
        """
        arrays = [np.asarray(value) for value in values]
        arrivals = [self._known(array) or Arrival(self._made(array)) for array in arrays]
        pairs = zip(arrays, arrivals, strict=True)
        fresh = [(array, each) for array, each in pairs if array.ndim and each.copy is None]
        copy = self.device.copy_all_in([(array, each.array) for array, each in fresh]) if fresh else None
        for array, each in fresh:
            each.copy = copy
            if id(array) in self._constants:
                self._constants[id(array)] = array, each
        return arrivals

    def _known(self, array: Any) -> Arrival | None:
        """Return a constant that is there, or comes."""
        _, arrival = self._constants.get(id(array), (None, None))
        failed = arrival is not None and arrival.copy is not None and arrival.copy.error is not None
        return None if failed else arrival

    def _made(self, array: Any) -> Any:
        """Return a new array that a value is to be copied into; a scalar has it already."""
        if array.ndim == 0:
            return self.contexts.run(self.device.call, _scalar, self.xp, array)
        return self.device.allocate(array.shape, array.dtype)

    def forget(self) -> bool:
        """Let go of constants until they are used again; say whether there were any."""
        there = [(value, arrival) for value, arrival in self._constants.values() if arrival and arrival.is_there]
        self._constants.update((id(value), (value, None)) for value, _ in there)
        return bool(there)

    def fetched(self, value: Any) -> Event[Any]:
        """Return an Event of an array of the device as one of the host's memory."""
        return self.device.copy_out(value, after=self.device.enqueued())

    def to_host(self, value: Any) -> Any:
        """Return a value in the host's memory, or what must be awaited for it."""
        return self.fetched(value) if self.has(value) else value

    def to_device(self, value: Any) -> Any:
        """Return a value as kernels want it: on the device, but for what the host computes with."""
        return value if is_short(value) else self.into_device(value)

    def into_device(self, value: Any) -> Any:
        """Return a value on the device, or what must be awaited for it."""
        if self.has(value):
            return value
        (arrival,) = self.bring([value])
        return arrival.array if arrival.is_there else arrival.wait()

    def calling(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel that is called as the device wants it."""
        return partial(self.device.call, kernel)

    def kernels(self) -> Kernels:
        """Return what plans for the device are built from."""
        return Kernels(lambda op: ResidentKernel(op, self), self.to_host, self.to_device, self.into_device)


def _scalar(xp: Any, array: Any) -> Any:
    return xp.full((), array[()], dtype=array.dtype)


def is_short(value: Any) -> bool:
    """Say whether a value is in the host's memory, and of those that the host computes with."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    return value.ndim == 0 or (value.ndim == 1 and value.dtype.kind in "biu" and value.size <= _SHORT)


class ResidentKernel:
    """The kernel of one operation, which sees to it that its inputs are where it wants them.

    Parameters
    ----------
    op : Operation
    residence : Residence
        Where it runs.
    """

    def __init__(self, op: Operation, residence: Residence) -> None:
        definition = op.definition
        where = _where(op)
        self._residence = residence
        self._on_host = bound_kernel(op, np)
        kernel = bound_kernel(op, residence.xp)
        compiled = _compiled(op, residence, kernel) if where == "device" and residence.native else None
        self._on_device = self._on_host if where == "host" else residence.calling(compiled or kernel)
        self._first = int(definition.stateful)  # the context comes first
        hosts = [True] * len(op.inputs) if where == "host" else host_inputs(op)
        self._hosts = [hosts[i] and op.inputs[i].dtype.is_value for i in range(len(op.inputs))]
        passing = op.type in _PASSING
        values = [not passing and tensor.dtype in ON_GPU for tensor in op.inputs]
        self._values = [i for i, value in enumerate(values) if value and not hosts[i]]
        self._may_stay = bool(self._values) and where == "device" and (not any(hosts) or op.type in _CUTTING)
        self._looks = [i for i, tensor in enumerate(op.inputs) if passing]
        is_universal = isinstance(definition.kernel, Ufunc) and definition.kernel.elsewhere is None
        self._takes_scalars = is_universal if compiled is None else compiled.takes_scalars
        self._waits = op.type in _WAITING
        self._lends = bool(op.attrs.get("lent")) and op.type == "TensorArrayUnstack"
        may_be_mixed = where == "store" and any(t.dtype.is_value and not t.dtype.is_differentiable for t in op.outputs)
        self._series = [i for i, t in enumerate(op.inputs, self._first) if may_be_mixed and t.dtype.name == "series"]

    def __call__(self, *arguments: Any) -> Any:
        """Return what the kernel returns, or what must be awaited for it."""
        given = list(arguments)
        stays = self._stays(given)
        coming = self._coming(given, stays)
        kernel = self._on_host if stays else self._on_device
        if coming or (self._waits and not stays):
            return self._later(kernel, given, coming)
        return self._call(kernel, given)

    def _call(self, kernel: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Return what a kernel returns whose inputs are there; later where the device takes no more."""
        result = kernel(*given)
        event = None if kernel is self._on_host else self._residence.device.crowded()
        return result if event is None else _after(event, result)

    def _stays(self, given: Sequence[Any]) -> bool:
        """Say whether the host computes this one."""
        if self._looks:
            return all(not self._residence.has(given[self._first + i]) for i in self._looks)
        if self._series:
            return not any(self._residence.has(each) or isinstance(each, Stored) for each in self._saved(given))
        return self._may_stay and all(is_short(given[self._first + i]) for i in self._values)

    def _saved(self, given: Sequence[Any]) -> Iterator[Any]:
        """Yield what series among the inputs hold; of integers the host has some, and of others none."""
        for i in self._series:
            if isinstance(given[i], Series):
                yield from (given[i].at(index) for index in given[i].indices())

    def _coming(self, given: list[Any], stays: bool) -> list[Coming]:
        """Have all copied that is elsewhere; put into `given` what is at hand, and return what is on its way."""
        wanted = [] if stays else [*self._inputs(given), *self._mixed(given)]
        coming = self._begun([*wanted, *self._slots(given)])
        for i, wants_host in enumerate(self._hosts, self._first):
            if wants_host and self._residence.has(given[i]):
                coming.append((_place(given, i), self._residence.fetched(given[i])))
        return coming

    def _begun(self, wanted: list[tuple[Put, Any]]) -> list[Coming]:
        """Have values copied in; put those that are there in their place, and return what is on its way."""
        coming = []
        for (put, _), arrival in zip(wanted, self._residence.bring([value for _, value in wanted]), strict=True):
            if arrival.copy is None or arrival.is_there:
                put(arrival.array)
            else:
                coming.append((_given(put, arrival.array), arrival.copy))
        return coming

    def _inputs(self, given: list[Any]) -> Iterator[tuple[Put, Any]]:
        """Yield the inputs that are to be copied in; scalars stay as they are where another input is an array."""
        for i in (i + self._first for i in self._values):
            value = given[i]
            if self._takes_scalars and isinstance(value, np.ndarray) and value.ndim == 0:
                given[i] = value[()]  # beside an array, else the host would compute this
            elif not (self._residence.has(value) or (self._lends and given[self._first].lends(value))):
                yield _place(given, i), value

    def _slots(self, given: Sequence[Any]) -> Iterator[tuple[Put, Any]]:
        """Yield the variables that were written from outside and are not on the device yet."""
        for each in given if self._on_device is not self._on_host else ():
            if isinstance(each, VariableSlot) and each.in_host is not None:
                yield _moved(each, each.in_host), each.in_host

    def _mixed(self, given: Sequence[Any]) -> Iterator[tuple[Put, Any]]:
        """Yield what series have in the host's memory beside what they have on the device."""
        for series in (given[i] for i in self._series if isinstance(given[i], Series)):
            for index in series.indices():
                if not self._residence.has(value := series.at(index)) and not isinstance(value, Series | Stored):
                    yield partial(series.put, index), value

    async def _later(self, kernel: Callable[..., Any], given: list[Any], coming: list[Coming]) -> Any:
        """Wait for what is on its way; return what is left to be called, so that the instance goes on as any other."""
        for put, event in coming:
            put(await event)
        if self._waits and kernel is self._on_device:
            compute = self._residence.device.compute
            if not self._residence.is_limited:
                return await compute.submit(partial(self._residence.contexts.run, kernel, *given))
            await compute.submit()  # what it takes counts on its iteration, which only the loop's thread knows
        return Resumed(partial(self._go_on, kernel, given))

    def _go_on(self, kernel: Callable[..., Any], given: list[Any]) -> Any:
        """Call a kernel whose inputs are there, unless a variable was written from outside in the meantime."""
        coming = self._begun(list(self._slots(given)))
        return self._later(kernel, given, coming) if coming else self._call(kernel, given)


def _compiled(op: Operation, residence: Residence, otherwise: Callable[..., Any]) -> Compiled | None:
    outputs = [np.dtype(tensor.dtype.numpy) for tensor in op.outputs]
    return find_compiled(residence.xp, op.type, op.attrs, outputs, otherwise)


async def _after(event: Event[Any], result: Any) -> Any:
    """Wait until the device takes more; the event loop goes on."""
    await event
    return await result if hasattr(type(result), "__await__") else result


def _place(given: list[Any], i: int) -> Put:
    return partial(given.__setitem__, i)


def _given(put: Put, array: Any) -> Put:
    return lambda _: put(array)


def _moved(slot: VariableSlot, old: Any) -> Put:
    return partial(slot.move, old)


def _where(op: Operation) -> str:
    """Return where an operation runs; stores that keep what no device has are the host's too."""
    where = runs_on(op)
    named = [op.attrs[name] for name in ("dtype", "elem_type") if name in op.definition.attrs]
    dtypes = [tensor.dtype for tensor in (*op.inputs, *op.outputs)] + list(map(as_dtype, named))
    return "host" if any(dtype.is_value and dtype not in ON_GPU for dtype in dtypes) else where


def resident_plan(program: Program, place: SessionDevice, settings: Settings) -> Plan:
    """Return the plan of a lowered program for a device whose arrays are not NumPy's."""
    residence = Residence(place, settings.native)
    plan = build_elsewhere(program, residence.kernels())
    residence.settle(plan)
    return plan


def check_arrays(devices: Sequence[SessionDevice], is_guarded: bool) -> None:
    """Refuse what can not be had beside a device whose arrays are not NumPy's.

    Raises
    ------
    GraphError
        If results are to be checked, or other devices have a time of their own.
    """
    foreign = [place for place in devices if place.device.arrays is not None]
    if foreign and (is_guarded or any(place.has_time for place in devices)):
        what = "check_numerics=True" if is_guarded else "a device that takes stated times"
        raise GraphError(
            f"{what} is not to be had with {foreign[0].spec}, whose arrays are not NumPy's",
            hint="use check_numerics() in the graph, or leave it out" if is_guarded else "leave one of them out",
        )  # fmt: skip


def forget_constants(devices: Sequence[SessionDevice]) -> bool:
    """Let go of what compiled steps keep of their constants on devices; say whether there was anything."""
    found = [residence.forget() for place in devices for residence in _residences.get(place.device, ())]
    return any(found)


async def copies_over(devices: Sequence[SessionDevice]) -> None:
    """Wait until devices whose arrays are not NumPy's copy nothing, so that what a step had there is given back."""
    for place in devices:
        for stream in place.device.streams[1:] if place.device.arrays is not None else ():
            now = stream.statistics()
            if now.waiting or now.running:
                with suppress(DeviceClosed):
                    await stream.submit().over()


async def copied_out(values: Mapping[str, Any], devices: Sequence[SessionDevice]) -> dict[str, Any]:
    """Return copies of variables' values in the host's memory."""
    copies = {name: _copied_out(value, devices) for name, value in values.items()}
    return {name: await copy if isinstance(copy, Event) else copy for name, copy in copies.items()}


def _copied_out(value: Any, devices: Sequence[SessionDevice]) -> Any:
    for place in devices:
        if place.device.has(value):
            return Residence(place).fetched(value)
    return value
