"""Faults of consumer groups, each of which is one of its own."""

from __future__ import annotations

from veristream.history.events import Event, Operation
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.broker import EVENTS, Client, Record, World
from veristream_testing.histories.clients import acknowledge
from veristream_testing.histories.plants.sending import send


class _Group:
    """A group that reads the end of one partition."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.partition = world.reserve(EVENTS)
        self.start = world.events[self.partition].end
        self.number = world.recorder.group("group")
        producer = world.recorder.process("producer")
        self.sent: list[tuple[int, Record]] = [
            send(world, producer, EVENTS, self.partition) for _ in range(3)
        ]

    def member(self) -> int:
        """Adds a member."""
        return self._world.recorder.process("member")

    def assign(self, process: int) -> Event:
        """Assigns the partition to a member, from where the group starts."""
        return self._once(process, Operation.ASSIGN, offset=self.start)

    def revoke(self, process: int) -> Event:
        """Takes the partition from a member."""
        return self._once(process, Operation.REVOKE)

    def _once(self, process: int, operation: Operation, **fields: int) -> Event:
        of = {"stream": EVENTS, "partition": self.partition, "group": self.number}
        return self._world.recorder.once(process, operation, **of, **fields)

    def process_all(self, process: int, but: int | None = None) -> Client:
        """Lets a member receive everything, and acknowledge all of it but one."""
        for number, at in enumerate(self.sent):
            received = self._world.receive(process, EVENTS, self.partition, at, group=self.number)
            yield
            if number != but:
                self._world.recorder.end(acknowledge(self._world, received))

    def commit(self, process: int, offset: int) -> Event:
        """Commits that all below an offset is processed."""
        of = {"stream": EVENTS, "partition": self.partition, "group": self.number}
        return self._world.recorder.call(process, Operation.COMMIT, offset=offset, **of)

    def anomaly(self, kind: str, event: Event) -> None:
        """Says that an event must be found to show an anomaly."""
        fields = {"partition": event.partition, "process": event.process, "index": event.index}
        self._world.anomalies.add(Anomaly(kind, stream=EVENTS, group=self.number, **fields))


def unprocessed(world: World) -> Client:
    """A group commits past a message that it received and did not process."""
    group = _Group(world)
    process = group.member()
    group.assign(process)
    but = world.random.randrange(3)
    yield from group.process_all(process, but)
    group.commit(process, group.start + 3)
    _, missed = group.sent[but]
    world.anomalies.add(
        Anomaly(
            "unprocessed",
            stream=EVENTS,
            partition=group.partition,
            group=group.number,
            producer=missed.producer,
            number=missed.number,
        )
    )


def overlapping_assignment(world: World) -> Client:
    """A member gets a partition while another one holds it."""
    group = _Group(world)
    one, other = group.member(), group.member()
    group.assign(one)
    yield
    group.anomaly("overlapping assignment", group.assign(other))
    yield
    group.revoke(one)


def lost_commit(world: World) -> Client:
    """A member starts where the group was before its last commit."""
    group = _Group(world)
    one, other = group.member(), group.member()
    group.assign(one)
    yield from group.process_all(one)
    group.commit(one, group.start + 3)
    group.revoke(one)
    yield
    group.anomaly("lost commit", group.assign(other))


def backward_commit(world: World) -> Client:
    """A member commits less than was committed."""
    group = _Group(world)
    process = group.member()
    group.assign(process)
    yield from group.process_all(process)
    group.commit(process, group.start + 3)
    yield
    group.anomaly("backward commit", group.commit(process, group.start + 1))
