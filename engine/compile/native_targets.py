"""Which loops and operations of a program may be native programs, by the devices of a target."""

from __future__ import annotations

from dataclasses import replace

from ..base.device_names import DeviceSpec
from ..base.settings import Switches
from ..base.wording import short_device
from ..ir.operation import Operation
from ..ir.processes import device_constraint
from ..kernels.cpu.linear import vector_bits
from ..kernels.native.generator import C, CodeGenerator
from .loops.liftable import IsNative, LiftingRules
from .native.eligible import NotNative
from .native.rules import Rules, RulesOf
from .native.wrap import can_be_native
from .target import DeviceTarget, Target


def has_programs(target: Target) -> bool:
    """Return True if a device of a target runs programs, and no observer needs the single instances."""
    switches = target.settings.switches
    is_on = switches.native and switches.loops and not target.observed
    return is_on and (not target.devices or any(map(_runs_programs, target.devices)))


def _runs_programs(device: DeviceTarget) -> bool:
    """Return True if a device has a code generator, whose programs keep to its limit if it has one."""
    return device.generator is not None and (device.memory_limit is None or device.generator.keeps_limits)


def has_clusters(target: Target) -> bool:
    """Return True for a single device without a memory limit, whose generator has kernels for epilogues and clusters.

    Kept runs of clusters would hold memory that others wait for under a limit.
    """
    if not has_programs(target) or len(target.devices) > 1:
        return False
    return all(device.memory_limit is None for device in target.devices) and _generator_of(target).adds_epilogues


def rules_of_only_device(target: Target) -> Rules:
    """Return the rules for native programs of a target with a single device."""
    is_limited = any(device.memory_limit is not None for device in target.devices)
    return Rules(_generator_of(target), target.has_own_kernel, is_limited)


def rules_of(target: Target) -> RulesOf:
    """Return the function that returns the rules for a loop: those of the device which all of its operations name."""
    if len(target.devices) > 1 or not all(map(_runs_programs, target.devices)):
        return lambda loop: _rules_on_device(loop, target)
    rules = rules_of_only_device(target)
    return lambda loop: rules


def may_lift(target: Target) -> bool:
    """Return True if a switch lets products leave their loops."""
    switches = target.settings.switches
    return bool(switches.hoist_bytes or switches.block_bytes)


def keeps_products(target: Target) -> bool:
    """Return True if products stay in loops that would run them as fast in a native program of C kernels.

    Asked of the devices' kind, not of a loop: a loop that some session runs on the step machine has the same products.
    """
    return target.settings.switches.keep_products and _is_on_cpu(target)


def _is_on_cpu(target: Target) -> bool:
    """Return True if all devices of a target run C kernels."""
    generators = [device.generator for device in target.devices] or [C]
    return all(generator is not None and generator.adds_epilogues for generator in generators)


def lifting_rules(target: Target) -> LiftingRules:
    """Return the rules for products that may leave their loops.

    On CPUs with our own products, the products of BLAS stay in loops: bits of a row change with the number of rows that
    BLAS multiplies at once, and memory limits and swapping bound this number.
    """
    return LiftingRules(_native_on_cpu(target), _is_on_cpu(target) and vector_bits() > 0)


def _native_on_cpu(target: Target) -> IsNative:
    """Return a predicate: True for loops that can be native programs of C kernels alone.

    It is the same for all limits and observers, and where the loop runs on the step machine all the same.
    """
    if not target.settings.switches.keep_products:
        return lambda loop: False

    def is_native(loop: Operation) -> bool:
        try:
            rules = rules_of(target)(loop)
        except NotNative:
            return False
        of_kernels = replace(rules, is_limited=False, calls=False)
        return rules.generator.adds_epilogues and can_be_native(loop, Switches(), of_kernels)

    return is_native


def _generator_of(target: Target) -> CodeGenerator:
    """Return the code generator of a target with a single device, which has one."""
    generator = target.devices[0].generator if target.devices else C
    assert generator is not None, "asked for targets of `has_programs` alone"
    return generator


def _rules_on_device(loop: Operation, target: Target) -> Rules:
    """Return the rules of the device named by all operations of a loop, or of the default device if none names one.

    Raises
    ------
    NotNative
        If two operations name different devices, or the device has no code generator.
    """
    named: dict[DeviceSpec, Operation] = {}
    for op in (loop, *(inner for region in loop.regions for inner in region.walk())):
        if "colocate" in op.attrs:
            raise NotNative(op, "is on the device of another operation, where there are several devices")
        if op.device:
            named.setdefault(device_constraint(op), op)
    if len(named) > 1:
        raise NotNative(list(named.values())[1], "names another device than the rest of the loop")
    device = _find_device(next(iter(named), DeviceSpec()), loop, target)
    if device.generator is None or not _runs_programs(device):
        what = "there is no code generator" if device.generator is None else "programs do not keep to memory limits"
        raise NotNative(loop, f"is on {short_device(device.spec)}, for which {what}")
    return Rules(
        device.generator, target.has_own_kernel, device.memory_limit is not None, str(device.spec) if named else ""
    )


def _find_device(wanted: DeviceSpec, loop: Operation, target: Target) -> DeviceTarget:
    """Return the first device that a constraint allows; NotNative if there is none."""
    found = next((device for device in target.devices if wanted.allows(device.spec)), None)
    if found is None:
        raise NotNative(loop, f"asks for {wanted}, which the session does not have")
    return found
