"""A chain for simulations: cheap keys, a genesis, and transactions."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b, sha256

from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.batch import Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import VERSION_MAX, Genesis
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.members import Party, StorageMode
from veristream.kabis.protocol.receipts import sign_storage_receipt
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import Author, sign_action, submit

CHAIN = "simulation"
START_MS = 1_000_000
BATCHES = 4


@dataclass(frozen=True, slots=True)
class Key:
    """A keyed hash instead of a signature; sufficient because only the simulation holds keys."""

    public: bytes

    def sign(self, message: bytes) -> bytes:
        return blake2b(message, key=self.public).digest()


def key_of(name: str) -> Key:
    """Returns the key of a party or client."""
    return Key(sha256(name.encode()).digest())


def check_signature(public: bytes, message: bytes, signature: bytes) -> None:
    """Raises SignatureError unless the hash was made with this key."""
    if Key(public).sign(message) != signature:
        raise SignatureError("not this key's")


def make_genesis(size: int) -> Genesis:
    """Returns the genesis of a chain with `size` validators."""

    def parties(prefix: str, count: int) -> tuple[Party, ...]:
        names = [f"{prefix}{number}" for number in range(count)]
        return tuple(Party(name, key_of(name).public) for name in names)

    faults = (size - 1) // 3
    return Genesis(
        CHAIN, START_MS, faults, StorageMode.TOLERANT, parties("v", size), parties("s", 2 * faults + 1),
        parties("admin", 1), parties("client", 2), version=VERSION_MAX,
    )  # fmt: skip


def make_transactions(genesis: Genesis) -> list[bytes]:
    """Returns the creation of a topic, then alternating batches of two producers."""
    author = Author(CHAIN, "admin0", 0, key_of("admin0"))
    made = [sign_action(author, 1, SetTopic("orders", 2, validated=True)).encode()]
    last = {party.name: ZERO_DIGEST for party in genesis.clients}
    for sequence in range(BATCHES):
        for partition, party in enumerate(genesis.clients):
            stream = Stream(CHAIN, "orders", partition, party.name, 0)
            leaves = [encode_leaf(None, b"%d" % sequence)]
            batch = build_batch(stream, sequence, last[party.name], leaves, key_of(party.name))
            last[party.name] = batch.digest()
            receipts = [
                sign_storage_receipt(CHAIN, store.name, batch.digest(), key_of(store.name))
                for store in genesis.storage[: genesis.receipts_needed]
            ]
            made.append(submit(batch.signed, receipts).encode())
    return made
