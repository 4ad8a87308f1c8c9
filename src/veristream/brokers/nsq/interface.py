"""The HTTP interface of nsqd and nsqlookupd: what they have, and creating topics and channels."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from veristream.errors import ModelError

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ChannelDepth:
    """A channel: the messages that wait, those of them on disk, those sent and not answered, and those
    that were given back for later. `received` counts what it got since nsqd started."""

    depth: int
    on_disk: int
    in_flight: int
    deferred: int
    received: int = 0


@dataclass(frozen=True, slots=True)
class TopicDepth:
    """A topic: the messages that no channel has taken yet, those of them on disk, and its channels.

    `received` counts what was published to it since nsqd started.
    """

    depth: int
    on_disk: int
    channels: Mapping[str, ChannelDepth]
    received: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """An nsqd that nsqlookupd knows: where clients connect, and its HTTP interface."""

    address: str
    http: str


@dataclass(frozen=True, slots=True)
class Registered:
    """What nsqlookupd knows of an nsqd: its topics, and for each whether it hides the nsqd (tombstone)."""

    hidden: Mapping[str, bool]


def ask(address: str, method: str, path: str) -> bytes:
    """Returns the answer; raises OSError if there is none, ModelError if it is a refusal."""
    status, body = _ask(address, method, path)
    if status != http.client.OK:
        said = body.decode("utf-8", errors="replace").strip()
        raise ModelError(f"{address} refuses {path.partition('?')[0]}: {said}")
    return body


def _ask(address: str, method: str, path: str) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    try:
        connection.request(method, path, body=b"" if method == "POST" else None)
        reply = connection.getresponse()
        body = reply.read()
    except http.client.HTTPException as error:
        raise ConnectionError(f"no HTTP: {error!r}") from error
    finally:
        connection.close()
    return reply.status, body


def read_depths(address: str, topic: str) -> TopicDepth | None:
    """Returns how many messages of a topic an nsqd has, None if it does not have the topic."""
    path = "/stats?" + urlencode({"format": "json", "topic": topic})
    for each in _json(ask(address, "GET", path))["topics"] or []:
        if each["topic_name"] == topic:
            channels = {one["channel_name"]: _channel(one) for one in each["channels"] or []}
            return TopicDepth(each["depth"], each["backend_depth"], channels, each["message_count"])
    return None


def create_channel(address: str, topic: str, channel: str) -> None:
    """Creates a channel and its topic unless they are there."""
    ask(address, "POST", "/topic/create?" + urlencode({"topic": topic}))
    ask(address, "POST", "/channel/create?" + urlencode({"topic": topic, "channel": channel}))


def find_nsqd(lookupd: str) -> list[Found]:
    """Returns the nsqd that nsqlookupd knows, by its HTTP interface; raises OSError or ModelError."""
    return _found(_json(ask(lookupd, "GET", "/nodes"))["producers"])


def look_up(lookupd: str, topic: str) -> list[Found]:
    """Returns where nsqlookupd, asked over HTTP, sends consumers of a topic; nowhere if it has no topic."""
    status, body = _ask(lookupd, "GET", "/lookup?" + urlencode({"topic": topic}))
    return _found(_json(body)["producers"]) if status == http.client.OK else []


def read_registered(lookupd: str, nsqd_http: str) -> Registered | None:
    """Returns what nsqlookupd knows of the nsqd with this HTTP interface, None if it does not know it."""
    for each in _json(ask(lookupd, "GET", "/nodes"))["producers"] or []:
        if f"{each['broadcast_address']}:{each['http_port']}" == nsqd_http:
            return Registered(dict(zip(each["topics"] or [], each["tombstones"] or [], strict=True)))
    return None


def set_tombstone(lookupd: str, topic: str, nsqd_http: str) -> None:
    """Hides an nsqd from consumers of a topic, for as long as nsqlookupd was told."""
    ask(lookupd, "POST", "/topic/tombstone?" + urlencode({"topic": topic, "node": nsqd_http}))


def delete_topic(address: str, topic: str) -> None:
    """Deletes a topic of an nsqd, with its messages."""
    ask(address, "POST", "/topic/delete?" + urlencode({"topic": topic}))


def _found(producers: Sequence[Mapping[str, Any]] | None) -> list[Found]:
    return [
        Found(
            f"{each['broadcast_address']}:{each['tcp_port']}",
            f"{each['broadcast_address']}:{each['http_port']}",
        )
        for each in sorted(producers or [], key=lambda each: (each["broadcast_address"], each["tcp_port"]))
    ]


def _channel(stats: Mapping[str, Any]) -> ChannelDepth:
    return ChannelDepth(
        stats["depth"],
        stats["backend_depth"],
        stats["in_flight_count"],
        stats["deferred_count"],
        stats["message_count"],
    )


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError as error:
        raise ConnectionError(f"not JSON: {answer[:40]!r}") from error
