"""A simulated Byzantine producer: it signs, stores and submits invalid batches with its own key."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from veristream.kabis.protocol.batch import Batch, Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.receipts import StorageReceipt, sign_storage_receipt
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import submit
from veristream_testing.simulation.chain import CHAIN, check_signature, key_of
from veristream_testing.simulation.clients import (
    PARTITIONS,
    TOPIC,
    Machine,
    Surroundings,
    serve_store,
    validator_name,
)
from veristream_testing.simulation.scenario import HEAL_MS
from veristream_testing.simulation.trouble import Attack

AGAIN_MS = 150
STRANGER = "somebody"


class Mallory(Machine):
    """The producer; `values` are all events that it signed in its own name."""

    def __init__(self, around: Surroundings, name: str, attack: Attack) -> None:
        super().__init__(around, name)
        self.attack = attack
        self.values: set[bytes] = set()
        self.receipts: dict[bytes, dict[str, StorageReceipt]] = {}
        self.batches = self._make_batches()

    def _make_batches(self) -> list[Batch]:
        partition = self.around.random.randrange(PARTITIONS)
        first = self._batch(b"first", partition, 0, ZERO_DIGEST)
        match self.attack:
            case Attack.EQUIVOCATE:
                return [first, self._batch(b"other", partition, 0, ZERO_DIGEST)]
            case Attack.SPLICE:
                return [first, self._batch(b"spliced", partition, 1, key_of(STRANGER).public)]
            case Attack.IMPERSONATE:
                stream = Stream(CHAIN, TOPIC, partition, "client0", 0)
                leaves = [encode_leaf(None, b"not of client0")]
                return [first, build_batch(stream, 0, ZERO_DIGEST, leaves, key_of(self.name))]
            case Attack.PHANTOM:
                return [first]

    def _batch(self, word: bytes, partition: int, sequence: int, previous: bytes) -> Batch:
        value = b"%s/%s" % (self.name.encode(), word)
        self.values.add(value)
        stream = Stream(CHAIN, TOPIC, partition, self.name, 0)
        return build_batch(stream, sequence, previous, [encode_leaf(None, value)], key_of(self.name))

    def begin(self) -> None:
        """Stores and submits repeatedly, until some time after the network has healed."""
        for delay_ms in range(20, HEAL_MS + 10 * AGAIN_MS, AGAIN_MS):
            for batch in self.batches:
                self.later(delay_ms + self.around.random.randint(0, 50), partial(self._attack, batch))

    def _attack(self, batch: Batch) -> None:
        around, digest = self.around, batch.digest()
        receipts = self.receipts.setdefault(digest, {})
        needed = around.receipts_needed
        if self.attack is Attack.IMPERSONATE:
            self._submit(batch, self._false_receipts(batch, needed))
        elif self.attack is Attack.PHANTOM:
            honest = list(receipts.values())[: needed - 1]
            self._submit(batch, [*honest, *self._false_receipts(batch, needed)][: needed if honest else 1])
        elif len(receipts) >= needed:
            self._submit(batch, list(receipts.values())[:needed])
        for name in around.stores:
            if name not in receipts and around.random.random() < 0.7:
                self._store(name, batch)

    def _false_receipts(self, batch: Batch, count: int) -> list[StorageReceipt]:
        parties = [party.name for party in self.around.genesis.storage][:count]
        return [sign_storage_receipt(CHAIN, name, batch.digest(), key_of(STRANGER)) for name in parties]

    def _store(self, name: str, batch: Batch) -> None:
        around = self.around

        def heard(receipt: StorageReceipt) -> None:
            """Keeps a receipt unless it is forged: nobody takes a batch with one of those."""
            with suppress(SignatureError):
                receipt.verify(CHAIN, key_of(name).public, check_signature)
                if receipt.party == name:
                    self.receipts[batch.digest()][name] = receipt

        serve = partial(serve_store, around, around.stores[name], batch.encode(), self.name)
        around.ask(self, name, serve, heard, lambda why: None)

    def _submit(self, batch: Batch, receipts: Iterable[StorageReceipt]) -> None:
        """Submits a batch to some validators; after the network has healed, to all."""
        around = self.around
        transaction = submit(batch.signed, receipts).encode()

        def heard(outcome: Outcome) -> None:
            """Ignores the answer."""

        for index in around.voters(self):
            if around.now_ms >= HEAL_MS or around.random.random() < 0.5:
                serve = partial(around.serve_submit, index, transaction)
                around.ask(self, validator_name(index), serve, heard, lambda why: None)
