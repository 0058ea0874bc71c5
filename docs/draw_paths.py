"""Draw the paths through the code: ``python docs/draw_paths.py`` writes ``docs/paths/``.

Each picture lists the steps of a path in order, and the module of each step. ARCHITECTURE.md
tells the paths in sentences; `tests/architecture/test_paths.py` compares the pictures with new
drawings, and finds each module and symbol of the table in the sources.
"""

import runpy
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "paths"
LAYERS = runpy.run_path(str(ROOT / "docs" / "draw_layers.py"))  # colours and sizes
WIDTH, MARGIN, BOX = (LAYERS[name] for name in ("WIDTH", "MARGIN", "BOX"))
CHARACTER, FONT, COLORS = (LAYERS[name] for name in ("CHARACTER", "FONT", "COLORS"))
NUMBER, LABEL, PLACE = 34, 56, 400  # pixels from the left: circle, label, box of a step
RADIUS, INSET, BETWEEN = 10, 3, 4  # of a circle; around a box; between bands

# A path is a title and its steps: the event, and "module" or "module: symbol".
PATHS = {
    "while_loop": (
        "From the call of while_loop to the iterations of the loop",
        [
            ("check the arguments", "engine/frontend/control/loops.py: while_loop"),
            (
                "trace predicate and body into regions",
                "engine/frontend/control/loop_tracing.py: TracedLoop",
            ),
            ("append the While", "engine/ir/structured.py: make_while"),
            (
                "build the loop that counts down",
                "engine/gradients/loops.py: WhileGradient",
            ),
            (
                "read forward values, saved if necessary",
                "engine/gradients/forward_values.py: ForwardValues",
            ),
            (
                "run the passes on whole loops",
                "engine/compile/pipeline.py: compile_step",
            ),
            (
                "add a native program where possible",
                "engine/compile/native/wrap.py: run_natively",
            ),
            ("make primitives of the loop", "engine/compile/lower/lowering.py: lower"),
            ("number operations and frames", "engine/compile/step_plan.py: plan_step"),
            ("build the C tables", "kernels/scheduler/plan.pyx: CompiledPlan"),
            (
                "take ready instances from the queue",
                "kernels/scheduler/machine.pyx: StepMachine",
            ),
            (
                "move values through the primitives",
                "kernels/scheduler/primitives.pxd: fire_live",
            ),
            (
                "begin an iteration in the window",
                "kernels/scheduler/delivery.pxd: start_iteration",
            ),
        ],
    ),
    "step": (
        "From Session.run to the fetched values",
        [
            (
                "refuse calls of a closed session",
                "engine/runtime/session/session.py: Session.run",
            ),
            (
                "match fed values with tensors",
                "engine/runtime/steps/feeds.py: split_feeds",
            ),
            ("flatten the fetches", "engine/runtime/steps/request.py: make_request"),
            (
                "find or compile the step",
                "engine/runtime/steps/compiler.py: StepCompiler.find_or_compile",
            ),
            (
                "wait for a place among max_steps",
                "engine/runtime/scheduling/admission.py: Admission.enter",
            ),
            (
                "convert feeds, specialize the step",
                "engine/runtime/steps/runner.py: StepRunner._run_step",
            ),
            (
                "wait while variables are saved or restored",
                "engine/runtime/scheduling/boundary.py: StepBoundary.pass_by",
            ),
            (
                "wait for memory",
                "engine/runtime/steps/memory_places.py: MemoryPlaces.place",
            ),
            (
                "start a machine for each device",
                "engine/runtime/steps/launch.py: launch",
            ),
            (
                "drain, await, and drain again",
                "engine/runtime/steps/execution.py: MachineExecution.run",
            ),
            (
                "run ready instances for a time slice",
                "kernels/scheduler/machine.pyx: StepMachine.drain",
            ),
            (
                "return the values, or raise the failure",
                "engine/runtime/steps/execution.py: outcome",
            ),
            (
                "pack the values, owned by the caller",
                "engine/runtime/steps/request.py: Request.pack",
            ),
        ],
    ),
    "function": (
        "From the call of a function to its result",
        [
            (
                "bind the arguments, make the key of the trace",
                "engine/runtime/functions/arguments.py: Parameters.bind",
            ),
            ("return a coroutine", "engine/runtime/functions/calls.py: Call"),
            (
                "find the session of the event loop",
                "engine/runtime/functions/sessions.py: default_session",
            ),
            (
                "find the trace, or make one in a thread",
                "engine/runtime/functions/function.py: Function._await_trace",
            ),
            (
                "call the Python function with placeholders",
                "engine/runtime/functions/function.py: Function._build_trace",
            ),
            (
                "find the variables of earlier traces",
                "engine/frontend/tracing/function_scope.py: FunctionScope",
            ),
            (
                "let a result wait for the effects",
                "engine/frontend/tracing/function_scope.py: with_effects",
            ),
            (
                "move variables into the session",
                "engine/runtime/functions/sessions.py: FunctionState.used",
            ),
            (
                "initialize variables, compile the step",
                "engine/runtime/functions/concrete.py: ConcreteFunction.step",
            ),
            ("run the step with the arguments", "engine/runtime/steps/step.py: Step"),
        ],
    ),
    "swapped_value": (
        "From the push of a saved value to the read that gets it back",
        [
            (
                "save a forward value as a series",
                "engine/ir/structured.py: save_series",
            ),
            (
                "apply the option of the session",
                "engine/compile/loops/mark_swappable.py: set_swap_memory",
            ),
            (
                "mark the last read of each slot",
                "engine/compile/loops/release.py: release_saved",
            ),
            (
                "mark the SeriesPush as swappable",
                "engine/compile/lower/lowering.py: lower",
            ),
            (
                "open a swapper for the step",
                "engine/runtime/memory/session_swap.py: Swapping.begin",
            ),
            (
                "store the pushed value in its slot",
                "kernels/scheduler/saving.pyx: run_series",
            ),
            (
                "compare the bytes in use with the threshold",
                "kernels/memory/saved_slots.pyx: SavedSlots",
            ),
            ("choose the oldest values", "swap/eviction.py: EvictionQueue"),
            ("copy them out", "streams/contract.py: Device.copy_all_out"),
            ("keep the state of each value", "swap/entry.py: SwapEntry"),
            ("at a read, copy the value back", "swap/swapper.py: StepSwapper.read"),
            ("copy the values of the next reads ahead", "swap/prefetch.py: Prefetcher"),
            ("wait for the copy as a task", "kernels/scheduler/optask.pyx: OpTask"),
            ("deliver the array", "kernels/scheduler/state.pyx: StepState.finish"),
        ],
    ),
    "message": (
        "From an edge between two devices to the delivered value",
        [
            (
                "assign a device to each operation",
                "engine/compile/place/placement.py: place",
            ),
            (
                "cut the edge into Send and Recv",
                "engine/compile/partition/cut.py: Cutter",
            ),
            (
                "drive the iterations of the receiver",
                "engine/compile/partition/control_loops.py: ControlLoops",
            ),
            (
                "choose the channels that report deadness",
                "engine/compile/partition/dead_leaders.py: dead_leaders",
            ),
            ("make a plan for each device", "engine/compile/step_plan.py: plan_step"),
            (
                "make the rendezvous and the machines",
                "engine/runtime/steps/launch.py: launch",
            ),
            ("fire the Send", "kernels/scheduler/rendezvous.pxd: send"),
            (
                "find the Recv by its key, wake its machine",
                "kernels/scheduler/rendezvous.pxd: deliver_received",
            ),
            ("visit the machine", "kernels/scheduler/group.pyx: MachineGroup.drain"),
            ("take up the Recv", "kernels/scheduler/primitives.pxd: fire_recv"),
            (
                "copy an array into the receiver's memory",
                "kernels/scheduler/copying.pyx: copy_received",
            ),
            (
                "to another process: empty the outbox",
                "kernels/scheduler/rendezvous.pyx: Rendezvous.take_outbox",
            ),
        ],
    ),
    "cancelled_step": (
        "From a cancellation to a session as before the step",
        [
            (
                "raise CancelledError where the step waits",
                "engine/runtime/steps/execution.py: MachineExecution",
            ),
            (
                "end the waits in resources",
                "engine/runtime/resources/manager.py: ResourceManager.cancel_step",
            ),
            (
                "cancel the tasks of the step",
                "kernels/scheduler/optask.pyx: OpTask.cancel",
            ),
            (
                "wait until all tasks have ended",
                "engine/base/waiting.py: wait_shielded",
            ),
            ("withdraw copies, wait for those under way", "swap/copies.py: SwapCopies"),
            (
                "drop messages, frames and values",
                "kernels/scheduler/state.pyx: StepState.close",
            ),
            (
                "take back work that no thread has begun",
                "kernels/scheduler/workers.pyx: close_inbox",
            ),
            (
                "watch kernels that still run",
                "engine/runtime/scheduling/worker_pool.py: WorkerPool",
            ),
            (
                "let other steps have the memory",
                "engine/runtime/memory/arbiter.py: MemoryArbiter.unregister",
            ),
            (
                "close the step's own resources",
                "engine/runtime/resources/manager.py: ResourceManager.aclose_step",
            ),
            ("note the end", "engine/runtime/steps/runner.py: StepRunner.end"),
            (
                "return elements to their queues",
                "engine/runtime/resources/manager.py: ResourceManager.give_back",
            ),
            (
                "let the next step in",
                "engine/runtime/scheduling/admission.py: Admission.leave",
            ),
        ],
    ),
    "gpu_kernel": (
        "From the definition of an operation to its launch on a GPU",
        [
            ("define the operation", "engine/ir/definition.py: define"),
            (
                "fuse it with its neighbours",
                "engine/compile/fuse/groups.py: fuse_elementwise",
            ),
            (
                "insert copies from and to the host",
                "engine/compile/transfers.py: insert_transfers",
            ),
            (
                "ask the device's backend for a kernel",
                "engine/runtime/devices/arrays_backend.py: ArraysBackend.kernel",
            ),
            (
                "bind the definition's kernel to CuPy",
                "engine/runtime/devices/device_kernel.py: DeviceKernel",
            ),
            ("prefer a kernel in CUDA C", "kernels/cuda/registry.py: find_compiled"),
            (
                "call the kernel of the node",
                "kernels/scheduler/machine.pyx: StepMachine",
            ),
            (
                "copy inputs to the device",
                "engine/runtime/devices/device_values.py: DeviceValues.copy_in",
            ),
            (
                "set context, stream and allocator",
                "streams/cuda/arrays.py: CupyArrays.call",
            ),
            (
                "write a fused operation as a function",
                "kernels/cuda/writing.py: write_fused",
            ),
            ("compile it once", "kernels/cuda/launching.py: find_function"),
            (
                "hold back if much work is queued",
                "streams/cuda/device.py: CudaDevice.backpressure",
            ),
            ("deliver the result", "kernels/scheduler/state.pyx: StepState"),
        ],
    ),
}


def split_place(place):
    """Return the module of a place and its symbol, "" for the module as a whole."""
    module, _, symbol = place.partition(": ")
    return module, symbol


def draw_step(number, top, label, place):
    """Return the parts of a step: its band, number, label, and the box of its place."""
    middle, color = top + BOX / 2 + INSET, COLORS[place.split("/")[0]]
    width = len(place) * CHARACTER + 16
    return [
        f"<rect x='{MARGIN}' y='{top}' width='{WIDTH - 2 * MARGIN}' height='{BOX + 2 * INSET}' rx='6' fill='#f6f6f4'/>",
        f"<circle cx='{NUMBER}' cy='{middle:g}' r='{RADIUS}' fill='#ffffff' stroke='#888'/>",
        f"<text x='{NUMBER}' y='{middle + 4:g}' fill='#444' text-anchor='middle'>{number}</text>",
        f"<text x='{LABEL}' y='{middle + 4:g}' fill='#444'>{escape(label)}</text>",
        f"<rect x='{PLACE}' y='{top + INSET}' width='{width:g}' height='{BOX}' rx='4' fill='{color}'/>",
        f"<text x='{PLACE + 8}' y='{middle + 4:g}' fill='#111'>{escape(place)}</text>",
    ]


def draw_arrow(top, bottom):
    """Return the arrow from the number of a step to the next number."""
    points = (
        f"{NUMBER - 3},{bottom - 5:g} {NUMBER + 3},{bottom - 5:g} {NUMBER},{bottom:g}"
    )
    return [
        f"<path d='M{NUMBER} {top:g}V{bottom - 5:g}' stroke='#888'/>",
        f"<polygon points='{points}' fill='#888'/>",
    ]


def draw(title, steps):
    """Return the picture of a path as SVG: a band for each step, from top to bottom."""
    parts, height = [], BOX + 2 * INSET
    for number, (label, place) in enumerate(steps):
        top = MARGIN + number * (height + BETWEEN)
        parts += draw_step(number + 1, top, label, place)
    first, pitch = MARGIN + height / 2, height + BETWEEN
    for number in range(len(steps) - 1):
        middle = first + number * pitch
        parts += draw_arrow(middle + RADIUS, middle + pitch - RADIUS)
    total = 2 * MARGIN + len(steps) * pitch - BETWEEN
    size = f"width='{WIDTH}' height='{total}' viewBox='0 0 {WIDTH} {total}'"
    told = "; ".join(f"{label} ({place})" for label, place in steps)
    names = f"<title>{escape(title)}</title>\n<desc>{escape(told)}</desc>"
    back = f"<rect width='{WIDTH}' height='{total}' fill='#ffffff'/>"
    body = "\n".join(parts)
    opening = f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size} {FONT}>"
    return f"{opening}\n{names}\n{back}\n{body}\n</svg>\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, path in PATHS.items():
        (FOLDER / f"{name}.svg").write_text(draw(*path))
