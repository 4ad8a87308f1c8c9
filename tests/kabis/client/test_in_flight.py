"""Many batches in flight: a producer never asks for more than validators of limited speed can do."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import pairwise

import pytest

from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer import outputs
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.outputs import Output
from veristream.kabis.client.producer.window import find_refusal, find_window
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.mempool import Limits, Mempool
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.outcomes import Outcome, Reason, Refused
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import SESSION_BYTES
from veristream.kabis.protocol.receipts import SignedVote, VoteKind, sign_storage_receipt, vote_bytes
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import Author, sign_action
from veristream_testing.simulation.chain import CHAIN, START_MS, check_signature, key_of, make_genesis
from veristream_testing.simulation.votes import certify

PARTITIONS = 8
BLOCK_MS = 40
BLOCK_TRANSACTIONS = 50
SUBMITS_PER_MS = 2
"""What one validator handles of what is submitted to it; the rest waits, as in a busy process."""
LIMIT_MS = 120_000
EVENTS = 3_000


class Ordering:
    """Validators that share a ledger; each has its own queue and limited speed."""

    def __init__(self) -> None:
        self.genesis = make_genesis(4)
        self.ledger = Ledger(self.genesis, check_signature)
        self.mempools = [Mempool(Limits(author_count_max=200)) for _ in self.genesis.validators]
        self.arrived: list[deque[outputs.Submit]] = [deque() for _ in self.mempools]
        author = Author(CHAIN, "admin0", 0, key_of("admin0"))
        topic = sign_action(author, 1, SetTopic("orders", PARTITIONS, validated=True)).encode()
        self.first = self.decide([topic], 1)

    def handle(self, now_ms: int) -> list[tuple[outputs.Submit, str]]:
        """Handles what each validator has time for in a millisecond; returns the refusals."""
        refusals = []
        for mempool, arrived in zip(self.mempools, self.arrived, strict=True):
            for _ in range(min(SUBMITS_PER_MS, len(arrived))):
                wanted = arrived.popleft()
                outcome, _ = mempool.add(wanted.transaction, now_ms, self.judge)
                why = find_refusal(outcome)
                if why:
                    refusals.append((wanted, why))
        return refusals

    def judge(self, encoded: bytes) -> Outcome:
        return self.ledger.preview(encoded, self.ledger.time_ms + 1)

    def decide(self, transactions: list[bytes], now_ms: int) -> CertifiedBlock:
        block = self.ledger.propose(transactions, START_MS + now_ms, "v0")
        self.ledger.apply(block)
        votes = []
        for index in range(3):
            place = (VoteKind.PRECOMMIT, block.header.height, 0, block.block_id())
            votes.append(SignedVote(index, *place, key_of(f"v{index}").sign(vote_bytes(CHAIN, *place))))
        for mempool in self.mempools:
            mempool.decided(block.transactions, self.judge)
        return CertifiedBlock(block, certify(votes))

    def propose(self, now_ms: int) -> CertifiedBlock:
        proposer = self.ledger.height % len(self.mempools)
        return self.decide(list(self.mempools[proposer].candidates(BLOCK_TRANSACTIONS)), now_ms)


class Producing:
    """A producer's core with the world around it, in simulated time."""

    def __init__(self, options: ProducerOptions) -> None:
        self.ordering = Ordering()
        author = Author(CHAIN, "client0", 0, key_of("client0"))
        follower = Follower(self.ordering.genesis, check_signature)
        self.core = ProducerCore(follower, author, options, bytes(SESSION_BYTES), ())
        self.agenda: list[tuple[int, int, Output]] = []
        self.now_ms = self.planned = 0
        self.do(self.core.block(self.ordering.first, 0))
        self.do(self.core.start(0))

    def do(self, wanted: list[Output]) -> None:
        for output in wanted:
            if not isinstance(output, outputs.Settle | outputs.Admitted):
                self.planned += 1
                heappush(self.agenda, (self.now_ms + 2, self.planned, output))

    def push(self, count: int) -> None:
        for number in range(count):
            self.core.push(Record("orders", b"%d" % number, partition=number % PARTITIONS), 0)
        self.do(self.core.flush(0))

    def pass_a_millisecond(self) -> None:
        self.now_ms += 1
        while self.agenda and self.agenda[0][0] <= self.now_ms:
            self.arrive(heappop(self.agenda)[2])
        for wanted, why in self.ordering.handle(self.now_ms):
            self.do(self.core.refused(wanted.place, wanted.digest, why, self.now_ms))
        if self.now_ms % BLOCK_MS == 0:
            self.do(self.core.block(self.ordering.propose(self.now_ms), self.now_ms))
        if self.core.attention or self.core.next_ms <= self.now_ms:
            self.do(self.core.tick(self.now_ms))

    def arrive(self, output: Output) -> None:
        match output:
            case outputs.Write(_, digest):
                self.do(self.core.journaled((digest,), self.now_ms))
            case outputs.Store(party, place, _, digest):
                receipt = sign_storage_receipt(CHAIN, party, digest, key_of(party))
                self.do(self.core.stored(place, party, receipt, self.now_ms))
            case outputs.Submit(validator):
                self.ordering.arrived[validator].append(output)
            case _:
                raise AssertionError(f"unexpected: {output}")

    def finish(self) -> None:
        while self.core.busy:
            self.pass_a_millisecond()
            assert self.now_ms < LIMIT_MS, self.core.counters


@pytest.mark.parametrize("in_flight", [1, 5, 1000])
def test_a_producer_with_many_batches_in_flight_does_not_flood_the_validators(in_flight: int) -> None:
    world = Producing(ProducerOptions(batch_events=1, in_flight=in_flight))
    world.push(EVENTS)
    world.finish()
    counters = world.core.counters
    assert (counters.acknowledged, counters.failed, counters.batches) == (EVENTS, 0, EVENTS)
    assert counters.submits <= 4 * counters.batches, counters
    assert counters.stores == 3 * counters.batches


def test_refusals_are_followed_by_longer_and_longer_waits() -> None:
    options = ProducerOptions(batch_events=1, retry_ms=100, submit_timeout_ms=2_000)
    world = Producing(options)
    world.ordering.handle = lambda now_ms: []  # type: ignore[method-assign]
    world.push(1)
    submits: list[int] = []
    for _ in range(20_000):
        world.pass_a_millisecond()
        for arrived in world.ordering.arrived:
            for wanted in arrived:
                submits.append(world.now_ms)
                world.do(world.core.refused(wanted.place, wanted.digest, "no", world.now_ms))
            arrived.clear()
    times = sorted(set(submits))
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert all(later >= earlier for earlier, later in pairwise(waits)), waits
    assert waits[0] <= 110 and 2_000 <= waits[-1] <= 2_010


def test_a_refusal_of_a_batch_that_is_gone_changes_nothing() -> None:
    world = Producing(ProducerOptions(batch_events=1))
    world.push(8)
    world.finish()
    assert world.core.refused(PartitionName("orders", 0), bytes(32), "no", world.now_ms) == []


def test_a_batch_that_a_validator_keeps_is_not_refused() -> None:
    assert find_refusal(Refused(Reason.EARLY)) == ""
    assert "limit" in find_refusal(Refused(Reason.TOO_MANY))


@pytest.mark.parametrize("partitions", [1, 8, 100, 10_000])
def test_every_partition_moves_and_all_together_not_too_much(partitions: int) -> None:
    window = find_window(partitions)
    assert window >= 1 and window * min(partitions, 100) <= 512
