"""Changes of the members: the rules, the heights, and how they are followed without blocks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.kabis.chain import (
    CHAIN,
    Chain,
    batch_of,
    key_of,
    make_genesis,
    stored,
    submitted,
)
from tests.kabis.ledger.changing import (
    FOUNDING,
    Changing,
    certify_block,
    change,
    changed_twice,
    member,
    replaced,
    seven,
)
from tests.kabis.ledger.test_submit import refused
from veristream.kabis.client.checkpoint import Checkpoint, CheckpointError
from veristream.kabis.ledger.certified import CertifiedHeader, ReceiptError, ReceiptFault
from veristream.kabis.ledger.event_receipts import export_receipt, make_receipt, verify_receipt
from veristream.kabis.ledger.follower import FalseBlockError, Follower
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ledger.snapshot import (
    FalseSnapshotError,
    Manifest,
    Snapshot,
    restore,
    verify_manifest,
)
from veristream.kabis.ledger.succession import Succession
from veristream.kabis.protocol.actions import Hole, SetMembers, SetTopic
from veristream.kabis.protocol.keys import verify
from veristream.kabis.protocol.members import MemberRole, Members, Party, Possession
from veristream.kabis.protocol.outcomes import Already, Done, Reason
from veristream.kabis.protocol.receipts import (
    SignedVote,
    StorageAbsence,
    StorageReceipt,
    VoteKind,
    sign_storage_absence,
    sign_storage_receipt,
    vote_bytes,
)
from veristream.kabis.protocol.transactions import VoteConflict, prove_membership, skip, submit

SECOND = replaced(FOUNDING, "v0", member("v4"))


def proved(*proofs: Possession) -> tuple[Possession, ...]:
    return tuple(sorted(proofs, key=lambda proof: proof.place))


@pytest.mark.parametrize(
    ("after", "height", "reason"),
    [
        (SECOND, 3, Reason.OUT_OF_RANGE),
        (SECOND, 1003, Reason.OUT_OF_RANGE),
        (replace(SECOND, validators=SECOND.validators[:3]), 9, Reason.BAD_MEMBERS),
        (replace(SECOND, faults=2), 9, Reason.BAD_MEMBERS),
        (replace(SECOND, storage=SECOND.storage[:2]), 9, Reason.BAD_MEMBERS),
        (replaced(FOUNDING, "v0", member("v1")), 9, Reason.BAD_MEMBERS),
        (replaced(FOUNDING, "v0", replace(member("v1"), name="other")), 9, Reason.BAD_MEMBERS),
        (replaced(FOUNDING, "v0", Party("v4", key_of("v4").public, "no port")), 9, Reason.BAD_MEMBERS),
        (replaced(FOUNDING, "v0", Party("v4", key_of("v4").public, "host:65536")), 9, Reason.BAD_MEMBERS),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(after: Members, height: int, reason: Reason) -> None:
    chain = Changing()
    chain.grow(1)
    assert refused(chain.preview(chain.act("admin", change(FOUNDING, after, height)))) is reason


def test_a_change_needs_an_admin_and_the_version_and_is_refused_on_cometbft() -> None:
    chain = Changing()
    assert refused(chain.preview(chain.act("alice", change(FOUNDING, SECOND, 9)))) is Reason.NOT_ADMIN
    old = Changing(Ledger(make_genesis(version=1)))
    assert refused(old.preview(old.act("admin", change(FOUNDING, SECOND, 9)))) is Reason.OLD_VERSION
    comet = Changing(Ledger(make_genesis(), fixed_members=True))
    assert refused(comet.preview(comet.act("admin", change(FOUNDING, SECOND, 9)))) is Reason.FIXED_MEMBERS


def test_every_new_key_signs_and_no_other() -> None:
    chain = Changing()
    good = change(FOUNDING, SECOND, 9)
    (proof,) = good.possessions

    def outcome(*proofs: Possession) -> Reason:
        return refused(chain.preview(chain.act("admin", replace(good, possessions=proved(*proofs)))))

    assert chain.preview(chain.act("admin", good)) == Done()
    assert outcome() is Reason.BAD_MEMBERS
    assert outcome(prove_membership("other", proof.role, "v4", key_of("v4"))) is Reason.BAD_SIGNATURE
    assert outcome(prove_membership(CHAIN, proof.role, "v4", key_of("v5"))) is Reason.BAD_SIGNATURE
    storage = prove_membership(CHAIN, MemberRole.STORAGE, "v4", key_of("v4"))
    assert outcome(storage) is Reason.BAD_MEMBERS
    assert outcome(proof, storage) is Reason.BAD_MEMBERS
    rotated = change(FOUNDING, replaced(FOUNDING, "s1", member("s1", 1)), 9)
    assert [proof.name for proof in rotated.possessions] == ["s1"]
    assert chain.preview(chain.act("admin", rotated)) == Done()


def test_one_change_is_pending_at_a_time() -> None:
    chain = Changing()
    chain.set_members(SECOND, 4)
    assert chain.ledger.pending_members == (4, SECOND)
    assert chain.preview(chain.act("admin", change(FOUNDING, SECOND, 4))) == Already()
    third = seven(FOUNDING)
    assert refused(chain.preview(chain.act("admin", change(FOUNDING, third, 5)))) is Reason.CHANGE_PENDING
    chain.grow(2)
    assert chain.ledger.members == FOUNDING
    chain.grow(3)
    assert (chain.ledger.pending_members, chain.ledger.members) == (None, SECOND)
    assert chain.ledger.members_at(3) == FOUNDING
    assert chain.preview(chain.act("admin", change(SECOND, third, 6))) == Done()


def test_the_state_of_a_chain_without_a_change_has_no_members() -> None:
    chain, other = Changing(), Changing()
    chain.grow(3), other.grow(1)
    assert not [key for table, key, _ in chain.ledger._state.entries() if table == "memberships"]
    other.set_members(SECOND, 4)
    entries = [
        (key, value) for table, key, value in other.ledger._state.entries() if table == "memberships"
    ]
    assert entries == [(4, SECOND)]


def test_only_the_validators_of_a_height_propose() -> None:
    chain = Changing()
    chain.set_members(SECOND, 3)
    for proposer, good in (("v4", False), ("v0", True)):
        block = chain.ledger.propose([], chain.clock_ms, proposer)
        if good:
            chain.ledger.check(block)
        else:
            with pytest.raises(InvalidBlockError, match="proposer"):
                chain.ledger.check(block)
    chain.grow(2)
    with pytest.raises(InvalidBlockError, match="proposer"):
        chain.ledger.check(chain.ledger.propose([], chain.clock_ms, "v0"))
    chain.ledger.check(chain.ledger.propose([], chain.clock_ms, "v4"))


def with_topic() -> Changing:
    chain = Changing()
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    return chain


def test_receipts_are_judged_by_the_members_of_the_block() -> None:
    chain, batch = with_topic(), batch_of(b"x")
    chain.set_members(replaced(FOUNDING, "s1", member("s1", 1)), 4)
    old = submitted(batch, ("s0", "s1"))
    from_new = [*stored(batch, ("s0",)), *stored_with(batch.digest(), "s1", 1)]
    assert refused(chain.preview(submit(batch.signed, from_new))) is Reason.BAD_SIGNATURE
    chain.grow(3)
    assert refused(chain.preview(old)) is Reason.BAD_SIGNATURE
    chain.block(submit(batch.signed, from_new))
    fewer = seven(chain.ledger.members)
    chain.set_members(fewer, 7)
    chain.grow(6)
    following = batch_of(b"y", sequence=1, previous=batch.digest())
    receipts = [*stored(following, ("s0", "s2")), *stored_with(following.digest(), "s1", 1)]
    too_few = chain.preview(submit(following.signed, receipts[:2]))
    assert refused(too_few) is Reason.TOO_FEW_RECEIPTS
    chain.block(submit(following.signed, receipts))


def stored_with(digest: bytes, name: str, key_epoch: int) -> list[StorageReceipt]:
    return [sign_storage_receipt(CHAIN, name, digest, key_of(name, key_epoch))]


def test_absences_count_by_the_key_of_their_height() -> None:
    chain, batch = with_topic(), batch_of(b"x")
    chain.block(submitted(batch, ("s0", "s1")))
    left = replaced(replaced(FOUNDING, "s0", member("s5")), "s1", member("s1", 1))
    chain.set_members(left, 5)
    chain.grow(5)
    hole = Hole("orders", 0, 0, batch.digest())

    def absence(name: str, key_epoch: int, height: int) -> StorageAbsence:
        return sign_storage_absence(CHAIN, name, batch.digest(), height, key_of(name, key_epoch))

    stale = chain.preview(skip(hole, [absence("s0", 0, 5), absence("s1", 0, 5)]))
    assert refused(stale) is Reason.BAD_SIGNATURE
    assert chain.preview(skip(hole, [absence("s0", 0, 5), absence("s1", 1, 5)])) == Done()
    assert chain.preview(skip(hole, [absence("s0", 0, 4), absence("s1", 0, 4)])) == Done()


def test_contradictions_are_judged_by_the_validators_of_their_height() -> None:
    chain = Changing()
    chain.set_members(SECOND, 3)
    chain.grow(4)

    def conflict(name: str, height: int) -> VoteConflict:
        votes = []
        for block_id in (b"\1" * 32, b"\2" * 32):
            message = vote_bytes(CHAIN, VoteKind.PREVOTE, height, 0, block_id)
            votes.append(SignedVote(0, VoteKind.PREVOTE, height, 0, block_id, key_of(name).sign(message)))
        return VoteConflict(*votes)

    assert refused(chain.preview(conflict("v0", 3))) is Reason.BAD_SIGNATURE
    assert refused(chain.preview(conflict("v4", 2))) is Reason.BAD_SIGNATURE
    chain.block(conflict("v0", 2))
    chain.block(conflict("v4", 3))
    assert list(chain.ledger.accusations()) == [("validator", "v0"), ("validator", "v4")]


def test_a_follower_follows_through_two_changes_and_refuses_old_validators() -> None:
    chain, follower = changed_twice(), Follower(make_genesis())
    old = {4: FOUNDING, 9: SECOND}
    for height in range(1, 13):
        if height in old:
            with pytest.raises(FalseBlockError):
                follower.follow(certify_block(chain.blocks[height - 1], old[height]), 1)
        assert follower.follow(chain.certified_block(height), 1) is not None
    assert follower.ledger.members == seven(SECOND)
    assert follower.ledger.succession.heights == (4, 9)
    assert [each.block.header.height for each in follower.ledger.succession.handovers] == [3, 7]
    with pytest.raises(FalseBlockError):
        follower.follow(certify_block(chain.ledger.propose([], 10**9, "v4"), SECOND), 1)


def test_handovers_prove_the_members_and_nothing_else_does() -> None:
    chain = changed_twice()
    first, second = chain.ledger.succession.handovers
    succession = Succession.verified(make_genesis(), (first, second), verify)
    assert [succession.at(height) for height in (3, 4, 8, 9, 99)] == [
        FOUNDING,
        SECOND,
        SECOND,
        seven(SECOND),
        seven(SECOND),
    ]
    forged = replace(first, members=replaced(FOUNDING, "v1", member("v5")))
    later = chain.certified(9)
    for wrong in (
        [second],
        [first, first],
        [second, first],
        [forged],
        [replace(first, height=5)],
        [replace(first, path=first.path[1:])],
        [replace(first, block=chain.certified(2))],
        [replace(first, block=chain.certified(4))],
        [first, replace(second, block=later)],
        [replace(first, block=replace(first.block, certificate=later.certificate))],
    ):
        with pytest.raises(ReceiptError):
            Succession.verified(make_genesis(), wrong, verify)


def test_a_certificate_of_an_old_set_is_refused() -> None:
    chain = changed_twice()
    succession = Succession.verified(make_genesis(), chain.ledger.succession.handovers, verify)
    for height, before in ((4, FOUNDING), (12, SECOND)):
        succession.verify(chain.certified(height), verify)
        block = chain.blocks[height - 1]
        forged = CertifiedHeader(block.header, certify_block(block, before).certificate)
        with pytest.raises(ReceiptError):
            succession.verify(forged, verify)


def snapshot_of(chain: Changing) -> tuple[Manifest, list[bytes]]:
    snapshot = Snapshot.take(chain.ledger)
    chunks = list(snapshot.chunks())
    chain.grow(chain.ledger.height + 1)
    return snapshot.describe(chain.certified(chain.ledger.height), len(chunks)), chunks


def test_a_snapshot_carries_the_handovers_and_is_refused_without() -> None:
    chain = changed_twice()
    manifest, chunks = snapshot_of(chain)
    assert Manifest.decode(manifest.encode()) == manifest
    restored = restore(make_genesis(), manifest, chunks)
    assert restored.members == seven(SECOND)
    assert restored.succession.handovers == manifest.handovers
    assert verify_manifest(make_genesis(), manifest).heights == (4, 9)
    for handovers in (manifest.handovers[:1], manifest.handovers[1:], ()):
        with pytest.raises(FalseSnapshotError):
            restore(make_genesis(), replace(manifest, handovers=handovers), chunks)
    of_old = certify_block(chain.blocks[-1], SECOND)
    forged = replace(
        manifest,
        handovers=manifest.handovers[:1],
        following=CertifiedHeader(of_old.block.header, of_old.certificate),
    )
    with pytest.raises(FalseSnapshotError, match="handovers"):
        restore(make_genesis(), forged, chunks)


def test_whoever_starts_from_a_snapshot_makes_the_next_handover() -> None:
    chain = Changing()
    chain.grow(1)
    chain.set_members(SECOND, 5)
    manifest, chunks = snapshot_of(chain)
    assert manifest.handovers == ()
    follower = Follower.restore(make_genesis(), manifest, chunks)
    chain.grow(7)
    for height in range(3, 8):
        follower.follow(chain.certified_block(height), 1)
    assert follower.ledger.succession.heights == (5,)


def test_a_known_change_is_not_forgotten(tmp_path_factory: pytest.TempPathFactory) -> None:
    chain = changed_twice()
    manifest, chunks = snapshot_of(chain)
    path = tmp_path_factory.mktemp("client") / "checkpoint"
    Checkpoint(path, make_genesis(), verify).keep(chain.certified(12), chain.ledger.succession)
    known = Checkpoint(path, make_genesis(), verify)
    assert (known.height, known.succession.heights) == (12, (4, 9))
    follower = Follower(make_genesis())
    follower.known = known.succession
    assert follower.verify_snapshot(manifest, chunks).height == 12
    other = Changing()
    other.grow(12)
    with pytest.raises(FalseSnapshotError, match="lacks the change"):
        follower.verify_snapshot(*snapshot_of(other))
    path.write_bytes(chain.certified(12).encode())
    with pytest.raises(CheckpointError):
        Checkpoint(path, make_genesis(), verify)


def test_a_checkpoint_without_a_change_is_the_block_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    chain = Changing()
    chain.grow(2)
    path = tmp_path_factory.mktemp("client") / "checkpoint"
    Checkpoint(path, make_genesis(), verify).keep(chain.certified(2), chain.ledger.succession)
    assert path.read_bytes() == chain.certified(2).encode()


def test_a_receipt_is_verified_with_the_genesis_alone_after_changes() -> None:
    chain, batch = Changing(), batch_of(b"x")
    chain.block(chain.act("admin", SetTopic("orders", 1, validated=True)))
    chain.set_members(SECOND, 4)
    chain.grow(4)
    chain.block(submitted(batch))
    certified = chain.certified_block(5)
    proof = chain.ledger.prove_key("alice", 0)
    assert proof is not None
    made = (batch, 0, certified.block, certified.certificate, (proof, chain.certified(5)))
    file = export_receipt(make_receipt(*made, chain.ledger.succession))
    assert json.loads(file)["kabis"] == "receipt/3"
    found = verify_receipt(file, make_genesis())
    assert (found.height, found.validators, found.storage) == (5, ("v4", "v1", "v2"), ("s0", "s1"))
    with pytest.raises(ReceiptError) as raised:
        verify_receipt(export_receipt(make_receipt(*made)), make_genesis())
    assert raised.value.fault is ReceiptFault.BAD_VOTE
    receipt = make_receipt(*made, chain.ledger.succession)
    twice = replace(receipt, handovers=(*receipt.handovers, *receipt.handovers))
    with pytest.raises(ReceiptError) as raised:
        verify_receipt(export_receipt(twice), make_genesis())
    assert raised.value.fault is ReceiptFault.BAD_HANDOVER


def test_a_receipt_from_before_a_change_stays_as_it_was() -> None:
    chain = Chain()
    chain.block(chain.act("admin", SetTopic("orders", 1, validated=True)))
    batch = batch_of(b"x")
    chain.block(submitted(batch))
    proof = chain.ledger.prove_key("alice", 0)
    assert proof is not None
    certified = chain.certified(2)
    made = (batch, 0, chain.blocks[1], certified.certificate, (proof, certified))
    assert make_receipt(*made, chain.ledger.succession) == make_receipt(*made)
    assert json.loads(export_receipt(make_receipt(*made)))["kabis"] == "receipt/2"


def test_an_action_is_read_back() -> None:
    action = change(FOUNDING, seven(SECOND), 9)
    assert SetMembers.decode(action.encode()) == action
