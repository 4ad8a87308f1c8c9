"""Runs the attacks on one configuration: a realm, a Kafka, honest clients, an eavesdropper, an intruder."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from confluent_kafka.admin._acl import AclOperation

from veristream.brokers.kerberos.client import Client, Door, Spoken
from veristream.brokers.kerberos.realm import Realm
from veristream.brokers.kerberos.secured import KAFKA, PRINCIPAL, Identity, SecuredKafka, Security
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.errors import EnvironmentFailure
from veristream.trials.intruders.administration import Administrator
from veristream.trials.intruders.attacks import Attack, Observation, Outcome
from veristream.trials.intruders.eavesdropper import Eavesdropper

TOPIC: Final = "orders"
MESSAGES: Final = 10
AT_ONCE: Final = 3
PRODUCER, CONSUMER, INTRUDER = "producer", "consumer", "mallory"
RIGHTS: Final = {PRODUCER: AclOperation.WRITE, CONSUMER: AclOperation.READ}
"""What the rules allow, where there are rules; the intruder is registered, and has no rights."""


def observe(security: Security, attacks: Iterable[Attack], folder: Path) -> dict[Attack, Observation]:
    """Returns what came of each attack on a Kafka with this security, whose data is kept in the folder."""
    with Realm(folder / "realm") as realm:
        realm.create()
        keytabs = {name: realm.add(name) for name in (PRODUCER, CONSUMER, INTRUDER, PRINCIPAL)}
        realm.start()
        identity = Identity(realm.configuration, keytabs[PRINCIPAL])
        with (
            ProxyNetwork({KAFKA: "127.0.0.1:0"}) as network,
            SecuredKafka(folder / "kafka", security, identity) as kafka,
        ):
            port = network.address(KAFKA).rpartition(":")[2]
            kafka.create(f"localhost:{port}")
            network.redirect(KAFKA, kafka.address(KAFKA))
            kafka.start()
            authority = kafka.certified.authority if kafka.certified else None
            door = Door(f"localhost:{port}", security.protocol, authority)
            scene = Scene(realm, keytabs, door, Administrator(kafka.administrator()), folder)
            return _observe(scene, security, attacks, network)


@dataclass(frozen=True, slots=True)
class Scene:
    """What clients have: the realm, the keytabs of its principals, and where the broker is."""

    realm: Realm
    keytabs: Mapping[str, Path]
    door: Door
    administrator: Administrator
    folder: Path

    def client(self, name: str) -> Client:
        """Returns an honest client that has logged in with its own key."""
        client = Client(self.realm, self.folder / f"{name}.tickets", name)
        refusal = self.realm.log_in(name, self.keytabs[name], client.cache)
        if refusal:
            raise EnvironmentFailure(f"the KDC refuses {name}: {refusal}")
        return client


def _observe(
    scene: Scene, security: Security, attacks: Iterable[Attack], network: ProxyNetwork
) -> dict[Attack, Observation]:
    scene.administrator.create_topic(TOPIC)
    if security.acls:
        scene.administrator.allow(RIGHTS, TOPIC)
    payloads = [f"payload-{number}-{secrets.token_hex(16)}" for number in range(MESSAGES)]
    found = _overhear(scene, payloads, network)
    intruder = Intruder(scene, security, payloads)
    tried = [each for each in attacks if each not in found]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        spoken = dict(zip(tried, pool.map(intruder.attempt, tried), strict=True))
    stored = scene.administrator.read(TOPIC)
    missing = set(payloads) - set(stored)
    if missing:
        raise EnvironmentFailure(f"{len(missing)} messages of the honest producer are not stored")
    for attack, said in spoken.items():
        found[attack] = intruder.judge(attack, said, stored)
    return {each: found[each] for each in attacks}


def _overhear(scene: Scene, payloads: list[str], network: ProxyNetwork) -> dict[Attack, Observation]:
    """Lets the honest clients work, and somebody listen; raises EnvironmentFailure if they cannot work."""
    ear = Eavesdropper()
    network.decide = ear
    sent = scene.client(PRODUCER).produce(scene.door, TOPIC, payloads)
    if sent.refusal:
        raise EnvironmentFailure(f"the honest producer was refused: {sent.refusal}")
    by_producer = ear.take(payloads)
    got = scene.client(CONSUMER).consume(scene.door, TOPIC)
    if list(got.received) != payloads:
        said = got.refusal or f"it received {len(got.received)} of {len(payloads)} messages"
        raise EnvironmentFailure(f"the honest consumer was refused: {said}")
    return {Attack.OVERHEAR_PRODUCER: by_producer, Attack.OVERHEAR_CONSUMER: ear.take(payloads)}


@dataclass(frozen=True, slots=True)
class Intruder:
    """It is registered, with a keytab of its own; it tries to send a message, or to read others'."""

    scene: Scene
    security: Security
    payloads: list[str]

    def attempt(self, attack: Attack) -> Spoken:
        """Tries an attack; returns what the intruder got, and who refused it."""
        match attack:
            case Attack.PRODUCE_WITHOUT_TICKET | Attack.CONSUME_WITHOUT_TICKET:
                return self._go(attack, self._client(attack, INTRUDER), self._without_ticket())
            case Attack.PRODUCE_AS_PRODUCER:
                return self._claim(attack, PRODUCER)
            case Attack.CONSUME_AS_CONSUMER:
                return self._claim(attack, CONSUMER)
            case Attack.PRODUCE_AS_ITSELF | Attack.CONSUME_AS_ITSELF:
                return self._go(attack, self.scene.client(INTRUDER), self.scene.door)
            case Attack.OVERHEAR_PRODUCER | Attack.OVERHEAR_CONSUMER:
                raise ValueError(f"{attack} needs no client")
            case _:
                assert_never(attack)

    def judge(self, attack: Attack, said: Spoken, stored: list[str]) -> Observation:
        """Returns what came of an attempt: what the topic has of its forgery, or what it has read."""
        if attack.startswith("produce"):
            count = stored.count(forgery(attack))
            done = f"{count} forged message{'' if count == 1 else 's'} stored"
            counts = {"sent": 1, "stored": count}
        else:
            count = len(set(self.payloads) & set(said.received))
            done = f"{count} of {len(self.payloads)} payloads read"
            counts = {"payloads": len(self.payloads), "read": count}
        outcome = Outcome.SUCCEEDED if count else Outcome.PREVENTED
        return Observation(outcome, f"{done}: {said.refusal}" if said.refusal else done, counts)

    def _claim(self, attack: Attack, name: str) -> Spoken:
        """Uses another's name: as the client's, and with Kerberos with a key that is not the other's."""
        client = self._client(attack, name)
        if self.security.kerberos:
            refusal = self.scene.realm.log_in(name, self._own_key_of(name), client.cache)
            if refusal:
                return Spoken(f"the KDC: {refusal}")
        return self._go(attack, client, self.scene.door)

    def _own_key_of(self, name: str) -> Path:
        """Returns a keytab with a key that the intruder made up for somebody."""
        own = Realm(self.scene.folder / f"own-{name}")
        own.create()
        return own.add(name)

    def _client(self, attack: Attack, name: str) -> Client:
        return Client(self.scene.realm, self.scene.folder / f"{attack}.tickets", name)

    def _without_ticket(self) -> Door:
        """Returns the broker's door without Kerberos, through TLS if that is demanded."""
        door = self.scene.door
        return Door(door.address, "SSL" if self.security.tls else "PLAINTEXT", door.authority)

    def _go(self, attack: Attack, client: Client, door: Door) -> Spoken:
        if attack.startswith("produce"):
            return client.produce(door, TOPIC, [forgery(attack)])
        return client.consume(door, TOPIC)


def forgery(attack: Attack) -> str:
    """Returns the message that the intruder sends in an attack."""
    return f"forged: {attack}"
