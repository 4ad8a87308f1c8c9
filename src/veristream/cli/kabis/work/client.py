"""`kabis client`: registers clients."""

from __future__ import annotations

from pathlib import Path

import typer

from veristream.cli.kabis.work.acting import act
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.actions import Action, RegisterKey
from veristream.kabis.protocol.transactions import prove_possession


def add(data: Path, name: str) -> None:
    """Creates and registers a key; completes an interrupted registration."""
    folder = ClusterFolder(data)
    chain_id = folder.genesis().chain_id
    key = folder.add_client(name)

    def decide(ledger: Ledger) -> Action | None:
        known = ledger.key(name, 0)
        if known is not None and known.public == key.public:
            return None
        return RegisterKey(name, 0, key.public, prove_possession(chain_id, name, 0, key))

    act(data, decide)
    typer.echo(f"{name}: key {key.public.hex()[:16]}… in {data / 'keys' / name}")
