"""Clients of the simulated broker, and what goes wrong for them without being anybody's fault."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream_testing.histories.broker import (
    EVENTS,
    JOBS,
    PAYMENTS,
    Client,
    Group,
    Record,
    Transaction,
    World,
)


def producer(world: World, process: int, stream: int, calls: int) -> Client:
    """Sends calls of one or several messages to a log without transactions, or a queue."""
    random, recorder = world.random, world.recorder
    for _ in range(calls):
        yield
        partition = random.randrange(len(world.events))
        outcome = random.choices(
            (Outcome.OK, Outcome.FAIL, Outcome.INDEFINITE, None), weights=(8, 1, 1, 1)
        )[0]
        unknown = outcome in (Outcome.INDEFINITE, None) and random.random() < 0.5
        call: int | None = None
        begun = []
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            fields = {
                "stream": stream,
                "partition": NONE if unknown else partition,
                "producer": process,
                "number": world.number(process),
                "digest": world.digest(),
            }
            begun.append(recorder.begin(process, Operation.SEND, with_call=call, **fields))
            call = begun[0].call
        yield
        for event in begun:
            done = outcome is Outcome.OK or (outcome is not Outcome.FAIL and random.random() < 0.5)
            offset = store(world, stream, partition, event) if done else NONE
            if outcome is not None:
                known = outcome is Outcome.OK and random.random() < 0.9
                recorder.end(event, outcome, offset=offset if known else NONE)


def store(world: World, stream: int, partition: int, sent: Event) -> int:
    """Stores a message; returns its offset, if it has one."""
    record = Record(sent.producer, sent.number, sent.digest)
    if stream == EVENTS:
        return world.events[partition].append(record)
    for queue in world.jobs[partition].values():
        queue.append(record)
    return NONE


def transactional(world: World, process: int, group: int, reads: bool, count: int) -> Client:
    """Sends transactions until another process opens its id; some read committed messages before they send.

    Those that read send all at once: otherwise two transactions that are under way at a time could read of
    each other without the broker's fault.
    """
    random, recorder = world.random, world.recorder
    begun = recorder.begin(process, Operation.OPEN, group=group)
    yield
    epoch = world.open(group)
    recorder.end(begun, epoch=epoch)
    position = [0] * len(world.payments)
    for number in range(count):
        yield
        named = {"transaction": number, "group": group, "epoch": epoch}
        recorder.call(process, Operation.BEGIN, **named)
        if reads:
            partition = random.randrange(len(world.payments))
            poll(world, process, PAYMENTS, partition, position)
        transaction = Transaction()
        for _ in range(random.randint(0, 4)):
            if not reads:
                yield
            if not _send_in(world, process, transaction, named):
                recorder.once(process, Operation.CLOSE)
                return
        yield
        ended = yield from _end(world, process, transaction, named)
        if not ended:
            break
    recorder.once(process, Operation.CLOSE)


def _send_in(world: World, process: int, transaction: Transaction, named: dict[str, int]) -> bool:
    """Sends a message in a transaction; a producer that was fenced fails."""
    random, recorder = world.random, world.recorder
    partition = random.randrange(len(world.payments))
    sent = recorder.begin(
        process,
        Operation.SEND,
        stream=PAYMENTS,
        partition=partition,
        producer=process,
        number=world.number(process),
        digest=world.digest(),
        transaction=named["transaction"],
        epoch=named["epoch"],
    )
    if world.epochs[named["group"]] != named["epoch"]:
        recorder.end(sent, Outcome.FAIL, error="fenced")
        return False
    world.under_way[named["group"]] = transaction
    transaction.partitions.add(partition)
    record = Record(process, sent.number, sent.digest, transaction)
    recorder.end(sent, offset=world.payments[partition].append(record))
    return True


def _end(
    world: World, process: int, transaction: Transaction, named: dict[str, int]
) -> Generator[None, None, bool]:
    """Commits or aborts a transaction; returns whether the producer can go on."""
    random, recorder, group = world.random, world.recorder, named["group"]
    commits = random.random() < 0.75
    begun = recorder.begin(process, Operation.END_COMMIT if commits else Operation.END_ABORT, **named)
    yield
    if world.epochs[group] != named["epoch"]:
        recorder.end(begun, Outcome.FAIL, error="fenced")
        return False
    learns = random.random() < 0.9
    if learns or random.random() < 0.5:
        world.under_way.pop(group, None)
        world.finish(transaction, "committed" if commits else "aborted")
    if learns:
        yield
        recorder.end(begun)
    elif random.random() < 0.5:
        recorder.end(begun, Outcome.INDEFINITE, error="timed out")
    return learns


def poll(
    world: World, process: int, stream: int, partition: int, position: list[int], group: int = NONE
) -> list[Event]:
    """Receives some records from where the process is."""
    records = world.log(stream, partition).read(position[partition], world.random.randint(1, 4))
    call: int | None = None
    received = []
    for at in records:
        event = world.receive(process, stream, partition, at, with_call=call, group=group)
        call = event.call
        position[partition] = event.offset + 1
        received.append(event)
    return received


def reader(world: World, process: int, stream: int, polls: int) -> Client:
    """Reads all partitions of a log, and seeks now and then."""
    random = world.random
    position = [0] * len(world.events)
    for _ in range(polls):
        yield
        partition = random.randrange(len(position))
        if random.random() < 0.1:
            position[partition] = random.randint(0, position[partition])
            world.recorder.once(
                process, Operation.SEEK, stream=stream, partition=partition, offset=position[partition]
            )
        poll(world, process, stream, partition, position)


@dataclass(slots=True)
class _Position:
    """Where a member of a group is in the partitions that it holds."""

    next: list[int]
    held: list[int]


def member(world: World, process: int, group: Group, rounds: int) -> Client:
    """Receives, acknowledges and commits as a member of a group, then leaves it or is killed."""
    group.join(process)
    here = _Position([0] * len(world.events), [])
    for _ in range(rounds):
        yield
        if group.rebalancing:
            yield from _rebalance(world, process, group, here)
        elif here.held:
            yield from _work(world, process, group, here)
    if world.random.random() < 0.5:
        yield from _give_up(world, process, group, here)
    world.recorder.once(process, Operation.CLOSE)
    group.leave(process)


def _rebalance(world: World, process: int, group: Group, here: _Position) -> Client:
    yield from _give_up(world, process, group, here)
    while group.rebalancing:
        group.give_up(process)
        yield
    for partition in group.assigned[process]:
        start = here.next[partition] = group.start(partition)
        told = group.latest or world.random.random() < 0.9
        here.held.append(partition)
        world.recorder.once(
            process,
            Operation.ASSIGN,
            stream=EVENTS,
            partition=partition,
            group=group.number,
            epoch=group.generation,
            offset=start if told else NONE,
        )


def _give_up(world: World, process: int, group: Group, here: _Position) -> Client:
    while here.held:
        partition = here.held.pop()
        yield from _commit(world, process, group, partition, here.next[partition])
        of = {"stream": EVENTS, "partition": partition, "group": group.number, "epoch": group.generation}
        world.recorder.once(process, Operation.REVOKE, **of)


def _work(world: World, process: int, group: Group, here: _Position) -> Client:
    partition = world.random.choice(here.held)
    received = poll(world, process, EVENTS, partition, here.next, group.number)
    for event in received:
        begun = acknowledge(world, event)
        yield
        if world.random.random() < 0.95:
            world.recorder.end(begun)
    if world.random.random() < 0.5:
        yield from _commit(world, process, group, partition, here.next[partition])


def acknowledge(world: World, received: Event, operation: Operation = Operation.ACKNOWLEDGE) -> Event:
    """Begins to acknowledge or reject what was received."""
    of = replace(received, digest=0, attempt=NONE)
    return world.recorder.begin(
        of.process,
        operation,
        stream=of.stream,
        partition=of.partition,
        offset=of.offset,
        producer=of.producer,
        number=of.number,
        group=of.group,
    )


def _commit(world: World, process: int, group: Group, partition: int, offset: int) -> Client:
    random, recorder = world.random, world.recorder
    begun = recorder.begin(
        process,
        Operation.COMMIT,
        stream=EVENTS,
        partition=partition,
        offset=offset,
        group=group.number,
        epoch=group.generation,
    )
    yield
    outcome = random.choices((Outcome.OK, Outcome.FAIL, Outcome.INDEFINITE), weights=(8, 1, 1))[0]
    if outcome is Outcome.OK or (outcome is Outcome.INDEFINITE and random.random() < 0.5):
        group.committed[partition] = offset
    recorder.end(begun, outcome)


def consumer(world: World, process: int, group: int, rounds: int) -> Client:
    """Takes messages of one subscription within a limit, and acknowledges or rejects them."""
    random, recorder = world.random, world.recorder
    limit = random.randint(1, 4)
    recorder.once(process, Operation.READY, stream=JOBS, group=group, number=limit)
    held: list[tuple[Event, Record]] = []
    for _ in range(rounds):
        yield
        partition = random.randrange(len(world.jobs))
        queue = world.jobs[partition][group]
        if random.random() < 0.1:
            limit = random.randint(1, 4)
            recorder.once(process, Operation.READY, stream=JOBS, group=group, number=limit)
        elif queue and len(held) < limit:
            record = queue.popleft()
            held.append((world.deliver(process, partition, group, record), record))
        elif held:
            event, record = held.pop(random.randrange(len(held)))
            yield from _answer(world, event, record, queue=world.jobs[event.partition][group])
    while held and not (world.redelivers and random.random() < 0.2):
        event, record = held.pop()
        yield from _answer(world, event, record, queue=world.jobs[event.partition][group])
    recorder.once(process, Operation.CLOSE)
    for event, record in held:
        put_back(world, record, world.jobs[event.partition][group])


def _answer(world: World, event: Event, record: Record, queue: deque[Record]) -> Client:
    """Acknowledges or rejects a message; one that was rejected comes again."""
    random = world.random
    rejects = world.redelivers and random.random() < 0.3
    begun = acknowledge(world, event, Operation.REJECT if rejects else Operation.ACKNOWLEDGE)
    yield
    learns = random.random() < 0.9
    lost = world.redelivers and not learns and random.random() < 0.5
    if rejects or lost:
        put_back(world, record, queue)
    world.recorder.end(begun, Outcome.OK if learns else Outcome.INDEFINITE)


def put_back(world: World, record: Record, queue: deque[Record]) -> None:
    """Delivers a message again, unless it has been tried often enough."""
    if world.attempts_max is None or record.attempt < world.attempts_max:
        queue.append(replace(record, attempt=record.attempt + 1))
