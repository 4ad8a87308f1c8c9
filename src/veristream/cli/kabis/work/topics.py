"""What the admin does: topics, marks and clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import typer

from veristream.cli.kabis.table import draw_table
from veristream.errors import ModelError
from veristream.kabis.client.administration import Replica, TopicState, list_topics, visit
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.actions import Action, LowWater, RegisterKey, SetTopic
from veristream.kabis.protocol.transactions import prove_possession

Wanted = TypeVar("Wanted", bound=Action | None)


def create(data: Path, name: str, partitions: int, *, validated: bool) -> None:
    """Creates a topic that is not there."""

    def decide(ledger: Ledger) -> Action:
        if ledger.topic(name) is not None:
            raise ModelError(
                f"the topic {name} exists", hint=f"veristream kabis topic set {name} changes it"
            )
        return SetTopic(name, partitions, validated)

    _act(data, decide)
    typer.echo(f"{name}: {_describe(partitions, validated=validated)}")


def change(data: Path, name: str, partitions: int | None, validated: bool | None) -> None:
    """Changes a topic that is there."""

    def decide(ledger: Ledger) -> SetTopic:
        policy = ledger.topic(name)
        if policy is None:
            raise UnknownTopicError(name)
        return SetTopic(
            name, partitions or policy.partitions, policy.validated if validated is None else validated
        )

    done = _act(data, decide)
    typer.echo(f"{name}: {_describe(done.partitions, validated=done.validated)}")


def trim(data: Path, name: str, partition: int, before: int) -> None:
    """Raises a partition's low-water mark."""
    _act(data, lambda _: LowWater(name, partition, before))
    typer.echo(f"{name}-{partition}: events before {before} are let go")


def add_client(data: Path, name: str) -> None:
    """Makes and registers a key."""
    folder = ClusterFolder(data)
    chain_id = folder.genesis().chain_id
    key = folder.add_client(name)

    def decide(ledger: Ledger) -> Action | None:
        known = ledger.key(name, 0)
        if known is not None and known.public == key.public:
            return None
        return RegisterKey(name, 0, key.public, prove_possession(chain_id, name, 0, key))

    _act(data, decide)
    typer.echo(f"{name}: key {key.public.hex()[:16]}… in {data / 'keys' / name}")


def show(data: Path, *, as_json: bool) -> None:
    """Prints all topics."""
    access = Access(ClusterFolder(data)).require_up()

    async def work(replica: Replica) -> list[TopicState]:
        return list_topics(replica.ledger)

    topics = visit(access.genesis, access.admin(), work)
    if as_json:
        typer.echo(json.dumps([_to_json(topic) for topic in topics], indent=2))
    elif topics:
        typer.echo(draw_table(("topic", "trust", "partition", "from", "to"), _rows(topics)))
    else:
        typer.echo("no topics; veristream kabis topic create NAME makes one")


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


def _act(data: Path, decide: Callable[[Ledger], Wanted]) -> Wanted:
    """Gets onto the ledger what is decided in view of it."""
    access = Access(ClusterFolder(data)).require_up()
    author = access.author(ADMIN)

    async def work(replica: Replica) -> Wanted:
        action = decide(replica.ledger)
        if action is not None:
            await replica.act(author, action)
        return action

    return visit(access.genesis, access.admin(), work)
