"""Faults of transactions."""

from __future__ import annotations

from veristream.history.events import Event, Operation
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.broker import EVENTS, PAYMENTS, Client, Record, Transaction, World
from veristream_testing.histories.plants.sending import begin_send, record_of, send


class _Sender:
    """A transactional producer with an id of its own, unless it takes that of another one."""

    def __init__(self, world: World, group: int | None = None) -> None:
        self._world = world
        self.process = world.recorder.process("transactional")
        self.group = world.recorder.group("id") if group is None else group
        world.epochs[self.group] += 1
        self._epoch = world.epochs[self.group]
        self._transaction = Transaction()
        world.recorder.call(self.process, Operation.OPEN, group=self.group, epoch=self._epoch)

    @property
    def _named(self) -> dict[str, int]:
        return {"transaction": 0, "group": self.group, "epoch": self._epoch}

    def begin(self) -> None:
        """Begins the only transaction."""
        self._world.recorder.call(self.process, Operation.BEGIN, **self._named)

    def send(self, partition: int) -> tuple[int, Record]:
        """Sends a message in the transaction."""
        sent = begin_send(self._world, self.process, PAYMENTS, partition, transaction=0, epoch=self._epoch)
        record = record_of(sent, transaction=self._transaction)
        self._transaction.partitions.add(partition)
        offset = self._world.payments[partition].append(record)
        self._world.recorder.end(sent, offset=offset)
        return offset, record

    def commit(self) -> Event:
        """Commits the transaction."""
        begun = self._world.recorder.begin(self.process, Operation.END_COMMIT, **self._named)
        self._world.finish(self._transaction, "committed")
        return self._world.recorder.end(begun)

    def abort(self) -> None:
        """Aborts the transaction."""
        begun = self._world.recorder.begin(self.process, Operation.END_ABORT, **self._named)
        self._world.finish(self._transaction, "aborted")
        self._world.recorder.end(begun)


def _at(kind: str, event: Event) -> Anomaly:
    return Anomaly(
        kind, stream=PAYMENTS, partition=event.partition, process=event.process, index=event.index
    )


def aborted_read(world: World) -> Client:
    """A reader gets a message of a transaction that was aborted, or will be."""
    partition, sender = world.reserve(PAYMENTS), _Sender(world)
    sender.begin()
    yield
    at = sender.send(partition)
    before = world.random.random() < 0.5
    if not before:
        sender.abort()
    yield
    reader = world.recorder.process("reader")
    world.anomalies.add(_at("aborted read", world.receive(reader, PAYMENTS, partition, at)))
    if before:
        sender.abort()


def precommitted_read(world: World) -> Client:
    """A reader gets a message before its transaction is committed, which it may never be."""
    partition, sender = world.reserve(PAYMENTS), _Sender(world)
    sender.begin()
    yield
    at = sender.send(partition)
    yield
    reader = world.recorder.process("reader")
    world.anomalies.add(_at("precommitted read", world.receive(reader, PAYMENTS, partition, at)))
    yield
    if world.random.random() < 0.5:
        sender.commit()
    else:
        world.under_way[sender.group] = sender._transaction


def torn_transaction(world: World) -> Client:
    """A reader gets a message of a transaction, and misses another one in a partition that it read."""
    partitions = [world.reserve(PAYMENTS), world.reserve(PAYMENTS)]
    sender = _Sender(world)
    sender.begin()
    yield
    sent = [(partition, sender.send(partition)) for partition in partitions]
    yield
    sender.commit()
    reader = world.recorder.process("reader")
    seen = world.random.randrange(2)
    world.receive(reader, PAYMENTS, *sent[seen])
    for partition, (offset, _) in sent:
        yield
        of = {"stream": PAYMENTS, "partition": partition, "number": offset, "offset": offset + 2}
        world.recorder.call(reader, Operation.READ_TO_END, **of)
    world.anomalies.add(Anomaly("torn transaction", process=reader, producer=sender.process, transaction=0))


def cycle(world: World) -> Client:
    """A transaction reads a message of another one that was stored after its own."""
    one, other = _Sender(world), _Sender(world)
    partitions = [world.reserve(PAYMENTS), world.reserve(PAYMENTS)]
    one.begin()
    other.begin()
    yield
    one.send(partitions[0])
    yield
    other.send(partitions[0])
    at = other.send(partitions[1])
    yield
    other.commit()
    yield
    world.receive(one.process, PAYMENTS, partitions[1], at)
    yield
    one.commit()
    world.anomalies.add(Anomaly("G1c", process=min(one.process, other.process), transaction=0))


def zombie_commit(world: World) -> Client:
    """A producer commits after another one took its id."""
    partition, sender = world.reserve(PAYMENTS), _Sender(world)
    sender.begin()
    yield
    sender.send(partition)
    yield
    _Sender(world, sender.group)
    yield
    commit = sender.commit()
    world.anomalies.add(
        Anomaly("zombie commit", group=sender.group, process=sender.process, index=commit.index)
    )


def hanging_transaction(world: World) -> Client:
    """A reader stops before a message that nobody holds back, since all transactions there are over.

    That is seen only where no other producer may have a transaction under way.
    """
    partition, sender, log = world.reserve(EVENTS), _Sender(world), world.events
    sender.begin()
    sent = begin_send(world, sender.process, EVENTS, partition, transaction=0)
    held = log[partition].append(record_of(sent))
    world.recorder.end(sent, offset=held)
    sender.commit()
    yield
    plain, _ = send(world, world.recorder.process("producer"), EVENTS, partition)
    yield
    reader = world.recorder.process("reader")
    of = {"stream": EVENTS, "partition": partition}
    read = world.recorder.call(reader, Operation.READ_TO_END, **of, number=0, offset=held + 1)
    world.anomalies.add(
        Anomaly("hanging transaction", stream=EVENTS, partition=partition, process=reader, index=read.index)
    )
    yield
    world.recorder.call(reader, Operation.READ_TO_END, **of, number=plain + 1, offset=plain + 1)
