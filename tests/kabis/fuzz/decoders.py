"""Everything in Kabis that takes bytes from outside, each with what makes valid ones and what it may raise.

`find_coded` and `find_functions` look them up in the package, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from hypothesis import strategies as st

from tests.kabis import strategies as known
from tests.kabis.chain import key_of, make_genesis
from veristream import kabis
from veristream.kabis.client import checkpoint
from veristream.kabis.cometbft import abci, application
from veristream.kabis.ledger import groups, snapshot, state, tables
from veristream.kabis.ledger import leaves as state_leaves
from veristream.kabis.ledger.access import Closing, Span
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.event_receipts import EventReceipt
from veristream.kabis.ledger.key_proofs import LeafKeyProof, SectionKeyProof
from veristream.kabis.ledger.state import Key
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.log.disk import segment
from veristream.kabis.log.disk.index import SparseIndex
from veristream.kabis.log.kafka import frames
from veristream.kabis.operations import certificates
from veristream.kabis.ordering import durable, messages, peers, requests
from veristream.kabis.protocol import actions as act
from veristream.kabis.protocol import genesis, protobuf, records
from veristream.kabis.protocol import transactions as tx
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, BatchHeader, PackedBatch, SignedHeader
from veristream.kabis.protocol.blocks import Block, BlockHeader, CertifiedBlock
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.cometbft_certificate import CometCertificate
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Reason, Refused
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import SESSION_BYTES, PlainAppend, PlainEntry, PlainSlice
from veristream.kabis.protocol.receipts import CommitCertificate, SignedVote, StorageAbsence, StorageReceipt
from veristream.kabis.protocol.seal import Sealer, SealError, TopicKeys
from veristream.kabis.spark import outbox
from veristream.kabis.storage import entries
from veristream.kabis.storage import messages as stored
from veristream.kabis.storage.messages import Batches
from veristream.kabis.wire import handshake, refusals
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.handshake import WireError
from veristream_testing.simulation import encoding

FUNCTIONS = ("decode_", "split_", "load_", "from_json")
"""How functions are called that take bytes, or a file, from outside."""

names, digests, signatures = known.names, known.digests, known.signatures
u16, u32, u64 = known.u16, known.u32, known.u64
publics = digests
blobs = st.binary(max_size=20)


def find_modules() -> Iterator[ModuleType]:
    """Every module of Kabis, but those that need what is not installed."""
    for found in pkgutil.walk_packages(kabis.__path__, f"{kabis.__name__}."):
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("veristream"):
                raise


def find_coded() -> set[type[Coded]]:
    """Every kind of value that is decoded."""
    modules = list(find_modules())
    kinds = (kind for module in modules for kind in vars(module).values() if inspect.isclass(kind))
    return {kind for kind in kinds if issubclass(kind, Coded) and hasattr(kind, "KIND")}


def find_functions() -> set[str]:
    """Every public function that decodes, by module and name."""
    return {
        f"{module.__name__.removeprefix(f'{kabis.__name__}.')}.{name}"
        for module in find_modules()
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and name.startswith(FUNCTIONS)
        and any(is_outside(given.annotation) for given in inspect.signature(function).parameters.values())
    }


def find_methods() -> set[str]:
    """Every class that is no `Coded` and yet makes itself of bytes or text, by module, name and method."""
    return {
        f"{module.__name__.removeprefix(f'{kabis.__name__}.')}.{kind.__name__}.{name}"
        for module in find_modules()
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and not issubclass(kind, Coded)
        for name, method in vars(kind).items()
        if isinstance(method, classmethod | staticmethod) and name in ("decode", "parse")
    }


def is_outside(annotation: object) -> bool:
    """Whether a parameter of this type, which is written as text, may come from outside."""
    return "bytes" in str(annotation) or str(annotation) in ("Path", "str")


# Values.


def many(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """A few of them, as a tuple."""
    return st.lists(values, max_size=3).map(tuple)


streams = st.builds(StreamName, names, u32, names, u32)
places = st.builds(PartitionName, names, u32)
leaves = st.lists(blobs, min_size=1, max_size=4).map(tuple)
appends = st.builds(PlainAppend, places, st.binary(min_size=SESSION_BYTES, max_size=16), u32, leaves)
plain_entries = st.builds(PlainEntry, u32, appends)
extents = st.tuples(u32, u32).map(lambda pair: entries.Extent(min(pair), max(pair)))
roles = st.sampled_from(list(handshake.Role))
hellos = st.builds(handshake._Hello, names, digests, digests, st.booleans())
proofs = st.builds(handshake._Proof, st.builds(handshake.Peer, roles, names, publics), signatures)
accused = st.builds(requests.Accused, names, names, u64, digests)

either = known.certificates | known.comet_certificates
comet_places = st.builds(application.Place, u64, known.block_headers)

# What validators say to each other, and write down.

steps = st.sampled_from([messages.Step.PREVOTE, messages.Step.PRECOMMIT])
values = st.builds(messages.Value, digests, blobs)
rounds = st.integers(messages.NO_ROUND, 100)
votes = st.builds(messages.Vote, steps, u64, u32, st.none() | digests, u16, signatures)
quorums = st.builds(messages.Certificate, steps, u64, u32, digests, many(st.tuples(u16, signatures)))
proposals = st.builds(messages.Proposal, u64, u32, values, rounds, u16, signatures, st.none() | quorums)
said = st.one_of(proposals, votes, quorums, st.builds(messages.Commit, values, quorums))
optional = st.none() | values
remembered = st.one_of(
    st.builds(durable.SignedOnce, proposals | votes),
    st.builds(durable.Locked, u64, optional, rounds, optional, rounds, st.none() | quorums),
    st.builds(durable.Entered, u64, u32, many(proposals | votes)),
)
passed_on = st.one_of(st.builds(peers.Offer, many(blobs)), st.builds(peers.Ask, u64), said)

admissions = st.builds(
    state.Admission,
    *(u64, known.signed_headers, digests, many(names), u64, u64, st.none() | u64, st.booleans()),
)
parts = st.one_of(names, u64, digests)
refused = st.builds(refusals.Refusal, names, names, u64)

CODED: dict[type[Coded], st.SearchStrategy[Coded]] = {
    BatchHeader: known.headers,
    SignedHeader: known.signed_headers,
    Batch: known.batches(),
    StorageReceipt: known.storage_receipts,
    StorageAbsence: known.storage_absences,
    SignedVote: known.votes,
    CommitCertificate: known.certificates,
    CometCertificate: known.comet_certificates,
    application.Place: comet_places,
    application.Places: st.builds(application.Places, u64, many(comet_places)),
    application.CometStatus: st.builds(application.CometStatus, u64, digests, digests),
    BlockHeader: known.block_headers,
    Block: known.blocks(),
    Key: known.keys,
    SectionKeyProof: known.section_key_proofs,
    LeafKeyProof: known.leaf_key_proofs,
    state.Topic: st.builds(state.Topic, u32, st.booleans()),
    state.Account: st.builds(state.Account, u32, u64, digests, u32),
    state.Cursor: st.builds(state.Cursor, u64, digests, u64),
    state.Partition: st.builds(state.Partition, u64, u64, u64, digests),
    state.Index: st.builds(state.Index, u64),
    state.Accusation: st.builds(state.Accusation, u64, digests),
    state.Admission: admissions,
    state.Protocol: st.builds(state.Protocol, u16) | st.builds(state.Protocol, u16, u16, u64),
    groups.GroupHead: st.builds(groups.GroupHead, u64),
    groups.Presence: st.builds(groups.Presence, u32, u64),
    groups.Subscription: st.builds(groups.Subscription, known.topics),
    snapshot.Chunk: st.builds(snapshot.Chunk, u32, many(st.tuples(blobs, blobs))),
    snapshot.Manifest: st.builds(
        snapshot.Manifest, known.block_headers, known.certified, u64, u32, known.handovers
    ),
    Handover: st.builds(Handover, known.certified, u64, known.members, known.paths),
    Members: known.members,
    requests.Handed: st.builds(requests.Handed, known.handovers),
    act.SetMembers: st.builds(act.SetMembers, known.members, u64, known.possessions),
    checkpoint.Known: st.builds(checkpoint.Known, known.certified, known.handovers),
    CertifiedHeader: known.certified,
    EventReceipt: known.event_receipts,
    act.SetTopic: st.builds(act.SetTopic, names, u32, st.booleans()),
    act.RegisterKey: st.builds(act.RegisterKey, names, u32, publics, signatures),
    act.RotateKey: st.builds(act.RotateKey, publics, signatures),
    act.RevokeKey: st.builds(act.RevokeKey, names, u32),
    act.JoinGroup: st.builds(act.JoinGroup, names, names, known.topics, u32),
    act.LeaveGroup: st.builds(act.LeaveGroup, names, names),
    act.CommitOffsets: st.builds(act.CommitOffsets, names, names, u64, known.offsets),
    act.LowWater: st.builds(act.LowWater, names, u32, u64),
    act.Hole: known.holes,
    refusals.Refusal: refused,
    refusals.Refused: st.builds(refusals.Refused, many(refused)),
    requests.ReadChunk: st.builds(requests.ReadChunk, u64, u32),
    act.Upgrade: st.builds(act.Upgrade, u16, u64),
    act.Retention: st.builds(act.Retention, u64, u64),
    act.SetRetention: st.builds(act.SetRetention, names, st.builds(act.Retention, u64, u64)),
    act.Rule: known.rules,
    act.Grant: st.builds(act.Grant, known.rules),
    act.Revoke: st.builds(act.Revoke, known.rules),
    act.SetRole: st.builds(act.SetRole, names, names, st.booleans()),
    act.SetClosed: st.builds(act.SetClosed, st.booleans()),
    act.Quota: st.builds(act.Quota, u32, u32, u32),
    act.SetQuota: st.builds(act.SetQuota, st.builds(act.Quota, u32, u32, u32)),
    Span: st.builds(Span, u64, st.none() | u64),
    Closing: st.builds(Closing, st.booleans(), u64),
    tx.Submit: known.submits,
    tx.Signed: st.builds(tx.Signed, names, u32, u64, known.actions, signatures),
    tx.Skip: st.builds(tx.skip, known.holes, st.lists(known.storage_absences, max_size=3)),
    tx.Evict: st.builds(tx.Evict, names, names, names),
    tx.BatchConflict: st.builds(tx.BatchConflict, known.signed_headers, known.signed_headers),
    tx.VoteConflict: st.builds(tx.VoteConflict, known.votes, known.votes),
    genesis.Party: st.builds(genesis.Party, names, publics),
    genesis.Genesis: st.sampled_from(
        [make_genesis(mode=mode, version=version) for mode in genesis.StorageMode for version in (1, 2)]
    ),
    CertifiedBlock: st.builds(CertifiedBlock, known.blocks(), either),
    handshake._Hello: hellos,
    handshake._Proof: proofs,
    handshake._Answer: st.builds(handshake._Answer, hellos, proofs),
    requests.Read: st.builds(requests.Read, u64, u64, u32, u32),
    requests.ReadChunk: st.builds(requests.ReadChunk, u64, u32),
    requests.Blocks: st.builds(requests.Blocks, u64, many(blobs)),
    requests.Status: st.builds(requests.Status, u64, digests, digests, u64, u32, u32, u32, u32, u64),
    requests.Accused: accused,
    requests.Evidence: st.builds(requests.Evidence, many(accused), u64),
    stored.FetchRange: st.builds(stored.FetchRange, streams, u64, u32),
    stored.FetchPlain: st.builds(stored.FetchPlain, places, u64, u32, u32),
    stored.AskAbsence: st.builds(stored.AskAbsence, known.signed_headers, either),
    stored.CatchUp: st.builds(stored.CatchUp, u64, u32),
    stored.RaiseLowWater: st.builds(stored.RaiseLowWater, streams | places, u64),
    stored.Status: st.builds(stored.Status, u64, u64, u64, u64, u64, u64),
    stored.AskEvidence: st.builds(stored.AskEvidence, names),
    stored.Evidence: st.builds(
        stored.Evidence,
        st.lists(st.tuples(known.signed_headers, known.signed_headers), max_size=2).map(tuple),
    ),
    Batches: st.builds(Batches, u64, many(blobs)),
    PlainSlice: st.builds(PlainSlice, u64, many(plain_entries)),
    outbox.Epoch: st.builds(
        outbox.Epoch,
        u64,
        st.booleans(),
        many(st.tuples(st.tuples(names, u32), u64)),
        many(st.builds(outbox.Posted, names, u32, blobs)),
    ),
    PlainAppend: appends,
    PlainEntry: plain_entries,
    entries.Checkpoint: st.builds(
        entries.Checkpoint, many(st.tuples(streams, extents)), many(st.tuples(places, extents))
    ),
    durable.ConsensusRecord: st.builds(durable.ConsensusRecord, remembered),
    peers.SentMessage: st.builds(peers.SentMessage, passed_on),
}
"""A strategy for every kind of value that is decoded."""


outcomes = st.one_of(
    st.builds(Admitted, u64, u32),
    st.builds(Done),
    st.builds(Already),
    st.builds(Refused, st.sampled_from(Reason), names),
)
headers = st.lists(st.tuples(names, st.none() | blobs), max_size=3).map(tuple)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder, valid input for it, and all that it may raise."""

    decode: Callable[[bytes], object]
    encodings: st.SearchStrategy[bytes]
    errors: tuple[type[Exception], ...] = (DecodeError,)

    def __call__(self, data: bytes) -> object:
        """What the bytes mean; the error, if it is one that callers expect; else it is raised."""
        try:
            return self.decode(data)
        except self.errors as error:
            return error


def coded(kind: type[Coded]) -> Decoder:
    """The decoder of a kind of value."""
    return Decoder(kind.decode, CODED[kind].map(lambda value: value.encode()))


def of_requests(operations: type[stored.Operation] | type[requests.Operation]) -> st.SearchStrategy[bytes]:
    """A request of each kind, with whatever it is about."""
    return st.builds(lambda kind, body: bytes((kind,)) + body, st.sampled_from(operations), blobs)


def encoded(values: st.SearchStrategy[Coded]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: value.encode())


heads = st.builds(segment.encode_header, st.builds(segment.Header, u64, u64))
comet_requests = st.builds(
    protobuf.encode_message,
    st.sampled_from([1, 2, 3, 5, 6, 8, 11, 12, 16, 17, 20]),
    st.builds(
        lambda number, body: protobuf.encode_bytes(1, body) + protobuf.encode_integer(5, number), u32, blobs
    ),
)
TOPIC_KEY = state_leaves.encode_leaf_key("topics", "orders")
OTHERS: dict[str, Decoder] = {
    "cometbft.abci.decode_request": Decoder(abci.decode_request, comet_requests),
    "protocol.protobuf.decode_varint": Decoder(
        lambda data: protobuf.decode_varint(data, 0), u64.map(protobuf.encode_varint)
    ),
    "protocol.actions.decode_action": Decoder(act.decode_action, encoded(known.actions)),
    "protocol.transactions.decode_transaction": Decoder(tx.decode_transaction, encoded(known.transactions)),
    "protocol.records.decode_leaf": Decoder(
        records.decode_leaf,
        st.builds(records.encode_leaf, st.none() | blobs, st.none() | blobs, headers, st.none() | u64),
    ),
    "operations.certificates.decode_key": Decoder(
        lambda data: certificates.decode_key(data.decode("utf-8", "replace")),
        st.binary(min_size=32, max_size=32).map(
            lambda seed: certificates.encode_key(make_key(seed)).encode()
        ),
        (ValueError,),
    ),
    "ledger.tables.decode_key": Decoder(tables.decode_key, many(parts).map(tables.encode_key)),
    "ledger.leaves.decode_leaf": Decoder(
        lambda data: state_leaves.decode_leaf(TOPIC_KEY, data),
        encoded(st.builds(state.Topic, u32, st.booleans())),
    ),
    "ordering.durable.decode_record": Decoder(durable.decode_record, remembered.map(durable.encode_record)),
    "ordering.peers.decode_peer_message": Decoder(
        peers.decode_peer_message, passed_on.map(peers.encode_peer_message)
    ),
    "ordering.requests.decode_outcome": Decoder(
        requests.decode_outcome, outcomes.map(requests.encode_outcome)
    ),
    "ordering.requests.split_request": Decoder(requests.split_request, of_requests(requests.Operation)),
    "storage.messages.split_request": Decoder(stored.split_request, of_requests(stored.Operation)),
    "storage.messages.split_answer": Decoder(
        stored.split_answer,
        blobs.map(stored.found) | (st.just(Absent()) | st.builds(Below, u64)).map(stored.missing),
    ),
    "storage.messages.decode_digest": Decoder(stored.decode_digest, digests),
    "storage.entries.decode_entry": Decoder(
        entries.decode_entry,
        st.builds(entries.BatchEntry, u64, blobs).map(lambda entry: entry.encode())
        | encoded(plain_entries)
        | encoded(CODED[entries.Checkpoint]),
    ),
    "log.kafka.frames.decode_frame": Decoder(
        lambda data: frames.decode_frame(7, data),
        blobs.map(lambda payload: frames.encode_frame(7, payload)),
        (frames.FrameError,),
    ),
    "log.disk.segment.decode_header": Decoder(
        lambda data: segment.decode_header("file", data), heads, (segment.EnvironmentFailure,)
    ),
    "log.disk.segment.decode_marks": Decoder(
        lambda data: segment.decode_marks("file", data), heads, (segment.Damaged,)
    ),
}
"""Functions that take bytes and are no value's `decode`."""

SEALER = Sealer("chain", TopicKeys("orders", 0, {0: bytes(32)}), bytes)


def make_index(offsets: list[int]) -> bytes:
    """The index of a segment with records at these offsets, which ends at 2,000,000."""
    index = SparseIndex(5)
    for number, offset in enumerate(sorted(offsets), start=6):
        index.add(number, offset)
    return index.encode(100, 2_000_000)


def split_frames(data: bytes) -> list[bytes]:
    """The frames in a stream whose frames have at most 100 bytes."""
    splitter = handshake.Splitter(100)
    frames: list[bytes] = []
    while data:
        room = splitter.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        splitter.fill(count)
        frames += [bytes(frame) for frame in iter(splitter.next, None)]
        data = data[count:]
    return frames


def answer_hello(data: bytes) -> bytes:
    """What a server says to a hello."""
    identity = handshake.Identity("chain", handshake.Role.STORAGE, "s0", key_of("s0"))
    return handshake.ServerHandshake(identity, handshake.Secrets.draw(bytes(64))).answer(data)


METHODS: dict[str, Decoder] = {
    "protocol.batch.PackedBatch.decode": Decoder(PackedBatch.decode, encoded(CODED[Batch])),
    "log.disk.index.SparseIndex.decode": Decoder(
        lambda data: SparseIndex.decode(data, 5, 100, 2_000_000),
        st.lists(st.integers(2000, 1_999_999), max_size=5).map(make_index),
        (),
    ),
    "wire.endpoints.Address.parse": Decoder(
        lambda data: Address.parse(data.decode("utf-8", "replace")),
        st.builds(lambda port: f"[::1]:{port}".encode(), u16),
        (ValueError,),
    ),
}
"""Methods that make something of bytes or text."""

FURTHER: dict[str, Decoder] = {
    "simulation.encoding.decode_message": Decoder(
        encoding.decode_message, said.map(encoding.encode_message)
    ),
    "simulation.encoding.ConsensusMessage": Decoder(
        encoding.ConsensusMessage.decode,
        st.builds(encoding.ConsensusMessage, said).map(lambda value: value.encode()),
    ),
    "protocol.seal.Sealer.open_event": Decoder(
        lambda data: SEALER.open_event(records.Event(None, data, (), 7)),
        st.builds(SEALER.seal_leaf, st.none() | blobs, st.none() | blobs, headers).map(
            lambda leaf: records.decode_leaf(leaf).value or b""
        ),
        (SealError,),
    ),
    "storage.entries.BatchEntry.signed": Decoder(
        lambda data: entries.BatchEntry(0, data).signed, encoded(CODED[Batch])
    ),
    "wire.handshake.Splitter": Decoder(
        split_frames, st.lists(blobs).map(lambda each: b"".join(map(handshake.prefix, each))), (WireError,)
    ),
    "wire.handshake.ServerHandshake.answer": Decoder(answer_hello, encoded(hellos), (WireError,)),
}
"""What takes bytes under another name, as far as anybody remembered; `test_parties` meets them all."""

INSIDE = {
    "client.producer.chains.decode_batches": "Batch.decode on each; what is none is left out",
    "protocol.codec.decode_one_of": "the loop under decode_action and decode_transaction",
    "channels.failures.decode_answer": "calls the decoder that it is given",
    "client.consumed.decode_events": "decode_leaf on each; what is none is left out",
    "spark.plan.split_plain": "takes a range of offsets apart, and no bytes",
    "storage.saved_view.load_view": "reads a file of the party itself, see test_saved_view",
    "log.disk.segment.decode_gap": "gets eight bytes whose frame was checked, see test_files",
}
"""Functions that never see bytes from outside before another decoder has."""

FILES = {
    "client.known_members.load_members",
    "client.known_members.load_succession",
    "storage.late_clients.load_clients",
    "protocol.genesis.from_json",
    "protocol.genesis.load_genesis",
    "kafka.settings.load_settings",
    "protocol.keys.load_key",
    "protocol.seal.load_topic_keys",
}
"""Functions that read whole files: `test_files` has them."""

DECODERS: dict[str, Decoder] = {
    **{f"{kind.__module__.split('.', 2)[2]}.{kind.__name__}": coded(kind) for kind in CODED},
    **OTHERS,
    **METHODS,
    **FURTHER,
}
"""All that takes bytes, by name."""
