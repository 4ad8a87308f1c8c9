"""A storage party gives receipts while it is a member or about to be, with the key that is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kabis.chain import CHAIN, batch_of, key_of
from tests.kabis.ledger.changing import FOUNDING, Changing, certify_block, member, replaced
from veristream.kabis.ledger.snapshot import Snapshot, restore
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.codec import DecodeError, Writer
from veristream.kabis.protocol.keys import SecretKey
from veristream.kabis.protocol.members import MemberRole, Members
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import PlainAppend
from veristream.kabis.storage.admission import BehindError, Gate, StorageRefusedError
from veristream.kabis.storage.chain import ChainView
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Operation, Standing, Status
from veristream.kabis.storage.party import Directory, StorageParty
from veristream.kabis.storage.saved_view import load_view, save_view
from veristream.kabis.storage.seat import Seat
from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.handshake import Peer, Role
from veristream_testing.simulation.memory_log import MemoryLog

WITHOUT_S0 = replaced(FOUNDING, "s0", member("s4"))
ROTATED = replaced(FOUNDING, "s0", member("s0", 1))


def changing(after: Members, height: int = 6) -> Changing:
    """A chain of height 3 with topics, in whose third block a change was ordered."""
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    chain.grow(2)
    chain.set_members(after, height)
    return chain


def view_at(chain: Changing, height: int) -> ChainView:
    view = ChainView(chain.ledger.genesis)
    for number in range(1, height + 1):
        view.take(chain.certified_block(number))
    view.is_current = True
    return view


class Party:
    def __init__(self, chain: Changing, name: str, keys: Sequence[SecretKey]) -> None:
        self.chain = chain
        self.gate = Gate(view_at(chain, 1))
        self.seat = Seat(chain.ledger.genesis, name, keys, self.gate)
        self.log = MemoryLog()
        self.core = StorageCore(chain.ledger.genesis, name, self.seat, self.log, gate=self.gate)

    def see(self, height: int) -> None:
        self.chain.grow(height)
        self.gate.view = view_at(self.chain, height)

    def vouch(self, value: bytes, sequence: int = 0) -> bytes:
        """The key by which the receipt of a new batch is signed."""
        batch = batch_of(value, sequence=sequence)
        self.core.store(batch.encode(), "alice", key_of("alice").public)
        self.log.sync()
        receipt = self.core.receipt(batch.digest())
        receipt.verify(CHAIN, self.seat.public)
        return self.seat.public


def test_a_party_that_leaves_gives_no_receipt_after_its_last_height() -> None:
    party = Party(changing(WITHOUT_S0), "s0", [key_of("s0")])
    kept = batch_of(b"kept")
    for seen in (2, 3, 4):
        party.see(seen)
        assert party.seat.standing is Standing.MEMBER
    assert party.vouch(b"kept") == key_of("s0").public
    party.see(5)
    assert party.seat.standing is Standing.FORMER
    with pytest.raises(StorageRefusedError, match="s0 is no longer a storage party"):
        party.vouch(b"late", 1)
    with pytest.raises(StorageRefusedError, match="s0 is no longer a storage party"):
        party.core.receipt(kept.digest())
    assert party.core.view_digest(kept.digest()) == kept.encode(), "it still answers"
    party.chain.block(party.chain.act("admin", SetTopic("logs", 1, validated=False)))
    party.see(6)
    with pytest.raises(StorageRefusedError, match="s0 is no longer a storage party"):
        party.core.append_plain(PlainAppend(PartitionName("logs", 0), bytes(16), 0, (b"x",)))


def test_a_party_that_joins_gives_receipts_from_the_order_on_and_not_before() -> None:
    party = Party(changing(WITHOUT_S0), "s4", [key_of("s4")])
    party.see(2)
    assert party.seat.standing is Standing.STRANGER
    with pytest.raises(BehindError, match="s4 is not yet a storage party, as of block 2"):
        party.vouch(b"early")
    party.see(3)
    assert party.seat.standing is Standing.COMING
    assert party.vouch(b"early") == key_of("s4").public
    party.see(5)
    assert party.seat.standing is Standing.MEMBER
    assert party.vouch(b"next", 1) == key_of("s4").public


def test_another_key_takes_over_at_its_height_and_not_before() -> None:
    party = Party(changing(ROTATED), "s0", [key_of("s0"), key_of("s0", 1)])
    keys = []
    for number, seen in enumerate((2, 3, 4, 5, 6)):
        party.see(seen)
        assert party.seat.standing is Standing.MEMBER
        keys.append(party.vouch(b"%d" % number, number))
    old, new = key_of("s0").public, key_of("s0", 1).public
    assert keys == [old, old, old, new, new]
    lacked = batch_of(b"never seen")
    for height, key in ((4, old), (6, new)):
        statement = party.core.absence(lacked.signed, party.chain.certified(height).certificate)
        statement.verify(CHAIN, key)  # type: ignore[union-attr]


def test_a_party_without_the_new_key_is_no_member_until_it_has_it() -> None:
    party = Party(changing(ROTATED), "s0", [key_of("s0")])
    party.see(4)
    assert (party.seat.lacks_key, party.seat.standing) == (True, Standing.MEMBER)
    party.see(5)
    assert party.seat.standing is Standing.STRANGER
    assert party.seat.add(key_of("s0", 1))
    assert not party.seat.add(key_of("s0", 1))
    assert (party.seat.lacks_key, party.seat.standing) == (False, Standing.MEMBER)
    assert party.seat.public == key_of("s0", 1).public


def test_an_absence_needs_a_certificate_of_the_members_at_its_height() -> None:
    chain = changing(replaced(FOUNDING, "v0", member("v4")))
    party = Party(chain, "s0", [key_of("s0")])
    party.see(7)
    signed = batch_of(b"lacked").signed
    good = chain.certified(6).certificate
    assert party.core.absence(signed, good).height == 6  # type: ignore[union-attr]
    stale = certify_block(chain.blocks[5], FOUNDING).certificate
    with pytest.raises(StorageRefusedError, match="the certificate does not prove the height"):
        party.core.absence(signed, stale)


def test_members_and_those_about_to_be_are_admitted_and_former_ones_are_not() -> None:
    chain = changing(replaced(WITHOUT_S0, "v0", member("v4")))
    chain.grow(6)

    def admitted(height: int) -> list[str]:
        directory = Directory(chain.ledger.genesis, chain=view_at(chain, height))
        peers = [(Role.STORAGE, name) for name in ("s0", "s1", "s4")]
        peers += [(Role.VALIDATOR, name) for name in ("v0", "v1", "v4")]
        found = []
        for role, name in peers:
            peer = Peer(role, name, key_of(name).public)
            refusal = directory.authorize(peer)
            if refusal is None:
                directory.require_valid(peer)
                found.append(name)
            else:
                assert refusal == f"{name!r} is not registered with this key as {role.name.lower()}"
                with pytest.raises(RequestError, match="has ended"):
                    directory.require_valid(peer)
        return found

    assert admitted(2) == ["s0", "s1", "v0", "v1"]
    assert admitted(3) == admitted(4) == ["s0", "s1", "s4", "v0", "v1", "v4"]
    assert admitted(5) == ["s1", "s4", "v1", "v4"]


def test_a_view_knows_the_members_after_a_restart_and_from_a_snapshot(tmp_path: Path) -> None:
    chain = changing(WITHOUT_S0)
    for height in (3, 8):
        chain.grow(height)
        view, genesis = view_at(chain, height), chain.ledger.genesis
        save_view(tmp_path / "view", genesis, view)
        assert load_view(tmp_path / "view", genesis).memberships.changes == ((6, WITHOUT_S0),)
        frozen = Snapshot.take(chain.ledger)
        chain.grow(height + 1)
        manifest = frozen.describe(chain.certified(height + 1), len(list(frozen.chunks())))
        resumed = ChainView(genesis)
        resumed.resume(restore(genesis, manifest, frozen.chunks()))
        assert resumed.memberships.changes == ((6, WITHOUT_S0),)
    assert [party.name for party in view.members.storage] == ["s4", "s1", "s2"]
    assert [party.name for party in view.peers(MemberRole.STORAGE)] == ["s4", "s1", "s2"]


def test_a_view_saved_before_members_could_change_is_read(tmp_path: Path) -> None:
    chain = changing(WITHOUT_S0)
    values, columns = view_at(chain, 2).dump()
    del values["members"], values["skipped"]
    view = ChainView(chain.ledger.genesis)
    view.restore(values, columns)
    assert (view.height, view.memberships.changes, view.members) == (2, (), FOUNDING)


def test_a_status_says_who_is_no_member_and_what_is_missing() -> None:
    party = Party(changing(WITHOUT_S0), "s4", [key_of("s4")])

    async def ask() -> tuple[Status, Status]:
        serving = StorageParty(party.core, party.log, 0.001)  # type: ignore[arg-type]
        party.log.recovery = _Recovery()  # type: ignore[attr-defined]
        before = serving.status()
        party.see(5)
        serving.progress.missing = 7
        return before, serving.status()

    before, after = asyncio.run(ask())
    assert (before.standing, before.missing) == (Standing.STRANGER, 0)
    assert (after.standing, after.missing) == (Standing.MEMBER, 7)
    for status in (before, after):
        assert Status.decode(status.encode()) == status
    complete = Status(1, 2, 2, 10, 0, 0)
    assert len(before.encode()) == len(complete.encode()) + 9
    writer = Writer("storage-status")
    for number in (1, 2, 2, 10, 0, 0, 0):
        writer.u64(number)
    writer.u8(0)
    with pytest.raises(DecodeError, match="no progress"):
        Status.decode(writer.to_bytes())


def test_a_status_is_about_the_chain_as_it_is_now() -> None:
    """Whoever asks right after a change learns that the party has yet to look what it lacks."""
    party = Party(changing(WITHOUT_S0), "s1", [key_of("s1")])
    party.see(2)

    async def ask() -> Status:
        serving = StorageParty(party.core, party.log, 0.001)  # type: ignore[arg-type]
        party.log.recovery = _Recovery()  # type: ignore[attr-defined]
        serving.progress.complete = 0
        view = party.gate.view

        async def follow() -> None:
            await asyncio.sleep(0)
            view.take(party.chain.certified_block(3))
            await view.rest(0.0)

        following = asyncio.create_task(follow())
        peer = Peer(Role.ADMIN, "admin", key_of("admin").public)
        answer = await serving.answer(peer, bytes((Operation.STATUS,)))
        await following
        assert isinstance(answer, bytes)
        return Status.decode(answer[1:])

    assert asyncio.run(ask()).missing == 1


class _Recovery:
    torn = None
