"""Judging one stream: every fault by hand, and what no change of a stored copy can bring about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.audit.here import judge_all, read_ledger
from tests.kabis.chain import (
    STORAGE,
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    stored,
    submitted,
)
from veristream.kabis.audit.check import BatchCopy, Condition, describe, inspect
from veristream.kabis.audit.findings import Finding, Tally
from veristream.kabis.audit.registry import Registry
from veristream.kabis.protocol.actions import (
    Grant,
    Hole,
    LowWater,
    Operation,
    Resource,
    Revoke,
    RevokeKey,
    Rule,
    SetClosed,
)
from veristream.kabis.protocol.batch import Batch, SignedHeader
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST, DecodeError
from veristream.kabis.protocol.receipts import sign_storage_absence
from veristream.kabis.protocol.transactions import BatchConflict, Transaction, skip, submit

EVENTS = 3


@dataclass
class World:
    """A chain, and what each party keeps of its batches; s0 and s1 vouch."""

    chain: Chain = field(default_factory=chain_with_topic)
    kept: dict[str, list[bytes]] = field(default_factory=lambda: {party: [] for party in STORAGE})
    batches: list[Batch] = field(default_factory=list)
    extra: list[BatchCopy] = field(default_factory=list)

    def make(self, sequence: int, previous: bytes, word: bytes = b"") -> Batch:
        values = [b"%d%s" % (sequence + number, word) for number in range(EVENTS)]
        return batch_of(*values, sequence=sequence, previous=previous)

    def push(self, *transactions: Transaction) -> Batch:
        """One more batch of alice, in a block of its own, kept by all parties."""
        last = self.batches[-1] if self.batches else None
        batch = self.make(last.header.next_sequence if last else 0, last.digest() if last else ZERO_DIGEST)
        self.chain.block(submitted(batch), *transactions)
        self.batches.append(batch)
        for party in STORAGE:
            self.kept[party].append(batch.encode())
        return batch

    def blocks(self) -> list[CertifiedBlock]:
        return [CertifiedBlock(block, certificate_for(block)) for block in self.chain.blocks]

    def judge(self, unread: Iterable[str] = ()) -> tuple[list[Finding], list[Tally]]:
        read = read_ledger(self.chain.ledger.genesis, self.blocks())
        given = [inspect(read.registry, party, data) for party, kept in self.kept.items() for data in kept]
        return judge_all(read, [*given, *self.extra], frozenset(unread))

    def faults(self, unread: Iterable[str] = ()) -> list[tuple[str, str, int, int]]:
        """Kind, accused, sequence and count of what is found."""
        findings, _ = self.judge(unread)
        return [(each.kind, each.accused, each.sequence, each.count) for each in findings]


def world(batches: int = 3) -> World:
    made = World()
    for _ in range(batches):
        made.push()
    return made


def re_signed(batch: Batch, signature: bytes) -> bytes:
    return Batch(SignedHeader(batch.header, signature), batch.leaves).encode()


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    findings, tallies = world().judge()
    assert findings == []
    assert tallies == [
        Tally("orders", 0, "alice", "", copies=9, good=3, events=9),
        Tally("orders", 0, "alice", "s0", vouched=3, copies=3, good=3, events=9),
        Tally("orders", 0, "alice", "s1", vouched=3, copies=3, good=3, events=9),
        Tally("orders", 0, "alice", "s2", vouched=0, copies=3, good=3, events=9),
    ]


def test_who_vouched_must_have_it_and_who_did_not_need_not() -> None:
    made = world()
    del made.kept["s1"][1], made.kept["s2"][1]
    assert made.faults() == [("withheld", "s1", 3, 3)]


def test_who_vouched_and_says_why_it_cannot_give_it_has_withheld_it() -> None:
    made = world()
    header = made.batches[1].header
    place = ("orders", 0, "alice", 0, header.first_sequence, 3, header.digest())
    for party in ("s1", "s2"):
        del made.kept[party][1]
        made.extra.append(BatchCopy(party, Condition.REFUSED, *place, detail="offset 7 is damaged"))
    findings, tallies = made.judge()
    assert [(each.kind, each.accused, each.sequence, each.detail) for each in findings] == [
        (
            "withheld",
            "s1",
            3,
            "it signed a receipt for the batch but does not return it: offset 7 is damaged",
        )
    ]
    assert [(each.party, each.copies, each.good, each.unanswered) for each in tallies] == [
        ("", 7, 3, 0),
        ("s0", 3, 3, 0),
        ("s1", 2, 2, 0),
        ("s2", 2, 2, 0),
    ]


def test_a_changed_event_is_altered() -> None:
    made = world()
    made.kept["s2"][0] = made.kept["s2"][0][:-1] + b"?"
    assert made.faults() == [("altered", "s2", 0, 3)]


def test_other_events_under_a_header_that_nobody_signed_are_altered() -> None:
    made = world()
    true = made.batches[1]
    forged = made.make(3, true.header.previous, b" forged")
    made.kept["s0"][1] = re_signed(forged, bytes(64))
    assert made.faults() == [("altered", "s0", 3, 3)]


def test_a_forgery_beside_a_good_copy_is_a_forgery_and_the_copy_is_good() -> None:
    made = world()
    forged = made.make(3, made.batches[1].header.previous, b" forged")
    made.kept["s0"].append(re_signed(forged, bytes(64)))
    findings, tallies = made.judge()
    assert [(each.kind, each.accused, each.sequence) for each in findings] == [("bad_signature", "s0", 3)]
    assert (tallies[1].party, tallies[1].good) == ("s0", 3)


def test_another_signature_is_a_bad_one() -> None:
    made = world()
    made.kept["s0"][2] = re_signed(made.batches[2], bytes(64))
    assert made.faults() == [("bad_signature", "s0", 6, 3)]


def test_a_batch_that_was_never_admitted_and_never_signed() -> None:
    made = world()
    made.kept["s1"].append(re_signed(made.make(90, ZERO_DIGEST), bytes(64)))
    assert made.faults() == [("bad_signature", "s1", 90, 3)]


def test_a_signed_batch_that_was_never_admitted_is_a_phantom_once() -> None:
    made = world()
    for party in ("s0", "s1"):
        made.kept[party].append(made.make(9, made.batches[-1].digest()).encode())
    assert made.faults() == [("phantom", "alice", 9, 3)]


def test_two_signed_batches_with_one_number_are_equivocation_once() -> None:
    made = world()
    for party in ("s1", "s2"):
        made.kept[party].append(made.make(3, made.batches[0].digest(), b" other").encode())
    assert made.faults() == [("equivocation", "alice", 3, 3)]


def test_two_phantoms_with_one_number_are_equivocation() -> None:
    made = world(1)
    made.kept["s0"].append(made.make(3, made.batches[0].digest(), b" one").encode())
    made.kept["s1"].append(made.make(4, made.batches[0].digest(), b" two").encode())
    assert made.faults() == [("equivocation", "alice", 4, 3), ("phantom", "alice", 3, 3)]


def test_phantoms_that_follow_one_another_are_phantoms() -> None:
    made = world(1)
    made.kept["s0"].append(made.make(3, made.batches[0].digest()).encode())
    made.kept["s0"].append(made.make(6, made.batches[0].digest()).encode())
    assert made.faults() == [("phantom", "alice", 3, 3), ("phantom", "alice", 6, 3)]


def test_a_header_that_a_party_shows_as_evidence_is_no_copy() -> None:
    made = world(2)
    other = made.make(3, made.batches[0].digest(), b" other")
    registry = Registry("test-chain", dict(read_ledger(made.chain.ledger.genesis, []).registry.keys))
    made.extra = [
        describe(registry, "s0", signed, Condition.HEADER)
        for signed in (made.batches[1].signed, other.signed)
    ]
    del made.kept["s0"][1]
    assert made.faults() == [("withheld", "s0", 3, 3), ("equivocation", "alice", 3, 3)]


def test_evidence_on_the_ledger_is_not_told_twice() -> None:
    made = world(2)
    other = made.make(3, made.batches[0].digest(), b" other")
    made.kept["s0"].append(other.encode())
    made.chain.block(BatchConflict(made.batches[1].signed, other.signed))
    (finding,) = made.judge()[0]
    assert (finding.kind, finding.accused, finding.sequence, finding.height) == (
        "equivocation",
        "alice",
        3,
        4,
    )


def test_what_was_let_go_need_not_be_kept() -> None:
    made = world()
    made.chain.block(made.chain.act("admin", LowWater("orders", 0, 6)))
    made.kept = {party: kept[2:] for party, kept in made.kept.items()}
    assert made.faults() == []
    made.kept["s0"].clear()
    assert made.faults() == [("withheld", "s0", 6, 3)]


def test_a_batch_that_an_admin_gave_up_is_a_hole() -> None:
    made = world()
    hole = Hole("orders", 0, 3, made.batches[1].digest())
    made.chain.block(made.chain.act("admin", hole))
    del made.kept["s0"][1], made.kept["s1"][1]
    assert made.faults() == [("hole", "", 3, 3)]


def test_parties_that_confess_have_withheld() -> None:
    made = world()
    digest = made.batches[1].digest()
    absences = [sign_storage_absence("test-chain", name, digest, 3, key_of(name)) for name in STORAGE]
    made.chain.block(skip(Hole("orders", 0, 3, digest), absences))
    for party in STORAGE:
        del made.kept[party][1]
    assert made.faults() == [("hole", "", 3, 3), ("withheld", "s0", 3, 3), ("withheld", "s1", 3, 3)]


def test_of_a_party_that_cannot_be_read_nothing_is_said_but_that() -> None:
    made = world()
    made.kept["s1"].clear()
    findings, tallies = made.judge(unread=["s1"])
    assert findings == []
    assert tallies[2] == Tally("orders", 0, "alice", "s1", vouched=3, unanswered=3)


def test_a_silent_answer_is_no_withholding() -> None:
    made = world(2)
    del made.kept["s1"][1]
    header = made.batches[1].header
    made.extra = [
        BatchCopy(
            "s1", Condition.SILENT, "orders", 0, "alice", 0, header.first_sequence, 3, header.digest()
        )
    ]
    findings, tallies = made.judge()
    assert findings == []
    assert (tallies[2].copies, tallies[2].good, tallies[2].unanswered) == (1, 1, 1)


# What correct validators never admit: these blocks are made around the ledger's rules.


def admit(*batches: Batch, keys: Sequence[Transaction] = ()) -> World:
    """A world whose ledger has just these batches, whatever its rules say."""
    made = World()
    made.batches = list(batches)
    if keys:
        made.chain.block(*keys)
    for batch in batches:
        encoded = submit(batch.signed, stored(batch)).encode()
        header = made.chain.ledger._next_header([encoded], made.chain.clock_ms, "v0")
        made.chain.blocks.append(type(made.chain.blocks[0])(header, (encoded,)))
        made.chain.ledger.height, made.chain.ledger.last_id = header.height, header.block_id()
        made.chain.ledger.time_ms = header.time_ms
        for party in STORAGE:
            made.kept[party].append(batch.encode())
    return made


def test_missing_numbers_are_a_hole() -> None:
    first = batch_of(b"a", b"b")
    later = batch_of(b"c", sequence=7, previous=first.digest())
    assert admit(first, later).faults() == [("hole", "", 2, 5)]


def test_a_stream_that_does_not_begin_with_0_has_a_hole() -> None:
    assert admit(batch_of(b"a", sequence=4)).faults() == [("hole", "", 0, 4)]


def test_a_batch_that_names_another_one_before_it_is_spliced() -> None:
    assert admit(batch_of(b"a"), batch_of(b"b", sequence=1)).faults() == [("splice", "", 1, 1)]


def test_two_admitted_batches_with_one_number() -> None:
    first = batch_of(b"a", b"b")
    again = batch_of(b"c", sequence=1, previous=first.digest())
    assert admit(first, again).faults() == [("equivocation", "alice", 1, 1)]


def test_the_ledgers_own_bad_signature_is_told_once() -> None:
    assert admit(batch_of(b"a", signer=key_of("mallory"))).faults() == [("bad_signature", "", 0, 1)]


def test_a_key_that_had_ended() -> None:
    chain = Chain()
    revoked = chain.act("admin", RevokeKey("alice", 0), number=9)
    assert admit(batch_of(b"a"), keys=[revoked]).faults() == [("bad_signature", "", 0, 1)]


WRITE = Rule(Resource.TOPIC, "ord*", Operation.WRITE, "bob")


def test_a_batch_that_was_admitted_without_a_right_is_found() -> None:
    chain = Chain()
    granted = chain.act("admin", Grant(WRITE), number=9)
    assert admit(batch_of(b"a"), keys=[granted]).faults() == [("no_right", "", 0, 1)]
    closed = chain.act("admin", SetClosed(True), number=9)
    assert admit(batch_of(b"a"), keys=[closed]).faults() == [("no_right", "", 0, 1)]
    everybody = chain.act("admin", Grant(replace(WRITE, who="*")), number=9)
    assert admit(batch_of(b"a"), keys=[everybody]).faults() == []


def test_rights_are_judged_by_the_block_of_each_batch() -> None:
    made = World()
    chain = made.chain
    rule = replace(WRITE, who="alice")
    made.push(chain.act("admin", Grant(rule)))
    made.push(chain.act("admin", Revoke(rule)))
    chain.block(chain.act("admin", Grant(rule)))
    made.push()
    assert made.faults() == [], "each was admitted with a right in force, though it was revoked between"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_a_party_changes_speaks_against_nobody_else(data: st.DataObject) -> None:
    made = CHANGED
    place = data.draw(st.integers(0, 2))
    true = made.batches[place].encode()
    at, bits = data.draw(st.integers(0, len(true) - 1)), data.draw(st.integers(1, 255))
    changed = true[:at] + bytes((true[at] ^ bits,)) + true[at + 1 :]
    kept = {party: list(batches) for party, batches in made.kept.items()}
    kept["s0"][place] = changed
    try:
        findings, _ = World(made.chain, kept, made.batches).judge()
    except DecodeError:
        return  # what is no batch is told by whoever reads it: `disk`, `network`
    assert findings
    assert {each.accused for each in findings} == {"s0"}
    assert {each.kind for each in findings} <= {"altered", "bad_signature", "withheld"}


CHANGED = world()
