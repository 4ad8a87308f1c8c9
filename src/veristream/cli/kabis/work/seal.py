"""The keys of sealed topics: files that producers and consumers share, and no party has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from veristream.errors import ModelError
from veristream.kabis.log.disk.files import replace
from veristream.kabis.protocol.genesis import is_name
from veristream.kabis.protocol.seal import (
    KEY_BYTES,
    Sealer,
    TopicKeys,
    encode_topic_keys,
    load_topic_keys,
    save_topic_keys,
)


def create(topic: str, file: Path) -> None:
    """Makes the first key of a topic, in a new file."""
    if not is_name(topic):
        raise ModelError(f"{topic!r} is not a valid topic name", hint="letters, digits, '.', '_' and '-'")
    save_topic_keys(file, TopicKeys(topic, 0, {0: os.urandom(KEY_BYTES)}))
    typer.echo(f"{file}: key 0 of {topic}; give it to who may read the topic, and to nobody else")


def rotate(file: Path) -> None:
    """Adds a key to a file: events from now on are sealed under it, older ones still open."""
    keys = load_topic_keys(file).rotate(os.urandom(KEY_BYTES))
    replace(file, encode_topic_keys(keys).encode("ascii"))
    typer.echo(
        f"{file}: key {keys.current} of {keys.topic} seals from now on; its {keys.current} before open"
    )


def read_sealers(chain_id: str, files: Sequence[Path], topics: Sequence[str]) -> dict[str, Sealer]:
    """What seals and opens the events of each topic; raises ModelError if a file is for another."""
    sealers: dict[str, Sealer] = {}
    for file in files:
        keys = load_topic_keys(file)
        if keys.topic not in topics:
            raise ModelError(
                f"{file} has the keys of {keys.topic}, and not of {', '.join(topics)}",
                hint=f"veristream kabis seal new {topics[0]} FILE makes keys",
            )
        if keys.topic in sealers:
            raise ModelError(f"two files have keys of {keys.topic}", hint="give --seal one of them")
        sealers[keys.topic] = Sealer(chain_id, keys)
    return sealers
