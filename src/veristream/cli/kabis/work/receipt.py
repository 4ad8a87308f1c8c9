"""Exports and verifies receipts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import typer

from veristream.cli.failure import Exit
from veristream.cli.kabis.work.opening import visit_as_admin
from veristream.cli.kabis.work.text import to_json_value
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.administration import Replica
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.certified import ReceiptError
from veristream.kabis.ledger.event_receipts import (
    RECEIPT_BYTES_MAX,
    EventReceipt,
    VerifiedReceipt,
    export_receipt,
    verify_receipt,
)
from veristream.kabis.protocol.genesis import load_genesis


def export(data: Path, event: tuple[str, int, int], out: Path | None) -> None:
    """Writes a receipt to a new file or to stdout, after verifying it."""
    access = Access(ClusterFolder(data)).require_up()
    if out is not None and out.exists():
        raise ModelError(f"{out} already exists", hint="choose another name; receipts are not overwritten")

    async def work(replica: Replica) -> EventReceipt:
        return await replica.receipt(*event)

    receipt = export_receipt(visit_as_admin(access, work))
    verify_receipt(receipt, access.genesis)
    if out is None:
        typer.echo(receipt.decode("ascii"), nl=False)
        return
    try:
        out.write_bytes(receipt)
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {out}: {error.strerror}") from error
    topic, partition, index = event
    typer.echo(f"{out}: the receipt of {topic}-{partition}, event {index}, {len(receipt)} bytes")


def verify(file: Path, genesis_file: Path, *, as_json: bool) -> None:
    """Prints what a receipt proves; exits with 1 if it proves nothing."""
    for path in (file, genesis_file):
        if not path.is_file():
            hint = "name the chain's genesis with --genesis FILE" if path == genesis_file else ""
            raise ModelError(f"there is no file {path}", hint=hint)
    genesis = load_genesis(genesis_file)
    with file.open("rb") as opened:
        data = opened.read(2 * RECEIPT_BYTES_MAX + 1)
    try:
        shown = verify_receipt(data, genesis)
    except ReceiptError as error:
        if as_json:
            typer.echo(json.dumps({"holds": False, "fault": error.fault.name, "why": str(error)}))
        typer.echo(f"error: {file} proves nothing: {error}", err=True)
        raise typer.Exit(Exit.VIOLATED) from error
    typer.echo(json.dumps(_to_json(shown), indent=2) if as_json else render(shown))


def render(shown: VerifiedReceipt) -> str:
    """Renders a verified receipt as text."""
    when = datetime.fromtimestamp(shown.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    lines = {
        "event": _quote(shown.event.value),
        "key": _quote(shown.event.key),
        "topic": f"{shown.topic}, partition {shown.partition}",
        "producer": f"{shown.producer}, key {shown.public.hex()[:16]}…, its event number {shown.sequence}",
        "ordered": f"block {shown.height} of {shown.chain_id}, {when}",
        "by": ", ".join(shown.validators),
        "stored by": ", ".join(shown.storage),
    }
    if shown.key_ended_height is not None:
        lines["note"] = f"the producer's key became invalid later, at block {shown.key_ended_height}"
    facts = "\n".join(f"  {name:<10}{text}" for name, text in lines.items() if text)
    return f"the receipt holds\n{facts}"


def _quote(value: bytes | None) -> str:
    if value is None:
        return ""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(value)} bytes: {value[:32].hex()}{'…' if len(value) > 32 else ''}"


def _to_json(shown: VerifiedReceipt) -> dict[str, object]:
    return {
        "holds": True,
        "chain_id": shown.chain_id,
        "topic": shown.topic,
        "partition": shown.partition,
        **to_json_value("key", shown.event.key),
        **to_json_value("value", shown.event.value),
        "producer": shown.producer,
        "key_epoch": shown.key_epoch,
        "public": shown.public.hex(),
        "sequence": shown.sequence,
        "height": shown.height,
        "time_ms": shown.time_ms,
        "batch": shown.digest.hex(),
        "validators": shown.validators,
        "storage": shown.storage,
        "key_ended_height": shown.key_ended_height,
    }
