"""Chaos trials: inject faults into a real cluster while events flow, and check every event.

A trial pushes events, injects a fault halfway, and reads everything back with a validating consumer. It
fails if an acknowledged event is missing, duplicated, altered or out of order; an event that was not
acknowledged may be delivered once or not at all.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.client.administration import Replica, act_all, visit
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.pushes import Pushed
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.accusations import wait_for_accusations
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.delivery import PATIENCE_S, Place, find_problems, push, read_back
from veristream.kabis.cluster.faults import STORAGE_FAULTS, VALIDATOR_FAULTS, StorageFault, ValidatorFault
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.records import Record

TOPIC = "chaos"
BATCH_EVENTS = 5
"""Small batches, so that a fault affects many of them."""


class Fault(StrEnum):
    """A fault of the catalogue, or a crash."""

    ALTER = StorageFault.ALTER
    WITHHOLD = StorageFault.WITHHOLD
    KILL_STORAGE = "kill-storage"
    EQUIVOCATE = ValidatorFault.EQUIVOCATE
    SILENT = ValidatorFault.SILENT
    KILL_VALIDATOR = "kill-validator"
    KILL_PRODUCER = "kill-producer"
    KILL_ALL = "kill-all"


LYING_STORAGE: Mapping[Fault, str] = {Fault.ALTER: "storage-1", Fault.WITHHOLD: "storage-2"}
"""The party that the consumer asks first, so that it meets the lie."""
LIARS: Mapping[Fault, str] = {**LYING_STORAGE, Fault.EQUIVOCATE: "validator-1", Fault.SILENT: "validator-2"}
VICTIMS: Mapping[Fault, str] = {Fault.KILL_STORAGE: "storage-3", Fault.KILL_VALIDATOR: "validator-3"}

TRIED: Mapping[Fault, str] = {
    Fault.ALTER: f"{LIARS[Fault.ALTER]} {STORAGE_FAULTS[StorageFault.ALTER]}",
    Fault.WITHHOLD: f"{LIARS[Fault.WITHHOLD]} {STORAGE_FAULTS[StorageFault.WITHHOLD]}",
    Fault.KILL_STORAGE: f"{VICTIMS[Fault.KILL_STORAGE]} is killed (-9) and restarted",
    Fault.EQUIVOCATE: f"{LIARS[Fault.EQUIVOCATE]} {VALIDATOR_FAULTS[ValidatorFault.EQUIVOCATE]}",
    Fault.SILENT: f"{LIARS[Fault.SILENT]} {VALIDATOR_FAULTS[ValidatorFault.SILENT]}",
    Fault.KILL_VALIDATOR: f"{VICTIMS[Fault.KILL_VALIDATOR]} is killed (-9) and restarted",
    Fault.KILL_PRODUCER: "the producer is killed (-9) and restarted",
    Fault.KILL_ALL: "all parties are killed (-9) at once and restarted",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one trial; `problems` is empty if nothing was lost."""

    fault: Fault
    acknowledged: int
    delivered: int
    seconds: float
    evidence: tuple[str, ...]
    problems: tuple[str, ...]


Told = dict[Place, bytes]
"""The places of acknowledged events, as reported to the producer."""


def run_trials(
    cluster: Cluster, faults: Sequence[Fault], events: int, report: Callable[[Trial], None]
) -> list[Trial]:
    """Runs a trial for each fault on a running cluster; afterwards all parties are correct again."""
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
    """Pushes events under a fault, reads them back, and reports problems."""
    began_s = time.monotonic()
    access = Access(cluster.folder)
    first = end_index(access)
    caught: dict[str, int] = {}
    if fault is Fault.KILL_PRODUCER:
        told = push_and_die(access, events)
        read, suspects = read_back(access, TOPIC, {0: first}, told, nearest=None)
    else:
        with injected(cluster, fault) as strike:
            told = push_under(access, fault, events, strike)
            read, suspects = read_back(access, TOPIC, {0: first}, told, LYING_STORAGE.get(fault))
            if fault is Fault.EQUIVOCATE:
                caught = wait_for_accusations(access, PATIENCE_S)
    problems = find_problems(told, read)
    if fault is Fault.EQUIVOCATE and not caught:
        problems.append("no evidence against the validator is on the ledger")
    if LYING_STORAGE.get(fault) not in suspects and _is_noticeable(access, fault, first):
        problems.append("the consumer did not notice the storage party")
    return Trial(
        fault,
        len(told),
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
    """Makes a party misbehave; yields the action for the middle of the trial, and undoes the fault."""
    liar, victim = LIARS.get(fault), VICTIMS.get(fault)
    if liar is not None:
        cluster.restart(liar, StartOptions(faults={liar: fault.value}))
        yield lambda: None
        cluster.restart(liar)
        return
    if victim is None:
        yield lambda: _kill(cluster, cluster.names(), restart=True)
    else:
        yield lambda: _kill(
            cluster, [victim], restart=False
        )  # the remaining events are pushed and read without it
        cluster.start(names=[victim])


def _kill(cluster: Cluster, names: Sequence[str], *, restart: bool) -> None:
    for name in names:
        cluster.kill(name)
    if restart:
        cluster.start(names=names)


# Producing.


def push_under(access: Access, fault: Fault, events: int, strike: Callable[[], None]) -> Told:
    """Pushes events, calls `strike` halfway, and waits until all are acknowledged."""
    records = [Record(TOPIC, make_value(fault, number)) for number in range(events)]
    told = push(access, records, BATCH_EVENTS, strike)
    return {(0, each.index): record.value or b"" for record, each in zip(records, told, strict=True)}


def push_and_die(access: Access, events: int) -> Told:
    """Pushes from a process, kills it after some acknowledgements, and pushes the rest from a new one."""
    told: Told = {}
    _push_elsewhere(access, told, range(10 * events), events // 2)
    _push_elsewhere(access, told, range(10 * events, 10 * events + events // 2), None)
    return told


def _push_elsewhere(access: Access, told: Told, numbers: range, kill_at: int | None) -> None:
    command = [sys.executable, "-m", "veristream.kabis.cluster.chaos", str(access.folder.path)]
    command += [str(numbers.start), str(numbers.stop)]
    # For a process to be killed, stdin never ends, so that it still runs however slow we are.
    given = subprocess.DEVNULL if kill_at is None else subprocess.PIPE
    with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            index, number = map(int, line.split())
            told[0, index] = make_value(Fault.KILL_PRODUCER, number)
            if len(told) == kill_at:
                process.kill()
    if process.returncode != (0 if kill_at is None else -signal.SIGKILL):
        raise EnvironmentFailure(f"a producer ended with exit code {process.returncode}")


def make_value(fault: Fault, number: int) -> bytes:
    """Returns the event of a trial with this number."""
    return f"{fault.value} {number:06}".encode("ascii")


# Reading back.


def end_index(access: Access) -> int:
    """Returns the index of the next event."""

    async def read(replica: Replica) -> int:
        return replica.ledger.partition(TOPIC, 0).next_index

    return visit(access.genesis, access.admin(), read)


def _is_noticeable(access: Access, fault: Fault, first: int) -> bool:
    """Whether a consumer that asked the liar must have noticed.

    A withholding party is only asked for batches with its receipt; if its receipts always come last, there
    are none.
    """

    async def read(replica: Replica) -> bool:
        liar = LYING_STORAGE[fault]
        return any(liar in each.parties for each in replica.ledger.admissions(TOPIC, 0, first))

    if fault is Fault.WITHHOLD:
        return visit(access.genesis, access.admin(), read)
    return fault is Fault.ALTER


# The producer that is killed.


def main(arguments: Sequence[str]) -> None:
    """Pushes the events with these numbers, and prints the index of each when it is acknowledged.

    It ends when stdin ends, so that it still runs when it is to be killed.
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
