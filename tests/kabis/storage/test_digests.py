"""The table of digests against a plain dictionary, and what an indexed batch takes in memory."""

from __future__ import annotations

import gc
import tracemalloc
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.chain import chain_with_topic, key_of, submitted
from tests.kabis.storage.test_chain import batches, view_of
from tests.kabis.strategies import patient
from veristream.kabis.protocol.actions import LowWater
from veristream.kabis.protocol.answers import Absent
from veristream.kabis.protocol.transactions import _decode_cached
from veristream.kabis.storage.admission import Gate, WaitingLimits
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.digests import DigestTable
from veristream_testing.simulation.memory_log import MemoryLog
from veristream_testing.storage_client import fetch_digest

DIGESTS = [sha256(bytes([number])).digest() for number in range(60)]
ALIKE = [bytes(15) + bytes([number]) + bytes(16) for number in range(60)]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from(DIGESTS + ALIKE), st.integers(0, 200)),
    max_size=300,
)


@patient
@given(steps=STEPS)
def test_it_is_a_dictionary(steps: list[tuple[str, bytes, int]]) -> None:
    table, plain = DigestTable(), {}
    for word, digest, position in steps:
        if word == "put":
            table.put(digest, position)
            plain[digest] = position
        else:
            table.remove({position})
            plain = {key: value for key, value in plain.items() if value != position}
        assert len(table) == len(plain)
    assert sorted(table.positions()) == sorted(plain.values())
    for digest in (*DIGESTS, *ALIKE):
        assert table.get(digest) == plain.get(digest)
        assert (digest in table) is (digest in plain)


def test_positions_that_repeat_and_grow() -> None:
    table = DigestTable()
    for number in range(5000):
        table.put(sha256(number.to_bytes(4, "big")).digest(), number)
    assert len(table) == 5000
    table.remove(range(4990))
    assert sorted(table.positions()) == list(range(4990, 5000))
    assert table.get(sha256((4995).to_bytes(4, "big")).digest()) == 4995


class NoBytes(MemoryLog):
    """A log that keeps nothing, so that only the indexes are measured."""

    def append(self, *parts: object) -> int:
        self._records.append(b"")
        return self.end - 1


BATCHES = 6000
BATCH_BYTES_MAX = 200
"""What a party holds in memory for a batch that was admitted: 800 before."""


def check_nothing(public: bytes, message: bytes, signature: bytes) -> None:
    """Signatures take most of the time and none of the memory."""


def test_an_admitted_batch_takes_few_bytes_and_a_released_one_none() -> None:
    chain = chain_with_topic()
    made = batches(BATCHES, size=1)
    for begin in range(0, BATCHES, 500):
        chain.block(*map(submitted, made[begin : begin + 500]))
    encoded = [each.encode() for each in made]
    log = NoBytes()
    tracemalloc.start()
    try:
        gate = Gate(view_of(chain), WaitingLimits(producer_batches=BATCHES))
        gate.view.is_current = True
        core = StorageCore(chain.ledger.genesis, "s0", key_of("s0"), log, check_nothing, gate)
        for data in encoded:
            core.store(data, "alice", key_of("alice").public)
        core.settle()
        _decode_cached.cache_clear()  # a cache of bounded size
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - 8 * BATCHES  # the log's own list
        assert held < BATCH_BYTES_MAX * BATCHES, held / BATCHES
        chain.block(chain.act("admin", LowWater("orders", 0, BATCHES)))
        gate.view = view_of(chain)
        core.let_go(gate.view.marks)
        log.sync()
        core.retain()
        _decode_cached.cache_clear()
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
        assert left < 60_000, "what is released takes nothing"
    finally:
        tracemalloc.stop()
    assert fetch_digest(core, made[-1].digest()) == Absent()
