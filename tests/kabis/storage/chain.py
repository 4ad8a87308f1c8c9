"""A small chain for tests of storage: keys, a genesis, batches."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.kabis.protocol.batch import Batch, Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Genesis, Party, StorageMode
from veristream.kabis.protocol.keys import SecretKey, make_key
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.protocol.receipts import CommitCertificate, SignedVote, VoteKind, vote_bytes
from veristream.kabis.protocol.records import encode_leaf
from veristream_testing.simulation.votes import certify

CHAIN = "test-chain"
ALICE = make_key(b"a" * 32)
BOB = make_key(b"b" * 32)
ADMIN = make_key(b"d" * 32)
STORES = tuple(make_key(bytes([number]) * 32) for number in (10, 11, 12))
VALIDATORS = tuple(make_key(bytes([number]) * 32) for number in (20, 21, 22, 23))

GENESIS = Genesis(
    chain_id=CHAIN,
    time_ms=0,
    faults=1,
    storage_mode=StorageMode.TOLERANT,
    validators=tuple(Party(f"v{number}", key.public) for number, key in enumerate(VALIDATORS)),
    storage=tuple(Party(f"s{number}", key.public) for number, key in enumerate(STORES)),
    admins=(Party("admin", ADMIN.public),),
    clients=(Party("alice", ALICE.public), Party("bob", BOB.public)),
)

STREAM = StreamName("orders", 0, "alice", 0)


def batch(
    first_sequence: int,
    values: Sequence[bytes] = (b"one", b"two"),
    *,
    stream: StreamName = STREAM,
    key: SecretKey = ALICE,
    previous: bytes = ZERO_DIGEST,
    chain_id: str = CHAIN,
) -> Batch:
    """A signed batch of these values."""
    target = Stream(chain_id, stream.topic, stream.partition, stream.producer, stream.key_epoch)
    return build_batch(
        target, first_sequence, previous, [encode_leaf(None, value) for value in values], key
    )


def certificate(height: int, voters: int = 3) -> CommitCertificate:
    """The certificate of some block at a height, by so many validators."""
    block_id = height.to_bytes(32, "big")
    message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, height, 0, block_id)
    votes = [
        SignedVote(number, VoteKind.PRECOMMIT, height, 0, block_id, VALIDATORS[number].sign(message))
        for number in range(voters)
    ]
    return certify(votes)
