"""Example values of everything that Kabis encodes, with the edge cases: empty, absent, largest, Unicode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.kabis.chain import (
    CHAIN,
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    make_genesis,
    submitted,
    vote,
)
from veristream.kabis.client.checkpoint import Known
from veristream.kabis.cometbft import application
from veristream.kabis.ledger import leaves, sections, snapshot, state, tables, trie
from veristream.kabis.ledger.access import Closing, Span
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.event_receipts import (
    EventReceipt,
    export_receipt,
    make_receipt,
    verify_receipt,
)
from veristream.kabis.ledger.groups import Group, GroupHead, Member, Presence, Subscription
from veristream.kabis.ledger.key_proofs import LeafKeyProof, SectionKeyProof
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.ordering import durable, messages, peers, requests
from veristream.kabis.protocol import actions as act
from veristream.kabis.protocol import keys, records, seal
from veristream.kabis.protocol import transactions as tx
from veristream.kabis.protocol.actions import Operation, Resource, Rule
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, BatchHeader, SignedHeader
from veristream.kabis.protocol.blocks import Block, BlockHeader, CertifiedBlock, transactions_root
from veristream.kabis.protocol.codec import ZERO_DIGEST, Encoded
from veristream.kabis.protocol.cometbft_certificate import CometCertificate, CometVote, Votes, encode_anchor
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import (
    MemberRole,
    Members,
    Party,
    Possession,
    StorageMode,
    member_possession_bytes,
)
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Reason, Refused
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend, PlainEntry, PlainSlice
from veristream.kabis.protocol.receipts import (
    CommitCertificate,
    SignedVote,
    StorageAbsence,
    StorageReceipt,
    VoteKind,
    storage_absence_bytes,
    storage_receipt_bytes,
    vote_bytes,
)
from veristream.kabis.spark import outbox
from veristream.kabis.storage import entries
from veristream.kabis.storage import messages as stored
from veristream.kabis.storage.messages import Batches
from veristream.kabis.wire import handshake, refusals
from veristream_testing.simulation import encoding

U16_MAX, U32_MAX, U64_MAX = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
LONG = "n" * 249
UNICODE = "größe-日本-🦀"


def digest(number: int) -> bytes:
    """A digest that is told from the others by eye."""
    return bytes((number,)) * 32


def signature(number: int) -> bytes:
    """A signature that is told from the others by eye."""
    return bytes((number,)) * 64


HEADER = BatchHeader("chain", "orders", 3, "alice", 1, 17, 2, digest(1), digest(2))
HEADER_MAX = BatchHeader(
    LONG, UNICODE, U32_MAX, "", U32_MAX, U64_MAX - 10_000, 10_000, ZERO_DIGEST, digest(255)
)
SIGNED = SignedHeader(HEADER, signature(3))
SIGNED_MAX = SignedHeader(HEADER_MAX, signature(255))
BATCH = Batch(SIGNED, (records.encode_leaf(b"k", b"v", (("h", None),), 7), b""))
RECEIPT = StorageReceipt("s0", digest(4), signature(5))
ABSENCE = StorageAbsence("s0", digest(4), 9, signature(5))
ABSENCE_MAX = StorageAbsence(LONG, digest(255), U64_MAX, signature(255))
VOTE = SignedVote(2, VoteKind.PREVOTE, 9, 1, None, signature(6))
VOTE_MAX = SignedVote(U16_MAX, VoteKind.PRECOMMIT, U64_MAX, U32_MAX, digest(255), signature(255))
CERTIFICATE = CommitCertificate(9, 0, digest(7), ((0, signature(0)), (3, signature(3))))
CERTIFICATE_MAX = CommitCertificate(U64_MAX, U32_MAX, digest(255), ((U16_MAX, signature(255)),))
COMET_VOTES = Votes(12, 1, digest(8), 1, digest(9), (CometVote(0, 5, signature(1)),))
COMET = CometCertificate(encode_anchor(9, digest(7)), (digest(10), digest(11)), COMET_VOTES)
COMET_EMPTY = CometCertificate(
    encode_anchor(0, ZERO_DIGEST), (), Votes((1 << 63) - 1, U32_MAX, digest(1), U32_MAX, digest(2), ())
)
HOLE = act.Hole("orders", 1, 40, digest(12))
HOLE_MAX = act.Hole(UNICODE, U32_MAX, U64_MAX, digest(255))
SUBMIT = tx.Submit(SIGNED, (RECEIPT, StorageReceipt("s1", digest(4), signature(7))))
PLACE = PartitionName("logs", 1)
PLACE_MAX = PartitionName(LONG, U32_MAX)
STREAM = StreamName("orders", 1, "alice", 2)
STREAM_MAX = StreamName(UNICODE, U32_MAX, LONG, U32_MAX)
APPEND = PlainAppend(PLACE, bytes(range(16)), 5, (b"one", b"", b"three"))
APPEND_MAX = PlainAppend(PLACE_MAX, b"\xff" * 16, U64_MAX, (b"",))
KEY = state.Key(digest(13), 4)
KEY_ENDED = state.Key(digest(255), U64_MAX, U64_MAX, state.Ending.FENCED)
ROOTS = tuple((number, digest(number)) for number in range(sections.SECTIONS))
PROOF = SectionKeyProof(KEY, 3, (digest(14),), ROOTS)
REFUSAL = refusals.Refusal("alice", "connections", 3)
LEAF_PROOF = LeafKeyProof(KEY, (digest(14), trie.EMPTY))
RULE = Rule(Resource.TOPIC, "orders*", Operation.WRITE, "role:clerks")
RULE_MAX = Rule(Resource.GROUP, UNICODE, Operation.READ, LONG)
ACCUSED = requests.Accused("validator", "v1", 9, digest(15))
ACCUSED_MAX = requests.Accused(LONG, "x" * 300, U64_MAX, digest(255))
HELLO = handshake._Hello("chain", digest(16), digest(17), False)
HELLO_MAX = handshake._Hello(UNICODE, digest(254), digest(255), True)
MEMBER = Member("alice", "1", ("logs", "orders"), 30_000, 1_000_000)
MEMBER_MAX = Member(LONG, UNICODE, (), U32_MAX, U64_MAX)


def block_of(*transactions: bytes) -> Block:
    """A block with these transactions under its root."""
    root = transactions_root(transactions)
    return Block(
        BlockHeader("chain", 9, 5, digest(1), "v0", len(transactions), root, digest(2)), transactions
    )


BLOCK = block_of(SUBMIT.encode(), HOLE.encode(), b"")
BLOCK_HEADER_MAX = BlockHeader(
    LONG, U64_MAX, U64_MAX, ZERO_DIGEST, UNICODE, U32_MAX, digest(1), digest(255)
)
CERTIFIED = CertifiedHeader(BLOCK.header, CERTIFICATE)
CERTIFIED_COMET = CertifiedHeader(BLOCK_HEADER_MAX, COMET)
MEMBERS = Members(
    0, StorageMode.PAPER, (Party("v", digest(1), "h:1"),), (Party("s", digest(2), "[::1]:65535"),)
)
MEMBERS_MAX = Members(
    U16_MAX, StorageMode.TOLERANT, (), (Party(LONG, digest(255), "a" * 300), Party(UNICODE, digest(3)))
)
POSSESSIONS = (
    Possession(MemberRole.VALIDATOR, "b", signature(1)),
    Possession(MemberRole.STORAGE, "a", signature(2)),
)
HANDOVER = Handover(CERTIFIED, 9, MEMBERS, (digest(4), digest(5)))


def proof_of(role: handshake.Role, name: str) -> handshake._Proof:
    """A proof of somebody with this role and name."""
    return handshake._Proof(handshake.Peer(role, name, digest(18)), signature(19))


QUORUM = messages.Certificate(
    messages.Step.PREVOTE, 9, 0, digest(1), ((0, signature(1)), (2, signature(2)))
)
DECIDED = messages.Certificate(messages.Step.PRECOMMIT, U64_MAX, U32_MAX, digest(255), ())
VALUE = messages.Value(digest(1), b"content")
EMPTY = messages.Value(ZERO_DIGEST, b"")
PREVOTE = messages.Vote(messages.Step.PREVOTE, 9, 0, None, 1, signature(1))
PRECOMMIT = messages.Vote(messages.Step.PRECOMMIT, U64_MAX, U32_MAX, digest(1), U16_MAX, signature(2))
PROPOSAL = messages.Proposal(9, 0, VALUE, messages.NO_ROUND, 1, signature(1))
PROPOSAL_AGAIN = messages.Proposal(9, 1, EMPTY, U32_MAX - 1, U16_MAX, signature(2), QUORUM)
SAID = (PROPOSAL, PROPOSAL_AGAIN, PREVOTE, PRECOMMIT, QUORUM, DECIDED, messages.Commit(VALUE, DECIDED))
KEPT = (
    *(durable.SignedOnce(PROPOSAL), durable.SignedOnce(PREVOTE)),
    durable.Locked(9),
    durable.Locked(U64_MAX, VALUE, 0, EMPTY, U32_MAX - 1, QUORUM),
    *(durable.Entered(9), durable.Entered(U64_MAX, U32_MAX, (PREVOTE, PROPOSAL_AGAIN))),
)

VALUES: tuple[Encoded, ...] = (
    *(HEADER, HEADER_MAX, SIGNED, SIGNED_MAX, BATCH),
    Batch(SignedHeader(BatchHeader("", "", 0, "", 0, 0, 1, digest(0), digest(0)), signature(0)), (b"",)),
    *(RECEIPT, StorageReceipt(UNICODE, digest(255), signature(255))),
    *(ABSENCE, ABSENCE_MAX, VOTE, VOTE_MAX, CERTIFICATE, CERTIFICATE_MAX),
    CommitCertificate(1, 0, digest(0), ()),
    *(COMET, COMET_EMPTY),
    *(application.Place(1, BLOCK.header), application.Place(U64_MAX, BLOCK_HEADER_MAX)),
    application.Places(0, ()),
    application.Places(U64_MAX, (application.Place(1, BLOCK.header), application.Place(2, BLOCK.header))),
    application.CometStatus(0, ZERO_DIGEST, digest(1)),
    application.CometStatus(U64_MAX, digest(254), digest(255)),
    *(BLOCK.header, BLOCK_HEADER_MAX, BLOCK, block_of()),
    *(KEY, KEY_ENDED, state.Key(digest(0), 0, 0, state.Ending.REVOKED)),
    *(PROOF, SectionKeyProof(KEY_ENDED, U64_MAX, (), ((U64_MAX, digest(255)),) * sections.SECTIONS)),
    *(CERTIFIED, CERTIFIED_COMET),
    EventReceipt(b"leaf", 1, (digest(20),), SUBMIT, 2, (), CERTIFIED, PROOF),
    EventReceipt(b"", U32_MAX, (), tx.Submit(SIGNED_MAX, ()), 0, (digest(1),) * 3, CERTIFIED_COMET, PROOF),
    EventReceipt(b"", 0, (), SUBMIT, U32_MAX, (), CERTIFIED, PROOF, key_block=CERTIFIED_COMET),
    *(act.SetTopic("orders", 2, True), act.SetTopic(UNICODE, U32_MAX, False)),
    act.RegisterKey("alice", 0, digest(1), signature(2)),
    act.RegisterKey(LONG, U32_MAX, digest(255), signature(255)),
    *(act.RotateKey(digest(1), signature(2)), act.RotateKey(digest(255), signature(255))),
    *(act.RevokeKey("alice", 0), act.RevokeKey(UNICODE, U32_MAX)),
    act.JoinGroup("group", "1", ("logs", "orders"), 30_000),
    act.JoinGroup(LONG, UNICODE, (), U32_MAX),
    *(act.LeaveGroup("group", "1"), act.LeaveGroup("", UNICODE)),
    act.CommitOffsets("group", "1", 3, ((UNICODE, U32_MAX, 0), ("logs", 0, 1), ("logs", 1, U64_MAX))),
    act.CommitOffsets("", LONG, U64_MAX, ()),
    *(act.LowWater("orders", 1, 40), act.LowWater(UNICODE, U32_MAX, U64_MAX)),
    *(HOLE, HOLE_MAX),
    *(SUBMIT, tx.Submit(SIGNED_MAX, ())),
    tx.Signed("admin", 0, 1, act.SetTopic("orders", 2, True), signature(1)),
    tx.Signed(UNICODE, U32_MAX, U64_MAX, act.JoinGroup("g", "i", ("a", "b"), 1), signature(255)),
    *(tx.Skip(HOLE, (ABSENCE,)), tx.Skip(HOLE_MAX, ())),
    *(tx.Evict("group", "alice", "1"), tx.Evict("", UNICODE, LONG)),
    *(tx.BatchConflict(SIGNED, SIGNED_MAX), tx.BatchConflict(SIGNED_MAX, SIGNED)),
    *(tx.VoteConflict(VOTE, VOTE_MAX), tx.VoteConflict(VOTE_MAX, VOTE)),
    *(Party("v0", digest(1)), Party(UNICODE, digest(255), "127.0.0.1:1")),
    *(make_genesis(version=1), make_genesis(mode=StorageMode.PAPER, version=1)),
    Genesis(
        "c",
        0,
        0,
        StorageMode.TOLERANT,
        (Party("v", digest(1)),),
        (Party("s", digest(2)),),
        (Party("a", digest(3)),),
    ),
    CertifiedBlock(BLOCK, CERTIFICATE),
    CertifiedBlock(block_of(), COMET_EMPTY),
    *(HELLO, HELLO_MAX),
    *(proof_of(role, "s0") for role in handshake.Role),
    proof_of(handshake.Role.ANONYMOUS, UNICODE),
    handshake._Answer(HELLO, proof_of(handshake.Role.STORAGE, "s0")),
    handshake._Answer(HELLO_MAX, proof_of(handshake.Role.VALIDATOR, LONG)),
    *(requests.Read(1, 2, 3, 4), requests.Read(U64_MAX, U64_MAX, U32_MAX, U32_MAX)),
    *(requests.Blocks(0, ()), requests.Blocks(U64_MAX, (b"", b"block"))),
    requests.Status(1, digest(2), digest(3), 4, 5, 6, 7, 8, 9),
    requests.Status(U64_MAX, digest(255), digest(0), *((U64_MAX,) * 6)),
    *(ACCUSED, ACCUSED_MAX),
    *(requests.Evidence((), 0), requests.Evidence((ACCUSED, ACCUSED_MAX), U64_MAX)),
    *(stored.FetchRange(STREAM, 1, 2), stored.FetchRange(STREAM_MAX, U64_MAX, U32_MAX)),
    *(stored.FetchPlain(PLACE, 1, 2, 3), stored.FetchPlain(PLACE_MAX, U64_MAX, U32_MAX, U32_MAX)),
    *(stored.AskAbsence(SIGNED, CERTIFICATE), stored.AskAbsence(SIGNED_MAX, COMET)),
    *(stored.CatchUp(1, 2), stored.CatchUp(U64_MAX, U32_MAX)),
    *(stored.RaiseLowWater(STREAM, 1), stored.RaiseLowWater(PLACE, U64_MAX)),
    *(stored.Status(1, 2, 3, 4, 5, 6), stored.Status(*((U64_MAX,) * 6))),
    outbox.Epoch(1, True),
    outbox.Epoch(
        U64_MAX,
        False,
        ((("orders", 1), 5), ((UNICODE, U32_MAX), U64_MAX)),
        (outbox.Posted("orders", 1, b"leaf"), outbox.Posted("", 0, b"")),
    ),
    *(APPEND, APPEND_MAX, PlainEntry(7, APPEND), PlainEntry(U64_MAX, APPEND_MAX)),
    entries.Checkpoint(),
    entries.Checkpoint(
        ((STREAM, entries.Extent(1, 2)), (STREAM_MAX, entries.Extent(U64_MAX, U64_MAX))),
        ((PLACE, entries.Extent(0, 9)),),
    ),
    *(MEMBER, MEMBER_MAX, Group(0, ()), Group(U64_MAX, (MEMBER, MEMBER_MAX))),
    *(state.Topic(1, True), state.Topic(U32_MAX, False)),
    *(state.Account(0, 0, ZERO_DIGEST, 0), state.Account(U32_MAX, U64_MAX, digest(255), U32_MAX)),
    *(state.Cursor(0, ZERO_DIGEST, 0), state.Cursor(U64_MAX, digest(255), U64_MAX)),
    *(state.Partition(0, 0, 0, ZERO_DIGEST), state.Partition(3, 2, 1, digest(255))),
    *(state.Index(0), state.Index(U64_MAX)),
    *(state.Accusation(0, ZERO_DIGEST), state.Accusation(U64_MAX, digest(255))),
    *map(encoding.ConsensusMessage, (PROPOSAL, PREVOTE)),
    *map(durable.ConsensusRecord, KEPT[-2:]),
    *map(peers.SentMessage, (peers.Ask(1), PRECOMMIT)),
    *(stored.AskEvidence(""), stored.AskEvidence(UNICODE)),
    *(stored.Evidence(()), stored.Evidence(((SIGNED, SIGNED_MAX), (SIGNED_MAX, SIGNED)))),
    *(Batches(0, ()), Batches(U64_MAX, (b"", b"batch"))),
    *(PlainSlice(0, ()), PlainSlice(U64_MAX, (PlainEntry(7, APPEND), PlainEntry(10, APPEND_MAX)))),
    make_genesis(version=2),
    *(LEAF_PROOF, LeafKeyProof(KEY_ENDED, ())),
    EventReceipt(b"leaf", 1, (digest(20),), SUBMIT, 2, (), CERTIFIED, LEAF_PROOF),
    *(act.Upgrade(2, 100), act.Upgrade(U16_MAX, U64_MAX)),
    *(REFUSAL, refusals.Refusal(UNICODE, "", U64_MAX)),
    *(refusals.Refused(()), refusals.Refused((REFUSAL, REFUSAL))),
    *(requests.ReadChunk(0, 0), requests.ReadChunk(U64_MAX, U32_MAX)),
    *(act.Retention(0, 0), act.Retention(U64_MAX, U64_MAX)),
    *(
        act.SetRetention("orders", act.Retention(7, 0)),
        act.SetRetention(UNICODE, act.Retention(0, U64_MAX)),
    ),
    *(state.Protocol(1), state.Protocol(2, U16_MAX, U64_MAX)),
    state.Admission(5, SIGNED, digest(4), ("s0", "s1"), 9, 1_000_000, 3),
    state.Admission(U64_MAX, SIGNED_MAX, digest(255), (), U64_MAX, U64_MAX, None, skipped=True),
    *(GroupHead(0), GroupHead(U64_MAX), Presence(0, 0), Presence(U32_MAX, U64_MAX)),
    *(Subscription(()), Subscription(("logs", "orders"))),
    *(snapshot.Chunk(0, ()), snapshot.Chunk(U32_MAX, ((b"key", b"value"), (b"", b"")))),
    snapshot.Manifest(BLOCK.header, CERTIFIED, 3, 1),
    snapshot.Manifest(BLOCK_HEADER_MAX, CERTIFIED_COMET, U64_MAX, U32_MAX),
    replace(make_genesis(version=2), closed=True),
    *(RULE, RULE_MAX, act.Grant(RULE), act.Grant(RULE_MAX), act.Revoke(RULE), act.Revoke(RULE_MAX)),
    *(act.SetRole("bob", "auditors", held=True), act.SetRole(UNICODE, LONG, held=False)),
    *(act.SetClosed(True), act.SetClosed(False)),
    *(act.Quota(1, 2, 3), act.Quota(U32_MAX, 0, U32_MAX)),
    *(act.SetQuota(act.Quota(1, 2, 3)), act.SetQuota(act.Quota(0, U32_MAX, 0))),
    *(
        MEMBERS,
        MEMBERS_MAX,
        act.SetMembers(MEMBERS, 9, ()),
        act.SetMembers(MEMBERS_MAX, U64_MAX, POSSESSIONS),
    ),
    *(HANDOVER, Handover(CERTIFIED_COMET, U64_MAX, MEMBERS_MAX, ())),
    snapshot.Manifest(BLOCK.header, CERTIFIED, 3, 1, (HANDOVER,)),
    EventReceipt(b"leaf", 1, (digest(20),), SUBMIT, 2, (), CERTIFIED, LEAF_PROOF, CERTIFIED, (HANDOVER,)),
    *(requests.Handed(), requests.Handed((HANDOVER, HANDOVER))),
    *(Known(CERTIFIED), Known(CERTIFIED, (HANDOVER, HANDOVER))),
    *(Span(0), Span(U64_MAX, U64_MAX), Closing(True, 0), Closing(False, U64_MAX)),
)
"""At least two values of every class that has an encoding of its own."""


OUTCOMES = (
    *(Admitted(0, 1), Admitted(U64_MAX, U32_MAX), Done(), Already(), Refused(Reason.MALFORMED, "")),
    Refused(Reason.OTHER_CHAIN, UNICODE * 60),
)
IDENTITY = handshake.Peer(handshake.Role.STORAGE, "s0", digest(1))


def list_messages() -> Iterator[tuple[str, bytes]]:
    """Encodings that functions make."""
    for message in SAID:
        yield "consensus message", encoding.encode_message(message)
    for record in KEPT:
        yield "consensus record", durable.encode_record(record)
    for peer_message in (peers.Offer(()), peers.Offer((b"", b"one")), peers.Ask(U64_MAX), *SAID):
        yield "peer message", peers.encode_peer_message(peer_message)
    for outcome in OUTCOMES:
        yield "outcome", requests.encode_outcome(outcome)
    for topic in ("", UNICODE):
        yield "storage topic", stored.AskEvidence(topic).encode()
    yield "storage batches", Batches(0, ()).encode()
    yield "storage batches", Batches(U64_MAX, (b"", b"batch")).encode()
    yield "storage slice", PlainSlice(0, ()).encode()
    part = PlainSlice(U64_MAX, (PlainEntry(7, APPEND), PlainEntry(10, APPEND_MAX)))
    yield "storage slice", part.encode()
    yield "storage evidence", stored.Evidence(()).encode()
    yield "storage evidence", stored.Evidence(((SIGNED, SIGNED_MAX), (SIGNED_MAX, SIGNED))).encode()
    for missing in (Absent(), Below(0), Below(U64_MAX)):
        yield "storage answer", stored.missing(missing)
    for data in (b"", BATCH.encode()):
        yield "batch entry", entries.BatchEntry(U64_MAX, data).encode()


def list_statements() -> Iterator[tuple[str, bytes]]:
    """What is signed, hashed or authenticated and never decoded."""
    yield "stored", storage_receipt_bytes(UNICODE, "s0", digest(1))
    yield "absent", storage_absence_bytes(CHAIN, "s0", digest(1), U64_MAX)
    for kind in VoteKind:
        yield "vote", vote_bytes(CHAIN, kind, U64_MAX, U32_MAX, digest(1))
        yield "vote", vote_bytes(CHAIN, kind, 1, 0, None)
    yield "possession", keys.possession_bytes(CHAIN, UNICODE, U32_MAX)
    for role in MemberRole:
        yield "possession of a member", member_possession_bytes(CHAIN, role, UNICODE)
    yield "signed action", tx.signed_bytes(CHAIN, tx.Signed("admin", 1, 2, HOLE, b""))
    for said in (PROPOSAL, PROPOSAL_AGAIN, PREVOTE, PRECOMMIT):
        yield "consensus statement", messages.sign_bytes(CHAIN, said)
    yield "handshake of a server", handshake._server_bytes(CHAIN, b"hello", HELLO, IDENTITY)
    yield "handshake of a client", handshake._client_bytes(CHAIN, b"hello", b"answer", IDENTITY)
    yield "seal", seal._bind(CHAIN, UNICODE, U32_MAX)
    for key in ("", UNICODE, digest(1), ("alice", U64_MAX), ("orders", "alice", 0)):
        yield "state key", tables.encode_key(key)
        yield "state entry", sections.hash_entry(tables.encode_key(key), KEY_ENDED)
    yield "state", sections.hash_sections(ROOTS)
    yield "state without leaves", trie.EMPTY
    two = [leaves.make_leaf(("topics", name, state.Topic(1, True))) for name in ("a", "b")]
    yield "leaf of the state", two[0].digest
    yield "state with two leaves", trie.root_of(trie.update(None, [(leaf.place, leaf) for leaf in two]))
    for leaf in ((None, None), (b"", b""), (b"k", b"v", (("h", b"x"), (UNICODE, None)), U64_MAX)):
        yield "leaf", records.encode_leaf(*leaf)


def list_chain(version: int) -> Iterator[tuple[str, bytes]]:
    """A small chain from its genesis to the receipt of an event, with real keys and signatures."""
    chain = chain_with_topic(version)
    yield "genesis", chain.ledger.genesis.encode()
    first = batch_of(b"one", b"two")
    second = batch_of(b"three", sequence=2, previous=first.digest())
    chain.block(submitted(first), chain.register("carol"))
    chain.block(submitted(second), chain.act("alice", act.JoinGroup("group", "1", ("orders",), 30_000)))
    chain.block(chain.act("alice", act.CommitOffsets("group", "1", 1, (("orders", 0, 2),))))
    yield "batch", first.encode()
    yield "batch", second.encode()
    for block in chain.blocks:
        yield "block", block.encode()
        yield "certificate", certificate_for(block).encode()
    yield from _list_receipt(chain, first)
    yield "precommit", vote(0, chain.blocks[-1].block_id(), chain.ledger.height).encode()
    yield "state after the last block", chain.ledger.state_hash()


def _list_receipt(chain: Chain, batch: Batch) -> Iterator[tuple[str, bytes]]:
    proof = chain.ledger.prove_key("alice", 0)
    assert proof is not None
    key = (proof, chain.certified(chain.ledger.height))
    block = chain.blocks[1]
    receipt = make_receipt(batch, 1, block, certificate_for(block), key)
    yield "receipt of an event", receipt.encode()
    file = export_receipt(receipt)
    assert verify_receipt(file, chain.ledger.genesis).position == 1
    yield "file of a receipt", file
    yield "key", key_of("alice").public
