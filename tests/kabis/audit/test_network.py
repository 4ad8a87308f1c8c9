"""Asking a storage party that may give anything: what is described is what it gave, and it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from tests.kabis.audit.here import read_ledger
from tests.kabis.chain import batch_of, make_genesis
from veristream.errors import EnvironmentFailure
from veristream.kabis.audit import network
from veristream.kabis.audit.check import BatchCopy, Condition
from veristream.kabis.audit.network import Asking, BatchRequest
from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.batch import Batch, SignedHeader
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.connection import RequestError

REGISTRY = read_ledger(make_genesis(), []).registry
PER_ANSWER = 2


def chain(count: int, word: bytes = b"") -> list[Batch]:
    """Batches of two events each, one after the other."""
    made: list[Batch] = []
    for number in range(count):
        previous = made[-1].digest() if made else ZERO_DIGEST
        made.append(batch_of(b"a" + word, b"b" + word, sequence=2 * number, previous=previous))
    return made


class Party:
    """A storage party in memory, as a client sees it; `asked` counts the questions."""

    name = "s0"

    def __init__(
        self, kept: Sequence[Batch], pairs: Sequence[tuple[SignedHeader, SignedHeader]] = ()
    ) -> None:
        self.kept, self.pairs, self.asked = list(kept), tuple(pairs), 0

    async def fetch_range(
        self, stream: StreamName, first_sequence: int, bytes_max: int
    ) -> tuple[bytes, ...] | Below:
        self.asked += 1
        found = [batch for batch in self.kept if batch.header.next_sequence > first_sequence]
        return tuple(batch.encode() for batch in found[:PER_ANSWER])

    async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
        self.asked += 1
        found = [batch.encode() for batch in self.kept if batch.digest() == digest]
        return found[0] if found else Absent()

    async def evidence(self, topic: str) -> tuple[tuple[SignedHeader, SignedHeader], ...]:
        return self.pairs


def wanted(batches: Sequence[Batch], is_last: bool = True) -> list[BatchRequest]:
    return [
        BatchRequest(
            "s0",
            "orders",
            0,
            "alice",
            0,
            0,
            batch.header.first_sequence,
            batch.header.count,
            batch.digest(),
            batch.header.first_sequence,
            is_last and batch is batches[-1],
        )
        for batch in batches
    ]


def ask(party: Party, *runs: Sequence[BatchRequest]) -> list[BatchCopy]:
    """What comes of asking for runs of batches, one after the other."""

    async def gather() -> list[BatchCopy]:
        asking = Asking(cast("StorageClient", party), REGISTRY)
        return [each for run in runs for each in [found async for found in asking.ask(run)]]

    return asyncio.run(gather())


def described(found: Sequence[BatchCopy]) -> list[tuple[int, str]]:
    return [(each.sequence, each.condition) for each in found]


def test_an_honest_party_gives_all_of_it() -> None:
    batches = chain(5)
    party = Party(batches)
    found = ask(party, wanted(batches))
    assert described(found) == [(0, "whole"), (2, "whole"), (4, "whole"), (6, "whole"), (8, "whole")]
    assert all(each.signed for each in found)
    assert party.asked == 4, "three ranges, and one that is empty"


def test_what_is_behind_the_last_admitted_batch_is_seen_and_what_is_behind_a_part_is_not() -> None:
    batches = chain(5)
    assert described(ask(Party(batches), wanted(batches[:3])))[3:] == [(6, "whole"), (8, "whole")]
    assert len(ask(Party(batches), wanted(batches[:3], is_last=False))) == 3


def test_a_batch_that_a_range_leaves_out_is_asked_for_by_its_digest() -> None:
    """Of two with one sequence number a party's range gives the one that came first."""
    batches = chain(3)
    other = batch_of(b"other", b"one", sequence=2, previous=batches[0].digest())

    class First(Party):
        async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
            assert digest == batches[1].digest()
            return batches[1].encode()

    party = First([batches[0], other, batches[2]])
    found = ask(party, wanted(batches))
    assert [each.digest for each in found] == [
        each.digest() for each in (batches[0], other, batches[2], batches[1])
    ]


def test_evidence_is_described_as_headers_of_this_stream() -> None:
    batches = chain(2)
    other = batch_of(b"other", sequence=2)
    elsewhere = batch_of(b"else", partition=1)
    pairs = [(batches[1].signed, other.signed), (elsewhere.signed, elsewhere.signed)]
    found = ask(Party(batches, pairs), wanted(batches))
    assert described(found)[2:] == [(2, "header"), (2, "header")]
    assert [each.digest for each in found[2:]] == [batches[1].digest(), other.digest()]


def test_rubbish_in_a_range_is_passed_over_and_each_batch_asked_for() -> None:
    class Rubbish(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            return (b"rubbish", batch_of(b"x", topic="another").encode())

    batches = chain(3)
    assert described(ask(Rubbish(batches), wanted(batches))) == [(0, "whole"), (2, "whole"), (4, "whole")]


@pytest.mark.parametrize("answer", [b"rubbish", chain(1, b" other")[0].encode(), LyingPartyError("lie")])
def test_another_answer_than_the_batch_that_was_asked_for_is_altered(answer: bytes | Exception) -> None:
    class Liar(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            raise LyingPartyError("an answer that cannot be read")

        async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
            if isinstance(answer, Exception):
                raise answer
            return answer

    (found,) = ask(Liar([]), wanted(chain(1)))
    assert (found.condition, found.digest) == (Condition.ALTERED, chain(1)[0].digest())


def test_below_and_absent_are_nothing() -> None:
    class Forgetful(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            return Below(100)

    assert ask(Party([]), wanted(chain(2))) == []
    assert ask(Forgetful([]), wanted(chain(2))) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("offset 7 is\ndamaged", "offset 7 is damaged"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
    ],
)
def test_a_party_that_cannot_read_one_batch_gives_the_others_and_says_why(words: str, told: str) -> None:
    batches = chain(3)

    class Damaged(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            raise RequestError(words)

        async def fetch_bytes(self, digest: bytes) -> bytes | Absent | Below:
            if digest == batches[1].digest():
                raise RequestError(words)
            return await super().fetch_bytes(digest)

    found = ask(Damaged(batches), wanted(batches))
    assert described(found) == [(0, "whole"), (2, "refused"), (4, "whole")]
    assert (found[1].digest, found[1].detail) == (batches[1].digest(), told)


def test_a_party_that_gives_the_same_for_ever_comes_to_an_end() -> None:
    batches = chain(3)

    class Same(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            return (batches[0].encode(),)

    assert described(ask(Same(batches), wanted(batches)))[-2:] == [(2, "whole"), (4, "whole")]


def test_a_party_that_makes_batches_up_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "UNADMITTED_MAX", 7)

    class Endless(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            return (batch_of(b"x", sequence=first_sequence).encode(),)

    found = ask(Endless([]), wanted(chain(1)))
    assert [each.sequence for each in found] == list(range(9)), "two in the part, and seven behind it"


def test_a_party_that_is_silent_once_is_not_asked_again() -> None:
    class Silent(Party):
        async def fetch_range(
            self, stream: StreamName, first_sequence: int, bytes_max: int
        ) -> tuple[bytes, ...] | Below:
            self.asked += 1
            raise TimeoutError

    batches, party = chain(4), Silent([])
    found = ask(party, wanted(batches[:2]), wanted(batches[2:]))
    assert described(found) == [(0, "silent"), (2, "silent"), (4, "silent"), (6, "silent")]
    assert party.asked == 1


def test_blocks_that_nobody_returns_are_an_error_that_names_pruning() -> None:
    class Pruned:
        async def read(self, first: int, last: int) -> list[CertifiedBlock]:
            return []

    with pytest.raises(EnvironmentFailure, match="no validator returns block 7") as caught:
        asyncio.run(network._read(cast(Validators, Pruned()), 7, 9, patience_s=0.0))
    assert "keep_blocks" in caught.value.hint
