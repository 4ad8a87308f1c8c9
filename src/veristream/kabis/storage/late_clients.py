"""The file of clients that joined after the genesis; storage parties admit them before the ledger does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.log.disk.files import replace
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES
from veristream.kabis.protocol.members import Party, is_name

CLIENTS_BYTES_MAX = 4 << 20


def load_clients(path: Path) -> tuple[Party, ...]:
    """Reads the clients in the file."""
    try:
        with path.open("rb") as file:
            data = file.read(CLIENTS_BYTES_MAX + 1)
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {path}: {error.strerror}") from error
    try:
        if len(data) > CLIENTS_BYTES_MAX:
            raise ValueError(f"it has more than {CLIENTS_BYTES_MAX} bytes")
        listed = json.loads(data)
        if not isinstance(listed, list):
            raise ValueError("it is not a list")
        return tuple(map(_read_client, listed))
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path} is not a list of clients: {error}", hint='[{"name": "...", "public": "64 hex digits"}]'
        ) from error


def note_client(path: Path, client: Party) -> None:
    """Adds a client to the file, unless it is in it."""
    known = load_clients(path)
    if client not in known:
        listed = [{"name": each.name, "public": each.public.hex()} for each in (*known, client)]
        replace(path, json.dumps(listed, indent=2).encode() + b"\n")


def _read_client(item: Any) -> Party:
    name, public = (item.get("name"), item.get("public")) if isinstance(item, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(public, str) or not is_name(name):
        raise ValueError("a client needs a name and a public key")
    key = bytes.fromhex(public)
    if len(key) != PUBLIC_KEY_BYTES:
        raise ValueError(f"the key of {name} does not have {PUBLIC_KEY_BYTES} bytes")
    return Party(name, key)
