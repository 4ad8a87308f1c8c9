"""Lists, replaces and revokes keys on the ledger."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from veristream.cli.kabis.table import draw_table
from veristream.cli.kabis.work.opening import visit_as_admin
from veristream.errors import ModelError
from veristream.kabis.client.administration import Replica
from veristream.kabis.client.authority import find_key_problem
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Key
from veristream.kabis.protocol.actions import RegisterKey, RevokeKey, RotateKey
from veristream.kabis.protocol.keys import SecretKey
from veristream.kabis.protocol.transactions import prove_possession


def show(data: Path, *, as_json: bool) -> None:
    access = Access(ClusterFolder(data)).require_up()

    async def work(replica: Replica) -> dict[tuple[str, int], Key]:
        return replica.ledger.keys()

    found = visit_as_admin(access, work)
    if as_json:
        listed = [_to_json(name, key_epoch, key) for (name, key_epoch), key in found.items()]
        typer.echo(json.dumps(listed, indent=2))
        return
    rows = [
        (name, str(key_epoch), f"{key.public.hex()[:16]}…", str(key.registered_height), _end(key))
        for (name, key_epoch), key in found.items()
    ]
    typer.echo(draw_table(("client", "number", "key", "since block", "state"), rows))


def _end(key: Key) -> str:
    return "valid" if key.ending is None else f"{key.ending.name.lower()}, block {key.ended_height}"


def _to_json(name: str, key_epoch: int, key: Key) -> dict[str, object]:
    return {
        "client": name,
        "number": key_epoch,
        "public": key.public.hex(),
        "registered_height": key.registered_height,
        "ending": None if key.ending is None else key.ending.name.lower(),
        "ended_height": key.ended_height,
    }


def rotate(data: Path, name: str) -> None:
    """Replaces the latest key; completes an interrupted rotation."""
    folder = ClusterFolder(data)
    access = Access(folder).require_up()
    folder.key(name)
    fresh = folder.draw_key(name)

    async def work(replica: Replica) -> int:
        if _latest(replica.ledger, name)[1].public != fresh.public:
            await _replace(replica, access, name, fresh)
        return _latest(replica.ledger, name)[0]

    key_epoch = visit_as_admin(access, work)
    folder.adopt_key(name, key_epoch)
    path = folder.key_path(name, key_epoch)
    typer.echo(f"{name}: key {key_epoch}, {fresh.public.hex()[:16]}…, in {path}")


async def _replace(replica: Replica, access: Access, name: str, fresh: SecretKey) -> None:
    """Rotates as the client while its key is valid; otherwise the admin registers the new key."""
    author, key_epoch = access.author(name), _latest(replica.ledger, name)[0] + 1
    possession = prove_possession(author.chain_id, name, key_epoch, fresh)
    if find_key_problem(replica.ledger, author) is None:
        await replica.act(author, RotateKey(fresh.public, possession))
    else:
        await replica.act(access.author(ADMIN), RegisterKey(name, key_epoch, fresh.public, possession))


def revoke(data: Path, name: str) -> None:
    if name == ADMIN:
        raise ModelError(
            "the admin's key cannot be revoked: no one else can register keys",
            hint=f"veristream kabis key rotate {ADMIN} replaces it",
        )
    access = Access(ClusterFolder(data)).require_up()
    author = access.author(ADMIN)

    async def work(replica: Replica) -> int:
        key_epoch, key = _latest(replica.ledger, name)
        if key.ending is not None:
            raise ModelError(
                f"the key of {name} is no longer valid: {_end(key)}",
                hint=f"veristream kabis key rotate {name} registers a new one",
            )
        await replica.act(author, RevokeKey(name, key_epoch))
        return key_epoch

    key_epoch = visit_as_admin(access, work)
    typer.echo(
        f"{name}: key {key_epoch} is revoked; veristream kabis key rotate {name} registers a new one"
    )


def _latest(ledger: Ledger, name: str) -> tuple[int, Key]:
    account = ledger.account(name)
    key = None if account is None else ledger.key(name, account.key_epoch)
    if account is None or key is None:
        raise ModelError(
            f"{name} is not registered", hint=f"veristream kabis client add {name} registers it"
        )
    return account.key_epoch, key
