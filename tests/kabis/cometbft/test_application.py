"""The application that judges what CometBFT orders, asked as a node asks it: in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

import pytest

from tests.kabis.chain import CHAIN, VALIDATORS, Chain, batch_of, key_of, make_genesis, submitted
from veristream.kabis.cometbft import abci
from veristream.kabis.cometbft.application import (
    WAITING_BLOCKS_MAX,
    Application,
    CometStatus,
    DecidedWrongError,
    Place,
    Places,
    address_of,
)
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.requests import Accused, Evidence, Read, decode_outcome
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX, Block, BlockHeader
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.cometbft_certificate import encode_anchor
from veristream.kabis.protocol.genesis import Genesis, StorageMode
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Reason, Refused
from veristream.kabis.protocol.protobuf import Message, decode, encode_bytes, encode_integer, encode_message

GENESIS = make_genesis()
START_NS = 2_000_000_000_000
V0 = address_of(key_of(VALIDATORS[0]).public)


def message_of(response: bytes) -> Message:
    """An answer without its length and its kind."""
    outer = decode(response[1 if response[0] < 128 else 2 if response[1] < 128 else 3 :])
    return outer.message(next(iter(outer.blobs)))


@dataclass
class Node:
    """Asks the application in bytes, as CometBFT does."""

    application: Application = field(default_factory=lambda: Application(lambda: 0))
    height: int = 0

    def ask(self, number: int, body: bytes = b"") -> Message:
        request = abci.decode_request(encode_message(number, body))
        return message_of(abci.encode_response(self.application.handle(request)))

    def begin(self, chain_id: str = CHAIN, powers: tuple[int, ...] = (1, 1, 1, 1)) -> Message:
        keys = [key_of(name).public for name in VALIDATORS]
        validators = b"".join(
            encode_message(4, encode_message(1, encode_bytes(1, key)) + encode_integer(2, power))
            for key, power in zip(keys, powers, strict=True)
        )
        return self.ask(5, encode_bytes(2, chain_id.encode()) + validators)

    def check(self, transaction: bytes, *, again: bool = False) -> tuple[int, object]:
        answer = self.ask(8, encode_bytes(1, transaction) + encode_integer(2, int(again)))
        return answer.integer(1), decode_outcome(answer.blob(2))

    def _ordered(self, transactions: tuple[bytes, ...], number: int) -> bytes:
        time_ns = START_NS + self.height * 1_000_000_000
        return (
            b"".join(encode_message(number, each) for each in transactions)
            + encode_integer(5, self.height + 1)
            + encode_message(6, encode_integer(1, time_ns // 10**9) + encode_integer(2, time_ns % 10**9))
            + encode_bytes(8, V0)
        )

    def prepare(self, *transactions: bytes) -> tuple[bytes, ...]:
        return self.ask(16, self._ordered(transactions, 2)).each(1)

    def process(self, *transactions: bytes) -> bool:
        return self.ask(17, self._ordered(transactions, 1)).integer(1) == 1

    def finalize(self, *transactions: bytes) -> bytes:
        answer = self.ask(20, self._ordered(transactions, 1))
        self.height += 1
        assert answer.each(2) == (b"",) * len(transactions)
        self.ask(11)
        return answer.blob(5)

    def query(self, path: str, data: bytes = b"") -> bytes:
        answer = self.ask(6, encode_bytes(1, data) + encode_bytes(2, path.encode()))
        assert answer.integer(1) == 0, answer.text(3)
        return answer.blob(7)


def founded() -> Node:
    node = Node()
    node.begin()
    node.finalize(GENESIS.encode())
    return node


def topic(chain: Chain, name: str = "orders") -> bytes:
    return chain.act("admin", SetTopic(name, 1, validated=True)).encode()


def test_the_first_transaction_is_the_genesis() -> None:
    node = Node()
    assert node.begin().blob(3) == b""
    code, outcome = node.check(topic(Chain()))
    assert (code, str(outcome).partition(", and")[0]) == (
        1,
        "it is for another chain: the chain has no genesis yet",
    )
    assert node.check(GENESIS.encode()) == (0, Done())
    assert node.prepare(topic(Chain()), GENESIS.encode(), GENESIS.encode()) == (GENESIS.encode(),)
    assert not node.process(topic(Chain()))
    assert not node.process(GENESIS.encode(), GENESIS.encode())
    assert node.process(GENESIS.encode())
    assert node.finalize() == b""
    assert node.finalize(GENESIS.encode()) == encode_anchor(0, GENESIS.digest())
    assert node.check(GENESIS.encode()) == (1, Already())
    assert CometStatus.decode(node.query("/status")) == CometStatus(0, GENESIS.digest(), GENESIS.digest())


@pytest.mark.parametrize(
    ("genesis", "chain_id", "powers", "problem"),
    [
        (GENESIS, "another", (1, 1, 1, 1), "CometBFT's chain is another"),
        (GENESIS, CHAIN, (1, 1, 1, 2), "CometBFT's validators have different powers"),
        (
            Genesis(
                *(
                    CHAIN,
                    1,
                    0,
                    StorageMode.TOLERANT,
                    GENESIS.validators[:1],
                    GENESIS.storage,
                    GENESIS.admins,
                )
            ),
            CHAIN,
            (1, 1, 1, 1),
            "CometBFT has other validators",
        ),
    ],
)
def test_a_genesis_that_is_not_the_nodes_own_founds_nothing(
    genesis: Genesis, chain_id: str, powers: tuple[int, ...], problem: str
) -> None:
    node = Node()
    node.begin(chain_id, powers)
    assert node.check(genesis.encode()) == (1, Refused(Reason.OTHER_CHAIN, problem))
    assert not node.process(genesis.encode())


def test_a_block_is_voted_for_only_if_all_of_it_takes_effect() -> None:
    node, chain = founded(), Chain()
    first, second = topic(chain), topic(chain, "logs")
    assert node.process()
    assert node.process(first, second)
    assert not node.process(second, first)
    assert not node.process(first, first)
    assert not node.process(first, b"junk")
    assert node.prepare(b"junk", first, first, second) == (first, second)


def test_a_block_with_transactions_is_one_of_ours_and_an_empty_one_is_none() -> None:
    node, chain = founded(), Chain()
    anchor = encode_anchor(0, GENESIS.digest())
    assert node.finalize() == anchor
    first, second = topic(chain), topic(chain, "logs")
    one = node.finalize(first)
    assert one != anchor
    assert node.finalize() == one
    two = node.finalize(second)

    ledger = Ledger(GENESIS)
    found = Places.decode(node.query("/places", Read(1, 9, 0, 0).encode()))
    assert [place.comet_height for place in found.places] == [3, 5]
    assert found.comet_height == 5
    for place, transaction, hashed in zip(found.places, (first, second), (one, two), strict=True):
        block = Block(place.header, (transaction,))
        assert ledger.apply(block) == (Done(),)
        assert encode_anchor(ledger.height, block.block_id()) == hashed
    assert [place.header.time_ms for place in found.places] == [2_002_000, 2_004_000]
    assert [place.header.proposer for place in found.places] == ["v0", "v0"]


def test_some_of_the_places() -> None:
    node, chain = founded(), Chain()
    for number in range(5):
        node.finalize(topic(chain, f"topic-{number}"))

    def read(first: int, last: int) -> Places:
        return Places.decode(node.query("/places", Read(first, last, 0, 0).encode()))

    assert [place.header.height for place in read(2, 4).places] == [2, 3, 4]
    assert read(6, 9).places == ()


def test_what_a_node_expects_of_a_transaction() -> None:
    node, chain = founded(), Chain()
    created = topic(chain)
    assert decode_outcome(node.query("/outcome", created)) == Done()
    node.finalize(created)
    assert decode_outcome(node.query("/outcome", created)) == Already()
    assert node.check(created) == (1, Already())
    batch = batch_of(b"one", b"two")
    assert node.check(submitted(batch).encode()) == (0, Admitted(0, 2))
    assert node.check(b"junk")[0] == 1
    large = bytes(TRANSACTION_BYTES_MAX + 1)
    assert node.check(large) == (1, Refused(Reason.MALFORMED, "131073 bytes; at most 131072 are allowed"))


def test_a_batch_whose_predecessor_is_missing_waits_for_a_while() -> None:
    node, chain = founded(), Chain()
    node.finalize(topic(chain))
    first = batch_of(b"one")
    second = batch_of(b"two", sequence=1, previous=first.digest())
    early = submitted(second).encode()
    assert node.check(early) == (0, Refused(Reason.EARLY, "1"))
    assert node.prepare(early) == ()
    assert node.prepare(early, submitted(first).encode()) == (submitted(first).encode(), early)
    for _ in range(WAITING_BLOCKS_MAX):
        node.finalize()
        assert node.check(early, again=True)[0] == 0
    node.finalize()
    assert node.check(early, again=True) == (1, Refused(Reason.EARLY, "1"))
    assert node.check(early)[0] == 0
    node.finalize(submitted(first).encode())
    assert node.check(early, again=True) == (0, Admitted(1, 1))


def test_a_block_against_the_rules_stops_the_application() -> None:
    node, chain = founded(), Chain()
    created = topic(chain)
    with pytest.raises(DecidedWrongError, match="block 2 of test-chain"):
        node.finalize(created, created)


def test_a_validator_that_cometbft_caught_is_evidence_once() -> None:
    node = founded()
    caught = encode_integer(1, 1) + encode_message(2, encode_bytes(1, V0) + encode_integer(3, 1))
    stranger = encode_integer(1, 1) + encode_message(2, encode_bytes(1, bytes(20)))
    for _ in range(2):
        body = encode_integer(5, node.height + 1) + encode_message(3, caught) + encode_message(3, stranger)
        node.ask(20, body)
        node.height += 1
    accused = Accused("validator", "v0", 0, sha256(caught).digest())
    assert Evidence.decode(node.query("/evidence")) == Evidence((accused,), 1)


def test_a_node_that_starts_anew_gives_all_blocks_again() -> None:
    node, chain = founded(), Chain()
    blocks = [(GENESIS.encode(),), (topic(chain),), (), (topic(chain, "logs"),)]
    for transactions in blocks[1:]:
        node.finalize(*transactions)
    again = Node()
    assert again.ask(3).integer(4) == 0
    again.begin()
    for transactions in blocks:
        again.finalize(*transactions)
    assert again.ask(3).blob(5) == node.ask(3).blob(5) != b""
    assert again.ask(3).integer(4) == 4


@pytest.mark.parametrize(("path", "data"), [("/nothing", b""), ("/places", b"junk")])
def test_a_question_that_has_no_answer(path: str, data: bytes) -> None:
    answer = founded().ask(6, encode_bytes(1, data) + encode_bytes(2, path.encode()))
    assert (answer.integer(1), answer.blob(7)) == (1, b"")
    assert answer.text(3)


def test_before_the_genesis_there_is_nothing_to_tell() -> None:
    node = Node()
    node.begin()
    assert node.ask(6, encode_bytes(2, b"/status")).text(3) == "the chain has no genesis yet"


def test_echo_flush_and_snapshots() -> None:
    node = Node()
    assert node.ask(1, encode_bytes(1, b"again")).blob(1) == b"again"
    assert node.ask(2) == Message()
    assert node.ask(12) == Message()


def _example(kind: type[Coded]) -> Coded:
    header = BlockHeader(CHAIN, 1, 2, bytes(32), "v0", 0, bytes(32), bytes(32))
    if kind is Places:
        return Places(7, (Place(3, header),))
    return CometStatus(1, bytes(32), b"\1" * 32)


@pytest.mark.parametrize("kind", [Places, CometStatus])
def test_answers_are_read_back_as_they_were(kind: type[Coded]) -> None:
    assert kind.decode(_example(kind).encode()) == _example(kind)
