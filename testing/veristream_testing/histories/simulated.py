"""Histories of a simulated broker: clean ones, and ones in which anomalies are planted."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from veristream.history.events import NONE, Operation
from veristream.history.manifest import Manifest, Stream
from veristream_testing.histories.broker import EVENTS, JOBS, PAYMENTS, Client, Group, World
from veristream_testing.histories.clients import (
    acknowledge,
    consumer,
    member,
    poll,
    producer,
    reader,
    transactional,
)
from veristream_testing.histories.history import History
from veristream_testing.histories.plants.catalogue import PLANTS
from veristream_testing.histories.plants.sending import send


def clean_history(seed: int, size: int = 10, redelivery: bool = False) -> History:
    """Returns a history without anomalies, of about 10 to 20 times `size` events.

    With redelivery, messages of the queue come again, each of which is a `duplicate`.
    """
    return random_history(seed, (), size=size, redelivery=redelivery)


def random_history(
    seed: int, plants: Sequence[str] = (), *, size: int = 10, redelivery: bool = False
) -> History:
    """Returns a history with one anomaly or more for each of the plants, which `PLANTS` names."""
    random = Random(f"simulated {seed}")
    # A plant needs two partitions of one stream at most.
    world = World(random, random.randint(1, 2) + 2 * len(plants))
    world.redelivers = redelivery
    world.attempts_max = random.choice((None, 3)) if "too many attempts" not in plants else 3
    channels = [world.recorder.group("channel") for _ in range(random.randint(1, 2))]
    world.subscribe(random.choice(([NONE], channels)))
    _run(random, _sending(world, size))
    _run(random, [*_sending(world, size), *_transacting(world, size), *_reading(world, size)])
    _run(random, [PLANTS[plant](world) for plant in plants])
    if random.random() < 0.5:
        _settle(world)
    for group in sorted(world.under_way):
        world.finish(world.under_way[group], "aborted")
    _read_to_end(world)
    _drain(world)
    manifest = _manifest(world, random)
    return History(manifest, tuple(world.recorder.events), frozenset(world.anomalies))


def _run(random: Random, clients: list[Client]) -> None:
    """Lets clients take steps in any order, until all are done."""
    while clients:
        client = random.choice(clients)
        try:
            next(client)
        except StopIteration:
            clients.remove(client)


def _sending(world: World, size: int) -> list[Client]:
    return [
        producer(world, world.recorder.process("producer"), stream, world.random.randint(1, size))
        for stream in (EVENTS, EVENTS, JOBS)
    ]


def _transacting(world: World, size: int) -> list[Client]:
    random, recorder = world.random, world.recorder
    ids = [recorder.group("id") for _ in range(2)]
    reads = random.random() < 0.5
    return [
        transactional(
            world, recorder.process("transactional"), random.choice(ids), reads, random.randint(1, size)
        )
        for _ in range(3)
    ]


def _reading(world: World, size: int) -> list[Client]:
    random, recorder = world.random, world.recorder
    group = Group(recorder.group("group"), world.events, latest=random.random() < 0.3)
    clients = [
        member(world, recorder.process("member"), group, random.randint(size, 4 * size))
        for _ in range(random.randint(1, 3))
    ]
    for stream in (EVENTS, PAYMENTS):
        clients.append(reader(world, recorder.process("reader"), stream, random.randint(1, 2 * size)))
    for subscription in world.subscriptions:
        for _ in range(random.randint(1, 2)):
            process = recorder.process("consumer")
            clients.append(consumer(world, process, subscription, random.randint(1, 3 * size)))
    return clients


def _settle(world: World) -> None:
    """Commits a transaction in a log that has no others: whoever reads it to the end then, can."""
    recorder, partition = world.recorder, world.reserve(EVENTS)
    process, group = recorder.process("transactional"), recorder.group("id")
    named = {"transaction": 0, "group": group, "epoch": world.open(group)}
    recorder.call(process, Operation.OPEN, group=group, epoch=named["epoch"])
    recorder.call(process, Operation.BEGIN, **named)
    send(world, process, EVENTS, partition, transaction=0, epoch=named["epoch"])
    recorder.call(process, Operation.END_COMMIT, **named)


def _read_to_end(world: World) -> None:
    """Reads each partition of the logs from its beginning to its end."""
    recorder = world.recorder
    for stream, logs in ((EVENTS, world.events), (PAYMENTS, world.payments)):
        process = recorder.process("auditor")
        position = [0] * len(logs)
        for partition, log in enumerate(logs):
            while poll(world, process, stream, partition, position):
                pass
            of = {"stream": stream, "partition": partition}
            recorder.call(process, Operation.READ_TO_END, **of, number=0, offset=log.end)
            recorder.call(process, Operation.READ_TO_END, **of, number=log.end, offset=log.end)
        recorder.once(process, Operation.CLOSE)


def _drain(world: World) -> None:
    """Takes what is left of each subscription, and acknowledges it."""
    recorder = world.recorder
    for group in world.subscriptions:
        process = recorder.process("drain")
        for partition, queues in enumerate(world.jobs):
            while queues[group]:
                received = world.deliver(process, partition, group, queues[group].popleft())
                recorder.end(acknowledge(world, received))
            of = {"stream": JOBS, "partition": partition, "group": group}
            recorder.call(process, Operation.READ_TO_END, **of)


def _manifest(world: World, random: Random) -> Manifest:
    readers: list[tuple[int, ...] | None] = [None] * 3
    for stream in range(3):
        received = {
            event.process
            for event in world.recorder.events
            if event.operation is Operation.RECEIVE and event.stream == stream
        }
        intruders = {process for of, process in world.intruders if of == stream}
        if intruders or random.random() < 0.5:
            readers[stream] = tuple(sorted(received - intruders))
    streams = (
        Stream("events", readers=readers[EVENTS]),
        Stream("payments", readers=readers[PAYMENTS]),
        Stream("jobs", False, readers[JOBS], world.attempts_max, random.choice((None, 10**12))),
    )
    recorder = world.recorder
    return Manifest(
        "simulated", tuple(recorder.processes), streams, groups=tuple(recorder.groups), buckets=4
    )
