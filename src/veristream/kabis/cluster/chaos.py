"""Chaos: a real cluster, faults injected while events flow, and what became of every event.

A trial pushes events one after the other, has one party misbehave in the middle of it, and reads everything
back with a consumer that validates. It is lost if an acknowledged event is missing, doubled, changed or out
of order; whatever was not acknowledged may be there once or not at all.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.client.administration import Replica, act_all, visit
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.pushes import Pushed
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.accusations import wait_for_accusations
from veristream.kabis.cluster.cluster import Cluster, Start
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.records import Record

PATIENCE_S = 60.0
QUIET_S = 1.0
"""How long nothing comes before a consumer believes that nothing is left."""
TOPIC = "chaos"
BATCH_EVENTS = 5
"""Small batches, so that a fault meets many of them."""


class Fault(StrEnum):
    """What is injected."""

    ALTER = "alter"
    WITHHOLD = "withhold"
    KILL_STORAGE = "kill-storage"
    EQUIVOCATE = "equivocate"
    SILENT = "silent"
    KILL_VALIDATOR = "kill-validator"
    KILL_PRODUCER = "kill-producer"
    KILL_ALL = "kill-all"


TRIED: Mapping[Fault, str] = {
    Fault.ALTER: "storage-1 changes every event that it gives back",
    Fault.WITHHOLD: "storage-2 gives receipts, and then nothing",
    Fault.KILL_STORAGE: "storage-3 is killed (-9), and comes back",
    Fault.EQUIVOCATE: "validator-1 contradicts each of its votes",
    Fault.SILENT: "validator-2 says nothing, and drops what clients submit",
    Fault.KILL_VALIDATOR: "validator-3 is killed (-9), and comes back",
    Fault.KILL_PRODUCER: "the producer is killed (-9), and starts again",
    Fault.KILL_ALL: "all parties are killed (-9) at once, and come back",
}
LYING_STORAGE: Mapping[Fault, str] = {Fault.ALTER: "storage-1", Fault.WITHHOLD: "storage-2"}
"""Whom the consumer asks first, so that it meets the lie."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one fault did: `problems` are empty if nothing was lost."""

    fault: Fault
    acknowledged: int
    delivered: int
    seconds: float
    evidence: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(slots=True)
class Told:
    """What the producer was told: where each acknowledged event stands."""

    indices: dict[int, bytes] = field(default_factory=dict)


def run_trials(
    cluster: Cluster, faults: Sequence[Fault], events: int, report: Callable[[Trial], None]
) -> list[Trial]:
    """Runs a trial for each fault on a cluster that is up; all parties are correct again afterwards."""
    access = Access(cluster.folder)
    topic = SetTopic(TOPIC, 1, validated=True)
    act_all(access.genesis, access.admin(), access.author(ADMIN), [topic])
    trials = []
    for fault in faults:
        trial = run_trial(cluster, fault, events)
        report(trial)
        trials.append(trial)
    return trials


def run_trial(cluster: Cluster, fault: Fault, events: int) -> Trial:
    """Pushes events under a fault, and reads back what came of them."""
    began_s = time.monotonic()
    access = Access(cluster.folder)
    first = end_index(access)
    caught: dict[str, int] = {}
    if fault is Fault.KILL_PRODUCER:
        told = push_and_die(access, events)
        read, suspects = read_back(access, first, told)
    else:
        with injected(cluster, fault) as strike:
            told = push(access, fault, events, strike)
            read, suspects = read_back(access, first, told, LYING_STORAGE.get(fault))
            if fault is Fault.EQUIVOCATE:
                caught = wait_for_accusations(access, PATIENCE_S)
    problems = find_problems(told, read)
    if fault is Fault.EQUIVOCATE and not caught:
        problems.append("no evidence against the validator is on the ledger")
    if LYING_STORAGE.get(fault) not in suspects and _is_noticeable(access, fault, first):
        problems.append("the consumer did not notice the storage party")
    return Trial(
        fault,
        len(told.indices),
        len(read),
        time.monotonic() - began_s,
        (
            *(f"{name} caught in block {height}" for name, height in caught.items()),
            *(f"{count} bad answers of {name}" for name, count in suspects.items()),
        ),
        tuple(problems),
    )


@contextmanager
def injected(cluster: Cluster, fault: Fault) -> Iterator[Callable[[], None]]:
    """Has a party misbehave; gives what is to be done in the middle of a trial. Then all is well again."""
    liar = {**LYING_STORAGE, Fault.EQUIVOCATE: "validator-1", Fault.SILENT: "validator-2"}.get(fault)
    victims = {Fault.KILL_STORAGE: ["storage-3"], Fault.KILL_VALIDATOR: ["validator-3"]}.get(fault)
    if liar is not None:
        cluster.restart(liar, Start(faults={liar: fault.value}))
        yield lambda: None
        cluster.restart(liar)
        return
    if victims is None:
        yield lambda: _kill(cluster, cluster.names(), restart=True)
    else:
        yield lambda: _kill(cluster, victims, restart=False)  # the rest is pushed and read without them
        cluster.start(names=victims)


def _kill(cluster: Cluster, names: Sequence[str], *, restart: bool) -> None:
    for name in names:
        cluster.kill(name)
    if restart:
        cluster.start(names=names)


# Producing.


def push(access: Access, fault: Fault, events: int, strike: Callable[[], None]) -> Told:
    """Pushes events, strikes in the middle, and waits until all are acknowledged."""
    told = Told()
    pushed: list[Pushed] = []
    with access.producer(options=ProducerOptions(batch_events=BATCH_EVENTS)) as producer:
        for number in range(events):
            if number == events // 2:
                pushed[events // 4].result(PATIENCE_S)  # some are admitted, some on their way
                strike()
            pushed.append(producer.push(Record(TOPIC, make_value(fault, number)), PATIENCE_S))
        for number, each in enumerate(pushed):
            told.indices[each.result(PATIENCE_S).index] = make_value(fault, number)
    return told


def push_and_die(access: Access, events: int) -> Told:
    """Has another process push, kills it when enough is acknowledged, and has it go on behind all that."""
    told = Told()
    _push_elsewhere(access, told, range(10 * events), events // 2)
    _push_elsewhere(access, told, range(10 * events, 10 * events + events // 2), None)
    return told


def _push_elsewhere(access: Access, told: Told, numbers: range, kill_at: int | None) -> None:
    command = [sys.executable, "-m", "veristream.kabis.cluster.chaos", str(access.folder.path)]
    command += [str(numbers.start), str(numbers.stop)]
    # Its input ends at once or, for one that is to be killed, never: however slow we are, it is there.
    given = subprocess.DEVNULL if kill_at is None else subprocess.PIPE
    with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            index, number = map(int, line.split())
            told.indices[index] = make_value(Fault.KILL_PRODUCER, number)
            if len(told.indices) == kill_at:
                process.kill()
    if process.returncode != (0 if kill_at is None else -signal.SIGKILL):
        raise EnvironmentFailure(f"a producer ended with exit code {process.returncode}")


def make_value(fault: Fault, number: int) -> bytes:
    """The event of a trial with this number."""
    return f"{fault.value} {number:06}".encode("ascii")


# Reading back.


def end_index(access: Access) -> int:
    """The index that the next event gets."""

    async def read(replica: Replica) -> int:
        return replica.ledger.partition(TOPIC, 0).next_index

    return visit(access.genesis, access.admin(), read)


def read_back(
    access: Access, first: int, told: Told, nearest: str | None = None
) -> tuple[dict[int, bytes], dict[str, int]]:
    """All events from an index on, as a consumer that validates gets them, and how often it got bad answers
    from whom."""
    read: dict[int, bytes] = {}
    last = max(told.indices, default=first - 1)
    with access.consumer(options=ConsumerOptions(nearest=nearest)) as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek((TOPIC, 0), first)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            found = consumer.pull(QUIET_S)
            for event in found:
                if event.index in read:
                    raise EnvironmentFailure(f"index {event.index} was delivered twice")
                read[event.index] = event.value or b""
            if (not found and last in read) or time.monotonic() > deadline_s:
                break
        return read, consumer.suspicions()


def find_problems(told: Told, read: Mapping[int, bytes]) -> list[str]:
    """What is wrong with what was read: the first of each kind."""
    problems = []
    missing = [index for index in told.indices if index not in read]
    if missing:
        problems.append(f"{len(missing)} acknowledged events are lost, the first at index {missing[0]}")
    changed = [index for index, value in told.indices.items() if read.get(index, value) != value]
    if changed:
        problems.append(f"{len(changed)} events are not as they were pushed, the first at {changed[0]}")
    values = [read[index] for index in sorted(read)]
    if list(read) != sorted(read):
        problems.append("events were delivered out of the order of their indices")
    if len(set(values)) < len(values):
        problems.append(f"{len(values) - len(set(values))} events are there twice")
    elif values != sorted(values):
        problems.append("events are not in the order in which they were pushed")
    return problems


def _is_noticeable(access: Access, fault: Fault, first: int) -> bool:
    """Whether a consumer that asked the liar must have noticed.

    Who withholds is held to what it vouched for: whose receipts always come last has promised nothing.
    """

    async def read(replica: Replica) -> bool:
        liar = LYING_STORAGE[fault]
        return any(liar in each.parties for each in replica.ledger.admissions(TOPIC, 0, first))

    if fault is Fault.WITHHOLD:
        return visit(access.genesis, access.admin(), read)
    return fault is Fault.ALTER


# The producer that is killed.


def main(arguments: Sequence[str]) -> None:
    """Pushes the events of these numbers and says of each where it stands as soon as that is known.

    It ends when its input does, so that whoever is to kill it finds it.
    """
    folder, begin, end = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    access = Access(ClusterFolder(folder))
    waiting: deque[tuple[int, Pushed]] = deque()
    with access.producer(options=ProducerOptions(batch_events=BATCH_EVENTS)) as producer:
        for number in range(begin, end):
            waiting.append((number, producer.push(Record(TOPIC, make_value(Fault.KILL_PRODUCER, number)))))
            if len(waiting) == 20 * BATCH_EVENTS:
                _say(*waiting.popleft())
        while waiting:
            _say(*waiting.popleft())
        sys.stdin.read()


def _say(number: int, pushed: Pushed) -> None:
    sys.stdout.write(f"{pushed.result(PATIENCE_S).index} {number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
