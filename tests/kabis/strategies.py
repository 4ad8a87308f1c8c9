"""Random values of everything that has an encoding."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.event_receipts import EventReceipt
from veristream.kabis.ledger.key_proofs import LeafKeyProof, SectionKeyProof
from veristream.kabis.ledger.sections import SECTIONS
from veristream.kabis.ledger.state import Ending, Key
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.protocol import actions as act
from veristream.kabis.protocol import transactions as tx
from veristream.kabis.protocol.actions import Operation, Resource, Rule
from veristream.kabis.protocol.batch import Batch, BatchHeader, SignedHeader
from veristream.kabis.protocol.blocks import Block, BlockHeader, transactions_root
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.cometbft_certificate import CometCertificate, CometVote, Votes
from veristream.kabis.protocol.members import MemberRole, Members, Party, Possession, StorageMode
from veristream.kabis.protocol.receipts import (
    CommitCertificate,
    SignedVote,
    StorageAbsence,
    StorageReceipt,
    VoteKind,
)

patient = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""A busy machine is no failure."""

names = st.text(max_size=6)
digests = st.binary(min_size=32, max_size=32)
signatures = st.binary(min_size=64, max_size=64)
u16 = st.integers(0, (1 << 16) - 1)
u32 = st.integers(0, (1 << 32) - 1)
u64 = st.integers(0, (1 << 64) - 1)
paths = st.lists(digests, max_size=4).map(tuple)


def headers_of(counts: st.SearchStrategy[int]) -> st.SearchStrategy[BatchHeader]:
    sequences = st.integers(0, (1 << 63) - 1)
    return st.builds(BatchHeader, names, names, u32, names, u32, sequences, counts, digests, digests)


headers = headers_of(st.integers(1, 10_000))
signed_headers = st.builds(SignedHeader, headers, signatures)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    leaves = tuple(draw(st.lists(st.binary(max_size=20), min_size=1, max_size=5)))
    header = draw(headers_of(st.just(len(leaves))))
    return Batch(SignedHeader(header, draw(signatures)), leaves)


storage_receipts = st.builds(StorageReceipt, names, digests, signatures)
storage_absences = st.builds(StorageAbsence, names, digests, u64, signatures)
votes = st.builds(SignedVote, u16, st.sampled_from(VoteKind), u64, u32, st.none() | digests, signatures)
certificates = st.builds(
    CommitCertificate,
    st.integers(1, (1 << 64) - 1),
    u32,
    digests,
    st.dictionaries(u16, signatures, max_size=4).map(lambda found: tuple(sorted(found.items()))),
)
comet_votes = st.dictionaries(u16, st.tuples(u64, signatures), max_size=4).map(
    lambda found: tuple(CometVote(number, *vote) for number, vote in sorted(found.items()))
)
comet_certificates = st.builds(
    CometCertificate,
    st.binary(min_size=40, max_size=40),
    paths,
    st.builds(Votes, st.integers(0, (1 << 63) - 1), u32, digests, u32, digests, comet_votes),
)
block_headers = st.builds(BlockHeader, names, u64, u64, digests, names, u32, digests, digests)
holes = st.builds(act.Hole, names, u32, u64, digests)
topics = st.sets(names, max_size=3).map(lambda found: tuple(sorted(found)))
offsets = st.dictionaries(st.tuples(names, u32), u64, max_size=3).map(
    lambda found: tuple((*place, index) for place, index in sorted(found.items()))
)
rules = st.builds(Rule, st.sampled_from(Resource), names, st.sampled_from(Operation), names)
parties = st.builds(Party, names, digests, names)
members = st.builds(
    Members,
    *(u16, st.sampled_from(StorageMode)),
    *(st.lists(parties, max_size=3).map(tuple) for _ in range(2)),
)
possessions = st.dictionaries(st.tuples(st.sampled_from([1, 2]), names), signatures, max_size=3).map(
    lambda found: tuple(
        Possession(MemberRole(role), name, signature) for (role, name), signature in sorted(found.items())
    )
)
actions = st.one_of(
    st.builds(act.SetMembers, members, u64, possessions),
    st.builds(act.SetTopic, names, u32, st.booleans()),
    st.builds(act.RegisterKey, names, u32, digests, signatures),
    st.builds(act.RotateKey, digests, signatures),
    st.builds(act.RevokeKey, names, u32),
    st.builds(act.JoinGroup, names, names, topics, u32),
    st.builds(act.LeaveGroup, names, names),
    st.builds(act.CommitOffsets, names, names, u64, offsets),
    st.builds(act.LowWater, names, u32, u64),
    holes,
    st.builds(act.Upgrade, u16, u64),
    st.builds(act.Grant, rules),
    st.builds(act.Revoke, rules),
    st.builds(act.SetRole, names, names, st.booleans()),
    st.builds(act.SetClosed, st.booleans()),
    st.builds(act.SetQuota, st.builds(act.Quota, u32, u32, u32)),
    st.builds(act.SetRetention, names, st.builds(act.Retention, u64, u64)),
)
submits = st.builds(tx.submit, signed_headers, st.lists(storage_receipts, max_size=3))
transactions = st.one_of(
    submits,
    st.builds(tx.Signed, names, u32, u64, actions, signatures),
    st.builds(tx.skip, holes, st.lists(storage_absences, max_size=3)),
    st.builds(tx.Evict, names, names, names),
    st.builds(tx.BatchConflict, signed_headers, signed_headers),
    st.builds(tx.VoteConflict, votes, votes),
)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    inside = tuple(transaction.encode() for transaction in draw(st.lists(transactions, max_size=3)))
    header = draw(block_headers)
    root = transactions_root(inside)
    fields = (header.chain_id, header.height, header.time_ms, header.previous, header.proposer)
    return Block(BlockHeader(*fields, len(inside), root, header.state), inside)


keys = st.builds(Key, digests, u64) | st.builds(Key, digests, u64, u64, st.sampled_from(Ending))
roots = st.lists(st.tuples(u64, digests), min_size=SECTIONS, max_size=SECTIONS).map(tuple)
section_key_proofs = st.builds(SectionKeyProof, keys.filter(lambda key: any(key.public)), u64, paths, roots)
leaf_key_proofs = st.builds(LeafKeyProof, keys, paths)
key_proofs = section_key_proofs | leaf_key_proofs
certified = st.builds(CertifiedHeader, block_headers, certificates | comet_certificates)
handovers = st.lists(st.builds(Handover, certified, u64, members, paths), max_size=2).map(tuple)
event_receipts = st.builds(
    EventReceipt,
    leaf=st.binary(max_size=20),
    position=u32,
    leaf_path=paths,
    submit=submits,
    number=u32,
    transaction_path=paths,
    block=certified,
    key_proof=key_proofs,
    key_block=st.none() | certified,
    handovers=handovers,
)

CODED: dict[str, st.SearchStrategy[Coded]] = {
    "header": headers,
    "signed header": signed_headers,
    "batch": batches(),
    "storage receipt": storage_receipts,
    "storage absence": storage_absences,
    "vote": votes,
    "certificate": certificates,
    "CometBFT certificate": comet_certificates,
    "block header": block_headers,
    "block": blocks(),
    "action": actions,
    "transaction": transactions,
    "key": keys,
    "key proof": key_proofs,
    "certified header": certified,
    "event receipt": event_receipts,
}
