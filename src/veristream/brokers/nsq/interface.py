"""The HTTP interface of nsqd and nsqlookupd: what they have, and creating topics and channels."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from veristream.errors import ModelError

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ChannelDepth:
    """A channel: the messages that wait, those of them on disk, those sent and not answered, and those
    that were given back for later."""

    depth: int
    on_disk: int
    in_flight: int
    deferred: int


@dataclass(frozen=True, slots=True)
class TopicDepth:
    """A topic: the messages that no channel has taken yet, those of them on disk, and its channels."""

    depth: int
    on_disk: int
    channels: Mapping[str, ChannelDepth]


@dataclass(frozen=True, slots=True)
class Found:
    """An nsqd that nsqlookupd knows: where clients connect, and its HTTP interface."""

    address: str
    http: str


def ask(address: str, method: str, path: str) -> bytes:
    """Returns the answer; raises OSError if there is none, ModelError if it is a refusal."""
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
    if reply.status != http.client.OK:
        said = body.decode("utf-8", errors="replace").strip()
        raise ModelError(f"{address} refuses {path.partition('?')[0]}: {said}")
    return body


def read_depths(address: str, topic: str) -> TopicDepth | None:
    """Returns how many messages of a topic an nsqd has, None if it does not have the topic."""
    path = "/stats?" + urlencode({"format": "json", "topic": topic})
    for each in _json(ask(address, "GET", path))["topics"] or []:
        if each["topic_name"] == topic:
            channels = {one["channel_name"]: _channel(one) for one in each["channels"] or []}
            return TopicDepth(each["depth"], each["backend_depth"], channels)
    return None


def create_channel(address: str, topic: str, channel: str) -> None:
    """Creates a channel and its topic unless they are there."""
    ask(address, "POST", "/topic/create?" + urlencode({"topic": topic}))
    ask(address, "POST", "/channel/create?" + urlencode({"topic": topic, "channel": channel}))


def find_nsqd(lookupd: str) -> list[Found]:
    """Returns the nsqd that nsqlookupd knows, by its HTTP interface; raises OSError or ModelError."""
    found = _json(ask(lookupd, "GET", "/nodes"))["producers"] or []
    return [
        Found(
            f"{each['broadcast_address']}:{each['tcp_port']}",
            f"{each['broadcast_address']}:{each['http_port']}",
        )
        for each in sorted(found, key=lambda each: (each["broadcast_address"], each["tcp_port"]))
    ]


def _channel(stats: Mapping[str, Any]) -> ChannelDepth:
    return ChannelDepth(
        stats["depth"], stats["backend_depth"], stats["in_flight_count"], stats["deferred_count"]
    )


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError as error:
        raise ConnectionError(f"not JSON: {answer[:40]!r}") from error
