"""`kabis member`: lists the members of a chain, and has the admin change them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import typer

from veristream.cli.kabis.table import draw_table
from veristream.cli.kabis.work.opening import showing_opening, visit_as_admin
from veristream.errors import ModelError
from veristream.kabis.client.administration import PATIENCE_S, Replica, visit
from veristream.kabis.client.changes import (
    Addition,
    Removal,
    Replacement,
    Rotation,
    find_member,
)
from veristream.kabis.client.known_members import KnownMembers, Seat, know_ledger, note_members
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.operations import membership
from veristream.kabis.operations.membership import Offer, Ordered, Wish
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from veristream.kabis.protocol.genesis import load_genesis
from veristream.kabis.protocol.members import MemberRole, Members, Party, is_address

ROLES = {"validator": MemberRole.VALIDATOR, "storage": MemberRole.STORAGE}
NAMES = {role: name for name, role in ROLES.items()}


# Listing


def show(data: Path, *, as_json: bool) -> None:
    """Prints the members by the ledger, and completes a change on this machine."""
    folder = ClusterFolder(data)
    access = Access(folder).require_up()

    async def work(replica: Replica) -> KnownMembers:
        note_members(folder.members_path, replica.ledger)
        return know_ledger(replica.ledger)

    known = visit_as_admin(access, work)
    membership.settle(Cluster(folder), known)
    typer.echo(json.dumps(_to_json(known), indent=2) if as_json else render(known))


def render(known: KnownMembers) -> str:
    """The members for people."""
    members, pending = known.in_force, known.pending
    rows = [
        (
            seat.party.name,
            NAMES[seat.role],
            seat.party.address,
            f"{seat.party.public.hex()[:16]}…",
            str(seat.begin),
            _state(seat, known),
        )
        for seat in sorted(known.seats(), key=lambda seat: seat.role.value)
    ]
    lines = [
        f"block {known.height}: {_describe(members)}",
        "",
        draw_table(("member", "role", "address", "key", "from block", "state"), rows),
    ]
    if pending is not None:
        lines += ["", f"from block {pending[0]} on: {_describe(pending[1])}"]
    return "\n".join(lines)


def _describe(members: Members) -> str:
    validators, storage = len(members.validators), len(members.storage)
    return f"{validators} validators and {storage} storage parties, F = {members.faults}"


def _state(seat: Seat, known: KnownMembers) -> str:
    if seat.is_former(known.height + 1):
        return f"left at block {seat.end}"
    if seat.begin > known.height + 1:
        return "joins"
    if seat.end is not None:
        return f"leaves at block {seat.end}"
    following = known.latest.find(seat.role, seat.party.name)
    if known.pending is not None and following is not None and following.public != seat.party.public:
        return f"new key at block {known.pending[0]}"
    return "in force"


def _to_json(known: KnownMembers) -> dict[str, object]:
    sets = [
        {"from": begin, "until": until, **_members_to_json(members)}
        for (begin, members), until in zip(
            known.sets, (*(begin for begin, _ in known.sets[1:]), None), strict=True
        )
    ]
    former = [each for each in sets if each["until"] is not None]
    pending = sets[-1] if known.pending is not None else None
    in_force = sets[-2] if known.pending is not None else sets[-1]
    return {
        "height": known.height,
        "in_force": in_force,
        "pending": pending,
        "former": [each for each in former if each is not in_force],
    }


def _members_to_json(members: Members) -> dict[str, object]:
    def listed(parties: Sequence[Party]) -> list[dict[str, str]]:
        return [
            {"name": each.name, "public": each.public.hex(), "address": each.address} for each in parties
        ]

    return {
        "faults": members.faults,
        "storage_mode": members.storage_mode.value,
        "validators": listed(members.validators),
        "storage": listed(members.storage),
    }


# Changing


@dataclass(frozen=True, slots=True)
class Replacing:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Adding:
    names: tuple[str, ...]
    role: str | None


@dataclass(frozen=True, slots=True)
class Removing:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rotating:
    name: str


Wanted = Replacing | Adding | Removing | Rotating


def read_offers(
    names: Sequence[str],
    public: Sequence[str] | None,
    possession: Sequence[str] | None,
    address: Sequence[str] | None,
) -> dict[str, Offer]:
    """Returns what other machines offer, by name; nothing if the keys are made here."""
    if not public and not possession and not address:
        return {}
    given = {"--public": public or [], "--possession": possession or []}
    if address is not None:
        given["--address"] = address
    for option, values in given.items():
        if len(values) != len(names):
            raise ModelError(
                f"{option} is given {len(values)} times for {len(names)} names",
                hint="give --public, --possession and --address once for each name, in their order",
            )
    return {
        name: Offer(
            _parse_hex("--public", given["--public"][number], PUBLIC_KEY_BYTES),
            _parse_hex("--possession", given["--possession"][number], SIGNATURE_BYTES),
            _parse_address(address[number]) if address else "",
        )
        for number, name in enumerate(names)
    }


def _parse_hex(option: str, text: str, size: int) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != size:
        raise ModelError(
            f"{option} is not {size} bytes in hexadecimal: {text!r}",
            hint="copy it from what `veristream kabis member key` prints",
        )
    return value


def _parse_address(text: str) -> str:
    if not is_address(text):
        raise ModelError(f"--address {text} is not HOST:PORT", hint="for example --address 10.0.0.5:4001")
    return text


def change(data: Path, wanted: Wanted, offers: Mapping[str, Offer], margin: int) -> None:
    """Orders a change, has newcomers started, waits until it is in force, and says what to do next."""
    folder = ClusterFolder(data)
    membership.check_changeable(folder.genesis())
    access, cluster = Access(folder).require_up(), Cluster(folder)

    async def order(replica: Replica) -> Ordered:
        decided = _decide(wanted, offers)
        return await membership.order_change(replica, access, decided, margin)

    async def wait(replica: Replica) -> KnownMembers:
        return await membership.wait_in_force(replica, access, ordered.height)

    ordered = visit_as_admin(access, order)
    typer.echo(f"ordered: {_describe(ordered.after)}, from block {ordered.height} on")
    by_systemd = membership.start_newcomers(cluster, ordered.joining)
    if by_systemd:
        typer.echo(f"make the units again with `veristream kabis units`, and start {', '.join(by_systemd)}")
    with showing_opening() as shown:
        limit_s = membership.IN_FORCE_S + PATIENCE_S
        known = visit(access.genesis, access.admin(), wait, limit_s, shown=shown)
    typer.echo("in force")
    still = membership.settle_patiently(cluster, known)
    typer.echo("".join(f"{line}\n" for line in _advise(cluster, ordered, still)), nl=False)


def _decide(wanted: Wanted, offers: Mapping[str, Offer]) -> membership.Decide:
    def decide(members: Members) -> Wish:
        match wanted:
            case Replacing(old, new):
                role, _ = find_member(members, old)
                return Wish([(role, new)], lambda parties: Replacement(old, parties[0]), offers)
            case Adding(names, named):
                role_of = None if named is None else ROLES[named]
                roles = [membership.find_role(name, role_of) for name in names]
                return Wish(
                    list(zip(roles, names, strict=True)),
                    lambda parties: Addition(tuple(zip(roles, parties, strict=True))),
                    offers,
                )
            case Removing(names):
                return Wish([], lambda _: Removal(names))
            case Rotating(name):
                role, _ = find_member(members, name)
                return Wish(
                    [(role, name)],
                    lambda parties: Rotation(name, parties[0].public),
                    offers,
                    is_rotation=True,
                )
            case _:
                assert_never(wanted)

    return decide


def _advise(cluster: Cluster, ordered: Ordered, still: Sequence[str]) -> list[str]:
    """Says what remains to be done; `still` are parties that left and run."""
    elsewhere = [name for name in ordered.joining if not cluster.has_key(name)]
    lines = [f"start {name} on its machine, if it does not run yet" for name in elsewhere]
    for _, name in ordered.leaving:
        if name in still:
            do = "`veristream kabis member list` stops it once the others have copied what it has"
            lines.append(f"{name} left and still runs; {do}")
        else:
            lines.append(f"{name} left; its folder is kept")
    return lines


# Keys of other machines


@dataclass(frozen=True, slots=True)
class KeyWanted:
    """Options of `member key`."""

    address: str | None
    genesis: Path | None
    name: str | None
    role: str | None
    is_next: bool


def make_key(path: Path, wanted: KeyWanted) -> None:
    """Makes a key, and prints the command for the admin."""
    name = wanted.name or path.resolve().name
    role = membership.find_role(name, None if wanted.role is None else ROLES[wanted.role])
    if wanted.is_next == (wanted.address is not None):
        raise ModelError(
            "--next keeps the address of the party" if wanted.is_next else "--address is missing",
            hint="give --address HOST:PORT for a party that joins, or --next for one that gets a new key",
        )
    address = "" if wanted.address is None else _parse_address(wanted.address)
    genesis = load_genesis(wanted.genesis or path.resolve().parent / "genesis.json")
    membership.check_changeable(genesis)
    made = membership.make_key(path, genesis, role, Party(name, b"", address), is_next=wanted.is_next)
    typer.echo(f"public      {made.party.public.hex()}")
    typer.echo(f"possession  {made.possession.signature.hex()}")
    if address:
        typer.echo(f"address     {address}")
    verb = "rotate" if wanted.is_next else "add"
    where = f" --address {address}" if address else ""
    what = f"--public {made.party.public.hex()} --possession {made.possession.signature.hex()}{where}"
    typer.echo(f"\nthe admin runs:\nveristream kabis member {verb} {name} {what}")
