"""`kabis status`: the state of a cluster as text or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from veristream.cli.failure import Exit
from veristream.cli.kabis.table import draw_table, show_bytes
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.status import FORMER, JOINING, ClusterStatus, PartyStatus, read_status


def show(data: Path, *, as_json: bool) -> None:
    """Prints the state of the cluster; exits with 3 if it cannot admit events."""
    status = read_status(ClusterFolder(data))
    if as_json:
        typer.echo(json.dumps(_to_json(status), indent=2))
    else:
        typer.echo(render(status))
    if not status.makes_progress:
        raise typer.Exit(Exit.ENVIRONMENT)


def render(status: ClusterStatus) -> str:
    """The status for people."""
    head = ("party", "process", "address", "height", "lag", "records", "disk")
    progress = "" if status.makes_progress else "; too few parties answer to admit events"
    lines = [
        f"chain {status.chain_id}, F = {status.faults}, height {status.height}{progress}",
        "",
        draw_table(head, [_row(party) for party in status.parties]),
        "",
    ]
    lines += _render_groups(status)
    lines += [line for party in status.parties if (line := _render_membership(party))]
    for party in status.parties:
        if party.ended:
            again = f", restarted {_count(party.restarts)}" if party.restarts else ""
            lines.append(f"{party.name} {party.ended}{again}{'; it is down' if party.pid is None else ''}")
        if party.torn_bytes:
            lines.append(f"{party.name} cut {party.torn_bytes} torn bytes off its log when it started")
        if party.missing:
            lines.append(f"{party.name} still copies batches from before a change: {party.missing}")
        if party.lost:
            lines.append(f"{party.name} lost {party.lost} records to damage on its disk")
    lines += [
        f"evidence: {each.role} {each.name} contradicted itself, block {each.height}"
        for each in status.evidence
    ]
    lines += [
        f"suspicion: {consumer} got {count} wrong or missing answers from {party}"
        for consumer, party, count in status.suspicions
    ]
    lines += [
        f"limit: {each.who}: {each.limit}, {_count(each.count)}, at {', '.join(each.parties)}"
        for each in status.offenders
    ]
    if not status.evidence and not status.suspicions:
        lines.append("nobody was caught")
    return "\n".join(lines)


def _render_membership(party: PartyStatus) -> str:
    """Says since when or until when a party is a member, unless it simply is one."""
    if party.membership == FORMER:
        return f"{party.name} left at block {party.end}; its data is kept"
    if party.end is not None:
        return f"{party.name} leaves at block {party.end}"
    return f"{party.name} joins at block {party.begin}" if party.membership == JOINING else ""


def _render_groups(status: ClusterStatus) -> list[str]:
    if status.groups is None:
        return [f"progress of consumer groups unknown: {status.unread}", ""]
    head = ("group", "partition", "read by", "committed", "end", "lag")
    rows = [
        (
            each.group,
            f"{each.topic}-{each.partition}",
            each.member or "nobody",
            *("-" if number is None else str(number) for number in (each.committed, each.end, each.lag)),
        )
        for each in status.groups
    ]
    return [draw_table(head, rows), ""] if rows else []


def _count(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _row(party: PartyStatus) -> tuple[str, ...]:
    process = "down" if party.pid is None else f"{party.pid}" if party.answers else f"{party.pid} silent"
    if party.pid is None and party.answers:
        process = "elsewhere"
    numbers = ("-" if each is None else str(each) for each in (party.height, party.lag, party.records))
    return (party.name, process, party.address, *numbers, show_bytes(party.disk_bytes))


def _to_json(status: ClusterStatus) -> dict[str, object]:
    return {
        "chain_id": status.chain_id,
        "faults": status.faults,
        "height": status.height,
        "makes_progress": status.makes_progress,
        "parties": [asdict(party) for party in status.parties],
        "evidence": [
            {"role": each.role, "name": each.name, "height": each.height, "transaction": each.digest.hex()}
            for each in status.evidence
        ],
        "suspicions": [
            {"consumer": consumer, "party": party, "count": count}
            for consumer, party, count in status.suspicions
        ],
        "groups_unread": status.unread,
        "offenders": [asdict(each) for each in status.offenders],
        "groups": None if status.groups is None else [asdict(each) for each in status.groups],
    }
