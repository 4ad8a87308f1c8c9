"""The settings of a replay on NSQ: options of nsqd and of nsqlookupd, and what clients do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from veristream.errors import ModelError, suggest
from veristream.recording.settings import split_settings

PARTS: Final = ("nsqd", "nsqlookupd", "client")
CHANNELS_FIRST: Final = "channels-first"


@dataclass(frozen=True, slots=True)
class Settings:
    """Options by name; with `channels_first`, all channels exist before the first message is published."""

    nsqd: Mapping[str, str] = field(default_factory=dict)
    nsqlookupd: Mapping[str, str] = field(default_factory=dict)
    channels_first: bool = False


def read_settings(flat: Mapping[str, str]) -> Settings:
    """Reads settings with names such as `nsqlookupd.tombstone-lifetime`; raises ModelError for others."""
    parts = split_settings(flat, PARTS, "nothing of NSQ", "nsqd.msg-timeout=1s")
    for key, value in parts["client"].items():
        if key != CHANNELS_FIRST:
            raise ModelError(
                f"clients have no setting `{key}`", hint=suggest(key, [CHANNELS_FIRST], CHANNELS_FIRST)
            )
        if value not in ("true", "false"):
            raise ModelError(f"`client.{key}={value}` is not valid", hint="give true or false")
    return Settings(parts["nsqd"], parts["nsqlookupd"], parts["client"].get(CHANNELS_FIRST) == "true")
