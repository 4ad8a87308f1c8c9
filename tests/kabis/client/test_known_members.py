"""What a folder knows of the members: proved by handovers, never older than before, refused if damaged."""

from __future__ import annotations

import json
from dataclasses import replace as changed
from pathlib import Path

import pytest

from tests.kabis.chain import key_of, make_genesis
from tests.kabis.moving import Moving
from veristream.errors import ModelError
from veristream.kabis.client.changes import Addition, Removal, Replacement, Rotation
from veristream.kabis.client.known_members import (
    FILE,
    MembersFileError,
    Seat,
    is_known_key,
    know_founding,
    know_ledger,
    load_members,
    load_succession,
    note_members,
)
from veristream.kabis.protocol.members import MemberRole, Members, Party

V, S = MemberRole.VALIDATOR, MemberRole.STORAGE
GENESIS = make_genesis()


def party(name: str, key_epoch: int = 0) -> Party:
    return Party(name, key_of(name, key_epoch).public, f"{name}:4000")


def started() -> Moving:
    names = ("v0", "v1", "v2", "v3", "v9", "s3")
    return Moving(GENESIS, key_of("admin"), [*map(key_of, names), key_of("v2", 1)])


def names(members: Members, role: MemberRole = V) -> list[str]:
    return [each.name for each in members.of(role)]


def replaced() -> Moving:
    """At height 5: v1 was replaced by v9 from height 4 on."""
    chain = started()
    chain.reach(1)
    chain.change(Replacement("v1", party("v9")), 4)
    chain.reach(5)
    return chain


def test_without_a_change_there_is_no_file(tmp_path: Path) -> None:
    chain = started()
    chain.reach(3)
    known = note_members(tmp_path / FILE, chain.ledger)
    assert (known.height, known.in_force, known.pending) == (3, GENESIS.members, None)
    assert list(tmp_path.iterdir()) == []
    assert load_members(tmp_path / FILE, GENESIS) == know_founding(GENESIS)


def test_a_pending_change_is_known_before_it_is_proved(tmp_path: Path) -> None:
    path, chain = tmp_path / FILE, started()
    chain.change(Replacement("v1", party("v9")), 5)
    note_members(path, chain.ledger)
    known = load_members(path, GENESIS)
    assert (names(known.in_force), known.handovers) == (["v0", "v1", "v2", "v3"], ())
    assert known.pending is not None
    assert (known.pending[0], names(known.pending[1])) == (5, ["v0", "v9", "v2", "v3"])
    assert known.seats()[1] == Seat(V, changed(GENESIS.validators[1]), 0, 5)
    assert not known.seats()[1].is_former(known.height + 1)
    assert known.seats()[-1] == Seat(V, party("v9"), 5)
    assert names(load_succession(path, GENESIS).at(5)) == ["v0", "v1", "v2", "v3"], "not proved"


def test_a_new_key_is_known_once_it_is_in_force_and_the_former_one_no_more(tmp_path: Path) -> None:
    path, chain = tmp_path / FILE, started()

    def known(name: str, key_epoch: int, role: MemberRole = V) -> bool:
        return is_known_key(path, GENESIS, role, name, key_of(name, key_epoch).public)

    assert known("v2", 0)
    chain.change(Rotation("v2", key_of("v2", 1).public), 5)
    note_members(path, chain.ledger)
    assert (known("v2", 0), known("v2", 1)) == (True, False)
    chain.reach(5)
    note_members(path, chain.ledger)
    assert (known("v2", 0), known("v2", 1)) == (False, True)
    assert not known("v2", 1, S)
    assert not is_known_key(path, GENESIS, V, "v1", key_of("v2", 1).public)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(MembersFileError):
        known("v2", 1)


def test_a_change_in_force_is_proved_by_handovers(tmp_path: Path) -> None:
    path, chain = tmp_path / FILE, replaced()
    note_members(path, chain.ledger)
    known = load_members(path, GENESIS)
    assert known == know_ledger(chain.ledger)
    assert (names(known.in_force), known.pending, len(known.handovers)) == (
        ["v0", "v9", "v2", "v3"],
        None,
        1,
    )
    assert load_succession(path, GENESIS).at(4) == known.in_force
    assert known.in_force.validators[1].address == "v9:4000"
    seat = known.find("v1")
    assert seat is not None
    assert (seat.begin, seat.end, seat.is_former(known.height + 1)) == (0, 4, True)


def test_the_file_follows_changes_and_never_goes_back(tmp_path: Path) -> None:
    path, chain = tmp_path / FILE, started()
    chain.change(Addition(((S, party("s3")),)), 5)
    note_members(path, chain.ledger)
    chain.reach(2)
    ahead = chain.ledger.height
    chain.reach(6)
    note_members(path, chain.ledger)
    assert names(load_members(path, GENESIS).in_force, S) == ["s0", "s1", "s2", "s3"]
    written = path.read_bytes()
    chain.reach(8)
    note_members(path, chain.ledger)
    assert path.read_bytes() == written, "nothing changed"
    behind = started()
    behind.reach(ahead)
    note_members(path, behind.ledger)
    assert path.read_bytes() == written, "an older ledger knows less"
    chain.change(Removal(("s0",)), 11)
    chain.reach(11)
    note_members(path, chain.ledger)
    known = load_members(path, GENESIS)
    assert names(known.in_force, S) == ["s1", "s2", "s3"]
    assert [(seat.party.name, seat.begin, seat.end) for seat in known.seats() if seat.role is S] == [
        ("s0", 0, 11),
        ("s1", 0, None),
        ("s2", 0, None),
        ("s3", 5, None),
    ]


def test_a_seat_has_the_present_key_and_a_returning_party_a_new_beginning(tmp_path: Path) -> None:
    chain = replaced()
    chain.change(Rotation("v2", key_of("v2", 1).public), 8)
    early = know_ledger(chain.ledger)
    assert [seat.party for seat in early.seats() if seat.party.name == "v2"] == [GENESIS.validators[2]]
    chain.reach(8)
    chain.change(Replacement("v0", party("v1")), 11)
    chain.reach(11)
    known = note_members(tmp_path / FILE, chain.ledger)
    seats = {seat.party.name: seat for seat in load_members(tmp_path / FILE, GENESIS).seats()}
    assert [*seats] == ["v0", "v1", "v2", "v3", "s0", "s1", "s2", "v9"], "in the order in which they came"
    assert seats["v2"] == Seat(V, Party("v2", key_of("v2", 1).public), 0)
    assert seats["v1"] == Seat(V, party("v1"), 11)
    assert seats["v0"].end == 11
    assert names(known.in_force) == ["v1", "v9", "v2", "v3"]


def test_a_file_that_proves_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE
    note_members(path, replaced().ledger)
    good = json.loads(path.read_bytes())
    pending = started()
    pending.change(Replacement("v1", party("v9")), 5)
    (tmp_path / "pending").mkdir()
    note_members(tmp_path / "pending" / FILE, pending.ledger)
    ordered = json.loads((tmp_path / "pending" / FILE).read_bytes())["pending"]
    (handover,) = good["handovers"]
    stolen = handover.replace(key_of("v9").public.hex(), key_of("mallory").public.hex())
    assert stolen != handover
    for fields in (
        good | {"handovers": [stolen]},
        good | {"handovers": [handover, handover]},
        good | {"handovers": [handover[:-2]]},
        good | {"handovers": ["x"]},
        good | {"handovers": None},
        good | {"chain_id": "other"},
        good | {"kabis": "members/2"},
        good | {"height": "5"},
        good | {"height": -1},
        {"kabis": "members/1"},
        good | {"pending": ordered | {"height": 4}},
        good | {"pending": ordered | {"members": "00"}},
        good | {"pending": 7},
        [],
    ):
        path.write_text(json.dumps(fields))
        with pytest.raises(MembersFileError, match="does not belong to this chain or is damaged"):
            load_members(path, GENESIS)
    for text in ("", "{", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ModelError) as refused:
            load_members(path, GENESIS)
        assert refused.value.hint == "delete it: the next command that reads the ledger writes it again"
    note_members(path, replaced().ledger)
    assert json.loads(path.read_bytes()) == good, "the ledger is right"


def test_a_file_of_another_genesis_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / FILE
    note_members(path, replaced().ledger)
    with pytest.raises(MembersFileError):
        load_members(path, changed(GENESIS, validators=tuple(map(party, ("w0", "w1", "w2", "w3")))))
