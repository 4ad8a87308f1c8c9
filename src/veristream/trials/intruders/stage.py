"""Runs the attacks on one configuration: a realm, a Kafka, honest clients, and who comes between them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin._acl import AclOperation

from veristream.brokers.kerberos.client import Door
from veristream.brokers.kerberos.realm import Realm
from veristream.brokers.kerberos.secured import KAFKA, PRINCIPAL, Identity, SecuredKafka, Security
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import let_pass
from veristream.errors import EnvironmentFailure
from veristream.trials.intruders.administration import Administrator
from veristream.trials.intruders.attacks import Attack, Observation
from veristream.trials.intruders.eavesdropper import Eavesdropper
from veristream.trials.intruders.forging import Changer
from veristream.trials.intruders.intruder import (
    CONSUMER,
    INTRUDER,
    PRODUCER,
    TOPIC,
    Intruder,
    Overheard,
    Scene,
    forgery,
    judge_change,
)

MESSAGES: Final = 10
AT_ONCE: Final = 3
RIGHTS: Final = {PRODUCER: AclOperation.WRITE, CONSUMER: AclOperation.READ}
"""What the rules allow, where there are rules; the intruder is registered, and has no rights."""


def observe(security: Security, attacks: Sequence[Attack], folder: Path) -> dict[Attack, Observation]:
    """Returns what came of each attack on a Kafka with this security, whose data is kept in the folder."""
    with _realms(folder) as (realm, own), ProxyNetwork({KAFKA: "127.0.0.1:0"}) as network:
        keytabs = {name: realm.add(name) for name in (PRODUCER, CONSUMER, INTRUDER, PRINCIPAL)}
        made_up = {name: own.add(name) for name in (PRODUCER, CONSUMER, PRINCIPAL)}
        identity = Identity(realm.configuration, keytabs[PRINCIPAL])
        with SecuredKafka(folder / "kafka", security, identity) as kafka:
            port = network.address(KAFKA).rpartition(":")[2]
            kafka.create(f"localhost:{port}")
            network.redirect(KAFKA, kafka.address(KAFKA))
            kafka.start()
            authority = kafka.certified.authority if kafka.certified else None
            door = Door(f"localhost:{port}", security.protocol, authority)
            scene = Scene(realm, own, keytabs, made_up, security, door, folder)
            return _attack(scene, Administrator(kafka.administrator()), attacks, network)


@contextmanager
def _realms(folder: Path) -> Iterator[tuple[Realm, Realm]]:
    """Runs the realm and one of the intruder's own, which has the same name and other keys."""
    with Realm(folder / "realm") as realm, Realm(folder / "own") as own:
        for each in (realm, own):
            each.create()
            each.start()
        yield realm, own


def _attack(
    scene: Scene, administrator: Administrator, attacks: Sequence[Attack], network: ProxyNetwork
) -> dict[Attack, Observation]:
    administrator.create_topic(TOPIC)
    if scene.security.acls:
        administrator.allow(RIGHTS, TOPIC)
    overheard, found = _overhear(scene, network)
    intruder = Intruder(scene, overheard)
    if Attack.CHANGE_PRODUCER in attacks:
        found[Attack.CHANGE_PRODUCER] = _change(scene, administrator, network)
    tried = [each for each in attacks if each not in found]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        spoken = dict(zip(tried, pool.map(intruder.attempt, tried), strict=True))
    stored = administrator.read(TOPIC)
    missing = set(overheard.payloads) - set(stored)
    if missing:
        raise EnvironmentFailure(f"{len(missing)} messages of the honest producer are not stored")
    for attack, said in spoken.items():
        found[attack] = intruder.judge(attack, said, stored)
    return {each: found[each] for each in attacks}


def _overhear(scene: Scene, network: ProxyNetwork) -> tuple[Overheard, dict[Attack, Observation]]:
    """Lets the honest clients work, and somebody listen; raises EnvironmentFailure if they cannot work."""
    payloads = [make_payload() for _ in range(MESSAGES)]
    ear = Eavesdropper()
    network.decide = ear
    sent = scene.client(PRODUCER).produce(scene.door, TOPIC, payloads)
    if sent.refusal:
        raise EnvironmentFailure(f"the honest producer was refused: {sent.refusal}")
    overheard = Overheard(payloads, ear.session())
    by_producer = ear.take(payloads)
    got = scene.client(CONSUMER).consume(scene.door, TOPIC)
    if list(got.received) != payloads:
        said = got.refusal or f"it received {len(got.received)} of {len(payloads)} messages"
        raise EnvironmentFailure(f"the honest consumer was refused: {said}")
    by_consumer = ear.take(payloads)
    network.decide = let_pass
    return overheard, {Attack.OVERHEAR_PRODUCER: by_producer, Attack.OVERHEAR_CONSUMER: by_consumer}


def _change(scene: Scene, administrator: Administrator, network: ProxyNetwork) -> Observation:
    """Lets the honest producer send one more message, and somebody exchange it on the way."""
    payload, other = make_payload(), forgery(Attack.CHANGE_PRODUCER)
    changer = Changer(payload, other)
    network.decide = changer
    said = scene.client(PRODUCER).produce(scene.door, TOPIC, [payload])
    network.decide = let_pass
    if said.refusal:
        raise EnvironmentFailure(f"the honest producer was refused: {said.refusal}")
    stored = administrator.read(TOPIC)
    return judge_change(changer.changed, stored.count(other), stored.count(payload))


def make_payload() -> str:
    """Returns a message that nobody can guess, as long as every forgery."""
    return f"payload-{secrets.token_hex(16)}"
