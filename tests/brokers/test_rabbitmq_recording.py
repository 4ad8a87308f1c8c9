"""What is recorded of real RabbitMQ under faults, and what the plain checker says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.recording.histories import read_back
from veristream.history.events import Event, Operation, Outcome
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.recording.faults import Fault, Faults
from veristream.recording.rabbitmq.running import RunningRabbit
from veristream.recording.rabbitmq.scenarios import (
    acknowledgements_are_cut,
    acknowledgements_are_forgotten,
    leader_is_killed,
    messages_are_requeued,
    node_is_killed,
    prefetch_is_filled,
    unsynchronised_mirror_leads,
)
from veristream.recording.rabbitmq.settings import read_settings
from veristream.recording.rabbitmq.workloads import make_workload
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, run

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("rabbitmq")]

HELD = {Property.DELIVERED: {}, Property.ONCE: {}, Property.NOTHING_NEW: {}, Property.FINAL: {}}
"""What a scenario that goes well shows, with the anomalies of each property: none."""


@dataclass(frozen=True)
class Seen:
    """A history: how its calls ended, which messages were received how often, and what it shows."""

    events: list[Event]
    ends: Counter[str]
    sent: set[tuple[int, int]]
    received: Counter[tuple[int, int]]
    attempts: Counter[int]
    incidents: list[tuple[str, str]]
    found: dict[Property, dict[str, int] | str]


def look(folder: Path, rabbit: RunningRabbit, scenario: Callable[..., Any], **settings: str) -> Seen:
    """Records a scenario and judges it; a property that is not observable has its reason."""
    rabbit.settings = read_settings(
        {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    )
    with Recording(folder / "h", "rabbitmq") as recording:
        scenario(rabbit, recording)
    manifest, events = read_back(folder / "h")
    assert manifest.complete
    done = [each for each in events if each.outcome is Outcome.OK]
    received = [each for each in done if each.operation is Operation.RECEIVE]
    found = judge(manifest, events)
    return Seen(
        events,
        Counter(f"{each.operation.name} {each.outcome.name}" for each in events),
        {(each.producer, each.number) for each in done if each.operation is Operation.SEND},
        Counter((each.producer, each.number) for each in received),
        Counter(each.attempt for each in received),
        [(each.kind, each.target) for each in manifest.incidents],
        {
            Property(each.property): each.reason if each.word is Word.NOT_OBSERVABLE else dict(each.counts)
            for each in found
        },
    )


def shows(seen: Seen, expected: dict[Property, Any]) -> bool:
    return {key: seen.found[key] for key in expected} == expected


def test_what_is_persistent_and_confirmed_survives_a_kill(rabbit: RunningRabbit, tmp_path: Path) -> None:
    seen = look(tmp_path, rabbit, node_is_killed)
    assert len(seen.sent) == 100
    assert seen.received == Counter(seen.sent)
    assert seen.incidents == [("kill", "rabbit-1")]
    assert shows(seen, HELD)


def test_what_is_transient_is_lost_although_it_was_confirmed(rabbit: RunningRabbit, tmp_path: Path) -> None:
    seen = look(tmp_path, rabbit, node_is_killed, client__persistent="false")
    assert len(seen.sent) == 100
    assert seen.received == Counter()
    assert shows(seen, {Property.DELIVERED: {"lost write": 100}})


def test_without_confirms_what_is_persistent_is_lost_too(rabbit: RunningRabbit, tmp_path: Path) -> None:
    """The node is killed while they are still in its memory; how many, depends on its timing."""
    seen = look(tmp_path, rabbit, node_is_killed, client__confirms="false")
    lost = 100 - len(seen.received)
    assert lost > 0
    assert shows(seen, {Property.DELIVERED: {"lost write": lost}})


def test_acknowledgements_are_forgotten_by_a_killed_node(rabbit: RunningRabbit, tmp_path: Path) -> None:
    seen = look(tmp_path, rabbit, acknowledgements_are_forgotten)
    again = sum(count > 1 for count in seen.received.values())
    assert again > 0
    assert seen.attempts == Counter({1: 100, 2: again})
    assert seen.ends["ACKNOWLEDGE OK"] == 100 + again
    assert shows(
        seen,
        {**HELD, Property.ONCE: {"duplicate": again}, Property.FINAL: {"zombie delivery": again}},
    )


def test_acknowledgements_that_do_not_arrive_are_indefinite(rabbit: RunningRabbit, tmp_path: Path) -> None:
    seen = look(tmp_path, rabbit, acknowledgements_are_cut)
    twice = [number for (_, number), count in seen.received.items() if count == 2]
    assert sorted(twice) == list(range(10, 20))
    assert (seen.ends["ACKNOWLEDGE INDEFINITE"], seen.ends["ACKNOWLEDGE OK"]) == (10, 20)
    assert seen.attempts == Counter({1: 20, 2: 10})
    assert shows(seen, {**HELD, Property.ONCE: {"duplicate": 10}})


def test_what_is_given_back_comes_again(rabbit: RunningRabbit, tmp_path: Path) -> None:
    seen = look(tmp_path, rabbit, messages_are_requeued)
    assert sorted(number for _, number in seen.received.elements()) == sorted(
        [*range(20), *range(1, 20, 2)]
    )
    assert (seen.ends["REJECT OK"], seen.ends["ACKNOWLEDGE OK"]) == (10, 20)
    assert seen.attempts == Counter({1: 20, 2: 10})
    assert shows(seen, {**HELD, Property.ONCE: {"duplicate": 10}, Property.ORDER: {}})


def test_the_prefetch_bounds_what_is_in_flight(rabbit: RunningRabbit, tmp_path: Path) -> None:
    most: list[int] = []
    seen = look(
        tmp_path, rabbit, lambda *these: most.append(prefetch_is_filled(*these)), client__prefetch="5"
    )
    assert most == [5]
    assert [each.number for each in seen.events if each.operation is Operation.READY] == [5]
    assert shows(seen, {**HELD, Property.BOUNDED: {}, Property.ORDER: {}})


def test_clients_come_back_from_what_happens_to_their_node(rabbit: RunningRabbit, tmp_path: Path) -> None:
    """It is cut off for a second, and then killed; every fifth delivery is given back once."""

    def work(rabbit: RunningRabbit, recording: Recording) -> None:
        queue = rabbit.create_queue(recording, "orders")
        plan = [Fault("cut", "rabbit-1", 0.5, 1.5), Fault("kill", "rabbit-1", 2.0, 2.5)]
        faults = Faults(recording, plan, rabbit.local, rabbit.proxies)
        run(recording, make_workload(rabbit, recording, queue), Load(6.0, 100.0), faults)

    seen = look(tmp_path, rabbit, work, client__requeue_every="5")
    assert [kind for kind, _ in seen.incidents] == ["cut", "kill"]
    assert seen.sent
    assert seen.sent <= set(seen.received)
    assert seen.ends["REJECT INVOKE"] > 0
    assert shows(seen, {Property.DELIVERED: {}, Property.NOTHING_NEW: {}, Property.BOUNDED: {}})


def test_an_unsynchronised_mirror_that_leads_loses_what_was_confirmed(
    rabbits: RunningRabbit, tmp_path: Path
) -> None:
    seen = look(tmp_path, rabbits, unsynchronised_mirror_leads, queue__kind="mirrored")
    assert sorted(number for _, number in seen.sent) == sorted([*range(20), *range(5)])
    assert seen.received == Counter(list(seen.sent - {(0, number) for number in range(20)}))
    assert seen.incidents == [("kill", "rabbit-2"), ("kill", "rabbit-3"), ("kill", "rabbit-1")]
    assert shows(seen, {**HELD, Property.DELIVERED: {"lost write": 20}})


def test_a_quorum_queue_loses_nothing_with_its_leader(rabbits: RunningRabbit, tmp_path: Path) -> None:
    seen = look(tmp_path, rabbits, leader_is_killed, queue__kind="quorum")
    assert seen.sent
    assert seen.sent <= set(seen.received)
    assert [kind for kind, _ in seen.incidents] == ["kill"]
    assert shows(seen, {Property.DELIVERED: {}, Property.NOTHING_NEW: {}})
