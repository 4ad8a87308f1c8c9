"""Kafka clusters are stopped or killed while events are pushed: no acknowledged event is lost."""

from __future__ import annotations

import os
import random

import pytest

from tests.brokers.streams import UNVALIDATED, VALIDATED, Stream, create
from tests.kabis.session.console import Console
from veristream.brokers.kafka import KafkaClusters
from veristream.kabis.cluster.access import Access
from veristream.kabis.protocol.members import Memberships

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

ROUNDS = int(os.environ.get("VERISTREAM_KILLS", "20"))
"""The number of brokers that are killed, one after the other."""


def kafka_of(access: Access, kafkas: KafkaClusters, topic: str) -> str:
    """Returns the cluster that stores an unvalidated topic."""
    bootstrap = access.kafka()[Memberships(access.genesis.members).party_of(topic)].bootstrap
    return next(name for name in kafkas.names() if kafkas.address(name) == bootstrap)


def test_a_cluster_stopped_for_a_while_costs_nothing(
    console: Console, access: Access, kafkas: KafkaClusters
) -> None:
    validated, plain = create(console), create(console, "--unvalidated")
    with Stream(access, {validated: 1, plain: 1}) as stream:
        for name in kafkas.names():
            stream.settle()
            kafkas.stop([name])
            stream.settle(validated)
            kafkas.start([name])
        stream.settle()
    stream.require_all(access, validated, VALIDATED)
    stream.require_all(access, plain, UNVALIDATED)


def test_no_acknowledged_event_is_lost_by_kill_9(
    console: Console, access: Access, kafkas: KafkaClusters
) -> None:
    """Every other kill hits the cluster of both topics; each comes only after events flow again."""
    validated, plain = create(console), create(console, "--unvalidated")
    drawn, common = random.Random(8), kafka_of(access, kafkas, plain)
    with Stream(access, {validated: 1, plain: 1}) as stream:
        for number in range(ROUNDS):
            stream.settle()
            name = common if number % 2 else drawn.choice(kafkas.names())
            kafkas.kill(name)
            kafkas.start([name])
        stream.settle()
    stream.require_all(access, validated, VALIDATED)
    stream.require_all(access, plain, UNVALIDATED)
