"""An intruder: it has a keytab of its own, a realm of its own, and what it has overheard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from veristream.brokers.kerberos.client import Client, Door, Spoken
from veristream.brokers.kerberos.realm import Realm
from veristream.brokers.kerberos.secured import Security
from veristream.errors import EnvironmentFailure
from veristream.trials.intruders.attacks import Attack, Observation, Outcome
from veristream.trials.intruders.forging import replay

TOPIC: Final = "orders"
PRODUCER, CONSUMER, INTRUDER = "producer", "consumer", "mallory"
PAYLOAD_LENGTH: Final = len("payload-") + 32


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is: the realm with the keytabs of its principals, the intruder's own realm, the broker.

    `made_up` are keytabs with the names of principals and keys that the intruder made up.
    """

    realm: Realm
    own: Realm
    keytabs: Mapping[str, Path]
    made_up: Mapping[str, Path]
    security: Security
    door: Door
    folder: Path

    def client(self, name: str) -> Client:
        """Returns a client that has logged in with its own key."""
        client = Client(self.realm, self.folder / f"{name}.tickets", name)
        refusal = self.realm.log_in(name, self.keytabs[name], client.cache)
        if refusal:
            raise EnvironmentFailure(f"the KDC refuses {name}: {refusal}")
        return client


@dataclass(frozen=True, slots=True)
class Overheard:
    """What passed: the messages of the producer, and the pieces that it sent on its connection."""

    payloads: Sequence[str]
    session: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Intruder:
    """It tries to send a message, or to read those of others."""

    scene: Scene
    overheard: Overheard

    def attempt(self, attack: Attack) -> Spoken:
        """Tries an attack; returns what the intruder got, and how it was refused."""
        scene = self.scene
        match attack:
            case Attack.PRODUCE_WITHOUT_TICKET | Attack.CONSUME_WITHOUT_TICKET:
                return self._go(attack, self._client(attack, scene.realm, INTRUDER), self._without_ticket())
            case Attack.PRODUCE_AS_PRODUCER:
                return self._claim(attack, scene.realm, PRODUCER)
            case Attack.CONSUME_AS_CONSUMER:
                return self._claim(attack, scene.realm, CONSUMER)
            case Attack.PRODUCE_WITH_FORGED_TICKET:
                return self._claim(attack, scene.own, PRODUCER)
            case Attack.PRODUCE_AS_ITSELF | Attack.CONSUME_AS_ITSELF:
                return self._go(attack, scene.client(INTRUDER), scene.door)
            case Attack.REPLAY_PRODUCER:
                heard = self.overheard
                return Spoken(replay(scene.door.address, heard.session, heard.payloads[0], forgery(attack)))
            case Attack.CHANGE_PRODUCER | Attack.OVERHEAR_PRODUCER | Attack.OVERHEAR_CONSUMER:
                raise ValueError(f"{attack} happens while others work")
            case _:
                assert_never(attack)

    def judge(self, attack: Attack, said: Spoken, stored: Sequence[str]) -> Observation:
        """Returns what came of an attempt: what the topic has of its forgery, or what it has read."""
        if attack.forges:
            count = stored.count(forgery(attack))
            done = f"{count} forged message{'' if count == 1 else 's'} stored"
            counts = {"sent": 1, "stored": count}
        else:
            payloads = set(self.overheard.payloads)
            count = len(payloads & set(said.received))
            done = f"{count} of {len(payloads)} payloads read"
            counts = {"payloads": len(payloads), "read": count}
        outcome = Outcome.SUCCEEDED if count else Outcome.PREVENTED
        return Observation(outcome, f"{done}: {said.refusal}" if said.refusal else done, counts)

    def _claim(self, attack: Attack, realm: Realm, name: str) -> Spoken:
        """Uses another's name: as the client's, and with Kerberos with a key that is not the other's."""
        client = self._client(attack, realm, name)
        if self.scene.security.kerberos:
            refusal = realm.log_in(name, self.scene.made_up[name], client.cache)
            if refusal:
                return Spoken(f"the KDC: {refusal}")
        return self._go(attack, client, self.scene.door)

    def _client(self, attack: Attack, realm: Realm, name: str) -> Client:
        return Client(realm, self.scene.folder / f"{attack}.tickets", name)

    def _without_ticket(self) -> Door:
        """Returns the broker's door without Kerberos, through TLS if that is demanded."""
        door = self.scene.door
        return Door(door.address, "SSL" if self.scene.security.tls else "PLAINTEXT", door.authority)

    def _go(self, attack: Attack, client: Client, door: Door) -> Spoken:
        if attack.forges:
            return client.produce(door, TOPIC, [forgery(attack)])
        return client.consume(door, TOPIC)


def judge_change(changed: int, forged: int, own: int) -> Observation:
    """Returns what came of a message that was to be exchanged on its way, and was acknowledged."""
    outcome = Outcome.SUCCEEDED if forged else Outcome.PREVENTED
    words = f"{changed} of 1 message changed on the way; stored: {forged} forged, {own} of the producer"
    return Observation(outcome, words, {"sent": 1, "changed": changed, "stored": forged, "own": own})


def forgery(attack: Attack) -> str:
    """Returns the message that the intruder sends in an attack; it is as long as every payload."""
    return f"forged: {attack}".ljust(PAYLOAD_LENGTH, ".")
