"""`kabis topic`: creates, changes, lists, trims and limits topics as the admin."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from veristream.cli.kabis.table import draw_table
from veristream.cli.kabis.work.acting import act
from veristream.cli.kabis.work.opening import visit_as_admin
from veristream.errors import ModelError
from veristream.kabis.client.administration import Replica, TopicState, list_topics
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.actions import Action, LowWater, Retention, SetRetention, SetTopic


def create(data: Path, name: str, partitions: int, *, validated: bool) -> None:

    def decide(ledger: Ledger) -> Action:
        if ledger.topic(name) is not None:
            raise ModelError(
                f"topic {name} already exists", hint=f"veristream kabis topic set {name} changes it"
            )
        return SetTopic(name, partitions, validated)

    act(data, decide)
    typer.echo(f"{name}: {_describe(partitions, validated=validated)}")


def change(data: Path, name: str, partitions: int | None, validated: bool | None) -> None:

    def decide(ledger: Ledger) -> SetTopic:
        policy = ledger.topic(name)
        if policy is None:
            raise UnknownTopicError(name)
        return SetTopic(
            name, partitions or policy.partitions, policy.validated if validated is None else validated
        )

    done = act(data, decide)
    typer.echo(f"{name}: {_describe(done.partitions, validated=done.validated)}")


def trim(data: Path, name: str, partition: int, before: int) -> None:
    """Raises a partition's low-water mark."""
    act(data, lambda _: LowWater(name, partition, before))
    typer.echo(f"{name}-{partition}: events before {before} are discarded")


def retain(data: Path, name: str, batches: int, hours: float) -> None:
    """Sets how much each partition of a topic keeps."""
    retention = Retention(batches, round(hours * 3_600_000))

    def decide(ledger: Ledger) -> Action | None:
        if ledger.topic(name) is None:
            raise UnknownTopicError(name)
        return None if ledger.retention(name) == retention else SetRetention(name, retention)

    act(data, decide)
    limits = [f"{batches} batches"] * (batches > 0) + [f"{hours:g} hours"] * (hours > 0)
    typer.echo(f"{name}: each partition keeps {' and at most '.join(limits) or 'everything'}")


def show(data: Path, *, as_json: bool) -> None:
    access = Access(ClusterFolder(data)).require_up()

    async def work(replica: Replica) -> list[TopicState]:
        return list_topics(replica.ledger)

    topics = visit_as_admin(access, work)
    if as_json:
        typer.echo(json.dumps([_to_json(topic) for topic in topics], indent=2))
    elif topics:
        typer.echo(draw_table(("topic", "trust", "partition", "from", "to"), _rows(topics)))
    else:
        typer.echo("no topics; veristream kabis topic create NAME creates one")


def _rows(topics: list[TopicState]) -> list[tuple[str, ...]]:
    return [
        (topic.name, "validated", str(partition), str(low), str(end))
        if topic.validated
        else (topic.name, "not validated", str(partition), "-", "-")
        for topic in topics
        for partition, (low, end) in enumerate(topic.bounds)
    ]


def _to_json(topic: TopicState) -> dict[str, object]:
    bounds = [{"from": low, "to": end} for low, end in topic.bounds]
    return {"topic": topic.name, "validated": topic.validated, "partitions": bounds}


def _describe(partitions: int, *, validated: bool) -> str:
    trust = "validated" if validated else "not validated"
    return f"{trust}, {partitions} partition{'s' if partitions > 1 else ''}"
