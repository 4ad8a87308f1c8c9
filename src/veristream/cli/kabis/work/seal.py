"""Key files of sealed topics, shared by producers and consumers and unknown to all parties."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from veristream.errors import ModelError
from veristream.kabis.log.disk.files import replace
from veristream.kabis.protocol.members import is_name
from veristream.kabis.protocol.seal import (
    KEY_BYTES,
    Sealer,
    TopicKeys,
    encode_topic_keys,
    load_topic_keys,
    save_topic_keys,
)


def create(topic: str, file: Path) -> None:
    """Writes the first key of a topic to a new file."""
    if not is_name(topic):
        raise ModelError(f"{topic!r} is not a valid topic name", hint="letters, digits, '.', '_' and '-'")
    save_topic_keys(file, TopicKeys(topic, 0, {0: os.urandom(KEY_BYTES)}))
    typer.echo(f"{file}: key 0 of {topic}; share it only with clients that may read the topic")


def rotate(file: Path) -> None:
    """Adds a key that seals new events; the old keys still open old ones."""
    keys = load_topic_keys(file).rotate(os.urandom(KEY_BYTES))
    replace(file, encode_topic_keys(keys).encode("ascii"))
    typer.echo(
        f"{file}: key {keys.current} of {keys.topic} seals new events; {keys.current} older keys still open"
    )


def read_sealers(chain_id: str, files: Sequence[Path], topics: Sequence[str]) -> dict[str, Sealer]:
    """Returns the sealer of each topic; raises ModelError if a file belongs to another topic."""
    sealers: dict[str, Sealer] = {}
    for file in files:
        keys = load_topic_keys(file)
        if keys.topic not in topics:
            raise ModelError(
                f"{file} has the keys of {keys.topic}, not of {', '.join(topics)}",
                hint=f"veristream kabis seal new {topics[0]} FILE creates keys",
            )
        if keys.topic in sealers:
            raise ModelError(
                f"two files have keys of {keys.topic}", hint="name only one of them with --seal"
            )
        sealers[keys.topic] = Sealer(chain_id, keys)
    return sealers
