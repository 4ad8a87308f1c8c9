"""Faults of logs. Each is at the end of a partition, so that nothing else follows from it."""

from __future__ import annotations

from veristream.history.events import NONE, Event, Outcome
from veristream.history.verdicts import Anomaly
from veristream_testing.histories.broker import EVENTS, Client, Record, World
from veristream_testing.histories.plants.sending import begin_send, record_of, send


def _of_message(kind: str, partition: int, record: Record | Event) -> Anomaly:
    return Anomaly(kind, stream=EVENTS, partition=partition, producer=record.producer, number=record.number)


def _at(kind: str, event: Event) -> Anomaly:
    return Anomaly(kind, stream=EVENTS, partition=event.partition, process=event.process, index=event.index)


def lost_write(world: World) -> Client:
    """A broker acknowledges a message and loses it."""
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    sent = begin_send(world, process, EVENTS, partition)
    yield
    world.recorder.end(sent, offset=world.events[partition].append(None))
    world.anomalies.add(_of_message("lost write", partition, sent))


def duplicate(world: World) -> Client:
    """A retry stores a message a second time; the client may not know any offset of it."""
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    sent = begin_send(world, process, EVENTS, partition)
    yield
    offset = world.events[partition].append(record_of(sent))
    world.events[partition].append(record_of(sent))
    world.recorder.end(sent, offset=world.random.choice((NONE, offset)))
    world.anomalies.add(_of_message("duplicate", partition, sent))


def nonmonotonic_send(world: World) -> Client:
    """Two messages that are under way at a time are stored in the wrong order."""
    yield from _swapped_sends(world, "nonmonotonic send", one_call=False)


def int_nonmonotonic_send(world: World) -> Client:
    """A call that sends two messages has them stored in the wrong order."""
    yield from _swapped_sends(world, "int-nonmonotonic send", one_call=True)


def _swapped_sends(world: World, kind: str, one_call: bool) -> Client:
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    one = begin_send(world, process, EVENTS, partition)
    other = begin_send(world, process, EVENTS, partition, call=one.call if one_call else None)
    yield
    log = world.events[partition]
    world.recorder.end(other, offset=log.append(record_of(other)))
    yield
    world.recorder.end(one, offset=log.append(record_of(one)))
    world.anomalies.add(_of_message(kind, partition, other))


def nonmonotonic_poll(world: World) -> Client:
    """A reader gets an earlier record once more."""
    yield from _polls(world, "nonmonotonic poll", (1, 0), one_call=False)


def int_nonmonotonic_poll(world: World) -> Client:
    """A reader gets one record twice in one call."""
    yield from _polls(world, "int-nonmonotonic poll", (0, 0), one_call=True)


def skipped_poll(world: World) -> Client:
    """A reader does not get the record between two."""
    yield from _polls(world, "skipped poll", (0, 2), one_call=False)


def int_skipped_poll(world: World) -> Client:
    """A reader does not get the record between two of one call."""
    yield from _polls(world, "int-skipped poll", (0, 2), one_call=True)


def _polls(world: World, kind: str, received: tuple[int, int], one_call: bool) -> Client:
    """Lets a reader receive two of three messages, of which the second shows an anomaly."""
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    sent = []
    for _ in range(3):
        sent.append(send(world, process, EVENTS, partition))
        yield
    reader = world.recorder.process("reader")
    before = world.receive(reader, EVENTS, partition, sent[received[0]])
    yield
    call = before.call if one_call else None
    after = world.receive(reader, EVENTS, partition, sent[received[1]], with_call=call)
    world.anomalies.add(_at(kind, after))


def inconsistent_offset(world: World) -> Client:
    """A message is acknowledged at the offset of another one."""
    partition = world.reserve(EVENTS)
    one = begin_send(world, world.recorder.process("producer"), EVENTS, partition)
    other = begin_send(world, world.recorder.process("producer"), EVENTS, partition)
    yield
    log = world.events[partition]
    offset = log.append(record_of(one))
    log.append(record_of(other))
    world.recorder.end(one, offset=offset)
    yield
    world.recorder.end(other, offset=offset)
    world.anomalies.add(Anomaly("inconsistent offset", stream=EVENTS, partition=partition, offset=offset))


def unexpected(world: World) -> Client:
    """A log has a message that nobody sent, or whose send failed."""
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    if world.random.random() < 0.5:
        sent = begin_send(world, process, EVENTS, partition)
        yield
        world.recorder.end(sent, Outcome.FAIL)
        record = record_of(sent)
    else:
        record = Record(process, world.number(process))
    world.events[partition].append(record)
    world.anomalies.add(_of_message("unexpected", partition, record))


def unexpected_unnamed(world: World) -> Client:
    """A log has a message that nobody can decode; `World.receive` says that this must be found."""
    partition = world.reserve(EVENTS)
    yield
    world.events[partition].append(Record(NONE, NONE, world.digest()))


def altered(world: World) -> Client:
    """A reader gets other bytes than were sent."""
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    offset, record = send(world, process, EVENTS, partition, digest=world.random.randint(1, 10**9))
    yield
    reader = world.recorder.process("reader")
    other = Record(record.producer, record.number, record.digest + 1)
    world.anomalies.add(_at("altered", world.receive(reader, EVENTS, partition, (offset, other))))


def leaked(world: World) -> Client:
    """A process that may not read receives two messages."""
    partition, process = world.reserve(EVENTS), world.recorder.process("producer")
    sent = [send(world, process, EVENTS, partition) for _ in range(2)]
    intruder = world.recorder.process("intruder")
    for each in sent:
        yield
        world.receive(intruder, EVENTS, partition, each)
    world.intruders.add((EVENTS, intruder))
    world.anomalies.add(Anomaly("leaked", stream=EVENTS, process=intruder))
