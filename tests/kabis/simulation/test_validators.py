"""Whole validators, with ledgers and real keys, under loss, partitions and restarts.

The consensus has its own simulation; here it is about what is around it: transactions, idling, catching up.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.kabis.chain import Chain, batch_of, submitted
from tests.kabis.ordering.network import Network
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.outcomes import Admitted, Done

SEEDS = int(os.environ.get("VERISTREAM_SEEDS", "200")) // 20
BATCHES = 6


class Storm(Network):
    """A network that loses and reorders messages, cuts validators off and restarts them, for a while."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"validators/{seed}")
        self.over = False
        self.cut_off: set[int] = set()
        super().__init__()

    def settle(self) -> None:
        if self.over:
            super().settle()
            return
        for _ in range(60):
            if not self.messages:
                return
            sender, receiver, message = self.messages.popleft()
            is_cut_off = (sender in self.cut_off) != (receiver in self.cut_off)
            if not is_cut_off and self.random.random() > 0.1:
                self.deliver(sender, receiver, message)
        self.random.shuffle(self.messages)

    def strike(self) -> None:
        """Something happens."""
        self.cut_off = set(self.random.sample(range(4), self.random.choice((0, 0, 1, 2))))
        if self.random.random() < 0.3:
            node = self.random.choice(self.nodes)
            node.restart()
            self.timeouts = [timer for timer in self.timeouts if timer[1] != node.index]
            self.do(node.index, node.validator.begin(self.now_ms))


def make_batches() -> list[Batch]:
    batches = [batch_of(b"0")]
    for number in range(1, BATCHES):
        batches.append(batch_of(b"%d" % number, sequence=number, previous=batches[-1].digest()))
    return batches


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_that_is_submitted_is_admitted_once_everywhere(seed: int) -> None:
    storm = Storm(seed)
    topic = Chain().act("admin", SetTopic("orders", 2, validated=True), number=1).encode()
    transactions = [topic, *(submitted(batch).encode() for batch in make_batches())]
    for encoded in transactions:
        storm.submit(storm.random.randrange(4), encoded)
        storm.strike()
        storm.pass_time(storm.random.choice((50, 500, 1_000)))
    storm.over, storm.cut_off = True, set()
    for encoded in transactions:  # who restarted has forgotten what it was given: clients submit again
        for index in range(2):
            storm.submit(index, encoded)
        storm.pass_time(1_000)
    storm.pass_time(10_000)
    assert min(storm.heights) >= 1 and len(set(storm.heights)) == 1 and len(storm.states()) == 1
    for node in storm.nodes:
        blocks = [committed.block for committed in node.committed]
        assert [block.header.height for block in blocks] == list(range(1, len(blocks) + 1))
        effects = [effect for committed in node.committed for effect in committed.effects]
        assert effects == [Done(), *(Admitted(number, 1) for number in range(BATCHES))]
        assert not node.accused
