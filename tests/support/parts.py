"""Parts of a step that never see each other's memory: groups of machines, and the transport between them."""

import pickle
import random

from tagloom.kernels.core.table import Kind
from tagloom.kernels.memory.contexts import KernelContexts
from tagloom.kernels.scheduler.group import MachineGroup
from tagloom.kernels.scheduler.machine import StepMachine
from tagloom.kernels.scheduler.rendezvous import MessageRefused, RemoteChannel, Rendezvous


def task_name(number):
    return f"/job:worker/task:{number}"


def start_part(tables, num_channels, remote, feeds, fetches=None, seed=None, step=None):
    """Return the group of a task: a machine for each of its devices, with a rendezvous of their own.

    `tables` and `feeds` are lists with an item for each device; `fetches` are those of all devices unless given.
    """
    rendezvous = Rendezvous(num_channels, remote)
    machines = [
        StepMachine(each, step, list(fed), None if seed is None else seed + i, rendezvous=rendezvous)
        for i, (each, fed) in enumerate(zip(tables, feeds, strict=True))
    ]
    places = [(i, k) for i, each in enumerate(tables) for k in range(each.plan.num_fetches)]
    contexts = [KernelContexts() for _ in tables]
    return MachineGroup(machines, contexts, rendezvous, places if fetches is None else fetches)


def remote_channels(tasks):
    """Return the remote channels of each task; `tasks` lists the plans of each, as Planner makes them."""
    ends = {}
    for number, plans in enumerate(tasks):
        for node in (node for plan in plans for node in plan.nodes):
            if node.kind in (Kind.SEND, Kind.RECV):
                ends.setdefault(node.index, {})[node.kind] = number, node
    found = [[] for _ in tasks]
    for channel, both in sorted(ends.items()):
        sender, receiver = both[Kind.SEND][0], both[Kind.RECV][0]
        dtype = both[Kind.RECV][1].outputs[0]
        if sender != receiver:
            name = f"t{channel}:0"
            found[sender].append(RemoteChannel(channel, task_name(receiver), dtype, name, True))
            found[receiver].append(RemoteChannel(channel, task_name(sender), dtype, name, False))
    return found


class Network:
    """Messages under way between parts, each delivered alone, by a random choice.

    Attributes
    ----------
    under_way : list of (str, str, bytes)
        Sender ("" for a copy), receiver and pickle of each message that was taken and not delivered.
    carried : list of (MessageKey, value)
        All that was delivered.
    doubled, refused : int
        Messages that were sent on a second time, and deliveries that were refused.
    """

    def __init__(self, parts, seed=0, hold=0.5, double=0.0):
        self.parts = {task_name(i): part for i, part in enumerate(parts)}
        self.random = random.Random(seed)
        self.hold = hold  # probability to let the machines run on instead of delivering a message
        self.double = double  # probability to deliver a message once more, later
        self.under_way, self.carried = [], []
        self.doubled = self.refused = 0

    def collect(self, name):
        """Drain a part and take its messages, until it has neither something to run nor something to send."""
        part = self.parts[name]
        while part.failure is None:
            part.drain(10.0)
            taken = part.rendezvous.take_outbox()
            for key, value in taken:
                receiver = part.rendezvous.remote[key.channel].peer
                self.under_way.append((name, receiver, pickle.dumps((key, value))))
            if not taken:
                return

    def deliver_one(self):
        """Deliver a message that is under way, chosen at random."""
        sender, receiver, data = self.under_way.pop(self.random.randrange(len(self.under_way)))
        if sender and self.random.random() < self.double:
            self.under_way.append(("", receiver, data))
            self.doubled += 1
        key, value = pickle.loads(data)
        try:
            self.parts[receiver].rendezvous.deliver(key, value)
        except MessageRefused:
            self.refused += 1
        else:
            self.carried.append((key, value))

    def run(self):
        """Run all parts until nothing moves any more."""
        names = list(self.parts)
        for name in self.random.sample(names, len(names)):
            self.collect(name)
        while self.under_way:
            self.deliver_one()
            while self.under_way and self.random.random() < self.hold:
                self.deliver_one()
            for name in self.random.sample(names, len(names)):
                self.collect(name)


def finish(parts):
    """Return the fetches of parts that are done, a list for each; raise the first error."""
    for part in parts:
        assert part.failure is None, part.failure
        assert part.done, part.dump()
        assert not part.stuck, part.dump()
    fetches = [part.fetches for part in parts]
    for part in parts:
        part.close()
    return fetches
