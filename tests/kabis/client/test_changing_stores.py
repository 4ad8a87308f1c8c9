"""A producer follows the storage parties: it uses receipts of those in force, and loses nothing."""

from __future__ import annotations

from tests.kabis.chain import CHAIN, key_of
from tests.kabis.client.world import author_of
from tests.kabis.ledger.changing import FOUNDING, Changing, change, member, replaced
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.outputs import Admitted, Output, Settle, Store
from veristream.kabis.client.producer.outputs import Submit as Send
from veristream.kabis.client.pushes import Settlement
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Reason, Refused
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import SESSION_BYTES
from veristream.kabis.protocol.receipts import sign_storage_receipt
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import Submit, Transaction, decode_transaction

PLACE = PartitionName("orders", 0)
REPLACED = replaced(FOUNDING, "s0", member("s4"))
ROTATED = replaced(FOUNDING, "s0", member("s0", 1))


class World:
    """A producer over a chain whose members change at height 5; `now_ms` never moves by itself."""

    def __init__(self, after: Members, journal: tuple[bytes, ...] = ()) -> None:
        self.chain = Changing()
        self.chain.block(self.chain.act("admin", SetTopic("orders", 1, validated=True)))
        self.after = after
        options = ProducerOptions(linger_ms=0, retry_ms=100, submit_timeout_ms=100_000)
        follower = Follower(self.chain.ledger.genesis)
        self.core = ProducerCore(follower, author_of("alice"), options, bytes(SESSION_BYTES), journal)
        self.follow()
        self.started = self.core.start(0)

    def follow(self) -> list[Output]:
        made: list[Output] = []
        for height in range(self.core.follower.next_height, self.chain.ledger.height + 1):
            made += self.core.block(self.chain.certified_block(height), 0)
        return made

    def push(self) -> list[Output]:
        self.core.push(Record("orders", b"x", partition=0), 0)
        (written,) = self.core.tick(0)
        self.digest: bytes = written.digest  # type: ignore[union-attr]
        self.data: bytes = written.data  # type: ignore[union-attr]
        return self.core.journaled([self.digest], 0)

    def order(self) -> list[Output]:
        """The change is ordered, in force from height 5."""
        proof = change(self.chain.ledger.members, self.after, 5)
        self.chain.block(self.chain.act("admin", proof))
        return self.follow()

    def grow(self, height: int) -> list[Output]:
        self.chain.grow(height)
        return self.follow()

    def answer(self, name: str, key_epoch: int = 0) -> list[Output]:
        receipt = sign_storage_receipt(CHAIN, name, self.digest, key_of(name, key_epoch))
        return self.core.stored(PLACE, name, receipt, 0)


def stores(outputs: list[Output]) -> list[str]:
    return [each.party for each in outputs if isinstance(each, Store)]


def sent(outputs: list[Output]) -> Submit:
    """The one transaction that is submitted."""
    (encoded,) = {each.transaction for each in outputs if isinstance(each, Send)}
    found: Transaction = decode_transaction(encoded)
    assert isinstance(found, Submit)
    return found


def vouching(outputs: list[Output]) -> list[str]:
    return sorted(receipt.party for receipt in sent(outputs).receipts)


def test_a_batch_goes_to_a_party_that_is_about_to_join_but_its_receipt_waits() -> None:
    world = World(REPLACED)
    world.order()
    assert sorted(stores(world.push())) == ["s0", "s1", "s2", "s4"]
    assert world.answer("s4") == []
    assert world.answer("s1") == [], "s4 does not count yet"
    assert vouching(world.answer("s2")) == ["s1", "s2"]


def test_receipts_of_a_party_that_left_are_dropped_and_the_batch_is_submitted_anew() -> None:
    world = World(REPLACED)
    assert sorted(stores(world.push())) == ["s0", "s1", "s2"]
    world.answer("s0")
    first = sent(world.answer("s1"))
    assert stores(world.order()) == ["s4"]
    world.grow(3)
    moved = world.grow(4)
    assert [each for each in moved if isinstance(each, Send)] == [], "one receipt is missing"
    stale = world.chain.preview(first)
    assert stale == Refused(Reason.UNKNOWN_PARTY, "s0")
    again = sent(world.answer("s4"))
    assert sorted(receipt.party for receipt in again.receipts) == ["s1", "s4"]
    assert again.signed == first.signed, "a sequence number is signed once"
    world.chain.block(again)
    done = world.follow()
    assert Admitted(world.digest) in done
    (settled,) = (each.fate for each in done if isinstance(each, Settle))
    assert isinstance(settled, Settlement)


def test_a_transaction_with_receipts_of_parties_that_stay_goes_on() -> None:
    world = World(REPLACED)
    world.push()
    world.answer("s1")
    assert vouching(world.answer("s2")) == ["s1", "s2"]
    world.order()
    world.grow(3)
    assert vouching(world.grow(4)) == ["s1", "s2"]


def test_a_late_receipt_of_a_party_that_left_counts_for_nothing() -> None:
    world = World(REPLACED)
    world.push()
    world.order()
    world.grow(4)
    assert world.answer("s0") == []
    assert world.answer("s1") == []
    assert vouching(world.answer("s4")) == ["s1", "s4"]


def test_a_party_with_another_key_is_asked_again() -> None:
    world = World(ROTATED)
    world.push()
    world.answer("s0")
    world.answer("s1")
    assert stores(world.order()) == []
    world.grow(3)
    assert stores(world.grow(4)) == ["s0"]
    assert world.answer("s0") == [], "a receipt by the key of before"
    assert vouching(world.answer("s0", 1)) == ["s0", "s1"]


def test_what_was_signed_before_the_change_is_in_the_journal_and_goes_to_the_new_parties() -> None:
    before = World(REPLACED)
    before.push()
    world = World(REPLACED)
    world.order()
    world.grow(4)
    follower = Follower(world.chain.ledger.genesis)
    options = ProducerOptions(linger_ms=0)
    again = ProducerCore(follower, author_of("alice"), options, bytes(SESSION_BYTES), (before.data,))
    for height in range(1, world.chain.ledger.height + 1):
        again.block(world.chain.certified_block(height), 0)
    assert sorted(stores(again.start(0))) == ["s1", "s2", "s4"]
