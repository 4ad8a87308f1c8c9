"""What came of an attempt: what the topic has of a forgery, and what was read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from veristream.brokers.kerberos.client import Client, Door, Spoken
from veristream.brokers.kerberos.realm import Realm
from veristream.brokers.kerberos.secured import Protocol, Security
from veristream.errors import EnvironmentFailure
from veristream.trials.intruders.attacks import Attack, Outcome
from veristream.trials.intruders.intruder import Intruder, Overheard, Scene, forgery

PAYLOADS = ("payload-1", "payload-2")


class FakeRealm(Realm):
    """A realm that grants tickets for the keytabs of its own folder."""

    def log_in(self, principal: str, keytab: Path, cache: Path) -> str:
        return "" if keytab.parent == self.folder else "Preauthentication failed"


@dataclasses.dataclass
class Said:
    """Stands for kcat: notes who spoke to whom."""

    calls: list[tuple[str, str, Path, str]] = dataclasses.field(default_factory=list)

    def spoke(self, client: Client, deed: str, door: Door, messages: Sequence[str] = ()) -> Spoken:
        self.calls.append((deed, door.protocol, client.realm.folder, client.name))
        assert all(each.startswith("forged: ") for each in messages) and bool(messages) == (
            deed == "produce"
        )
        return Spoken("", () if messages else PAYLOADS)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    stand = Said()

    def produce(client: Client, door: Door, topic: str, messages: Sequence[str]) -> Spoken:
        return stand.spoke(client, "produce", door, messages)

    def consume(client: Client, door: Door, topic: str) -> Spoken:
        return stand.spoke(client, "consume", door)

    monkeypatch.setattr(Client, "produce", produce)
    monkeypatch.setattr(Client, "consume", consume)
    return stand


def intruder(protocol: Protocol = "SASL_SSL") -> Intruder:
    realm, own = FakeRealm(Path("/realm")), FakeRealm(Path("/own"))
    names = ("producer", "consumer", "mallory", "kafka/localhost")
    keytabs: list[dict[str, Path]] = [{name: each.folder / name for name in names} for each in (realm, own)]
    scene = Scene(
        realm, own, keytabs[0], keytabs[1], Security(protocol), Door("localhost:1", protocol), Path("/data")
    )
    return Intruder(scene, Overheard(PAYLOADS, ()))


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (Attack.PRODUCE_WITHOUT_TICKET, ("produce", "SSL", Path("/realm"), "mallory")),
        (Attack.CONSUME_WITHOUT_TICKET, ("consume", "SSL", Path("/realm"), "mallory")),
        (Attack.PRODUCE_WITH_FORGED_TICKET, ("produce", "SASL_SSL", Path("/own"), "producer")),
        (Attack.PRODUCE_AS_ITSELF, ("produce", "SASL_SSL", Path("/realm"), "mallory")),
        (Attack.CONSUME_AS_ITSELF, ("consume", "SASL_SSL", Path("/realm"), "mallory")),
    ],
)
def test_who_goes_through_which_door(attack: Attack, expected: Any, said: Said) -> None:
    intruder().attempt(attack)
    assert said.calls == [expected]


def test_a_made_up_key_gets_no_ticket(said: Said) -> None:
    for attack in (Attack.PRODUCE_AS_PRODUCER, Attack.CONSUME_AS_CONSUMER):
        assert intruder().attempt(attack).refusal == "the KDC: Preauthentication failed"
    assert said.calls == []


def test_without_tickets_a_name_is_enough(said: Said) -> None:
    intruder("PLAINTEXT").attempt(Attack.PRODUCE_AS_PRODUCER)
    intruder("PLAINTEXT").attempt(Attack.CONSUME_WITHOUT_TICKET)
    assert said.calls == [
        ("produce", "PLAINTEXT", Path("/realm"), "producer"),
        ("consume", "PLAINTEXT", Path("/realm"), "mallory"),
    ]


def test_an_honest_client_that_is_refused_is_no_outcome() -> None:
    scene = dataclasses.replace(intruder().scene, keytabs={"mallory": Path("/elsewhere/mallory")})
    with pytest.raises(EnvironmentFailure, match="the KDC refuses mallory: Preauthentication failed"):
        scene.client("mallory")


def test_some_attacks_happen_while_others_work() -> None:
    with pytest.raises(ValueError, match="while others work"):
        intruder().attempt(Attack.OVERHEAR_CONSUMER)


def test_the_log_decides_what_was_forged() -> None:
    """Whatever the intruder was told."""
    attack, other = Attack.PRODUCE_AS_ITSELF, forgery(Attack.PRODUCE_AS_PRODUCER)
    stored = intruder().judge(attack, Spoken("timed out"), [*PAYLOADS, forgery(attack), other])
    assert (stored.outcome, stored.reason) == (Outcome.SUCCEEDED, "1 forged message stored: timed out")
    lost = intruder().judge(attack, Spoken(), [*PAYLOADS, other])
    assert (lost.outcome, lost.reason) == (Outcome.PREVENTED, "0 forged messages stored")
    assert lost.counts == {"sent": 1, "stored": 0}


def test_what_was_read() -> None:
    attack = Attack.CONSUME_AS_ITSELF
    some = intruder().judge(attack, Spoken("cut off", ("payload-2", "other")), PAYLOADS)
    assert (some.outcome, some.reason) == (Outcome.SUCCEEDED, "1 of 2 payloads read: cut off")
    assert intruder().judge(attack, Spoken("denied"), PAYLOADS).counts == {"payloads": 2, "read": 0}
