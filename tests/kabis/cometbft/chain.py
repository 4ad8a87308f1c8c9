"""A CometBFT chain in memory: what its nodes' RPC says is signed as CometBFT signs it.

That the encodings are CometBFT's own is shown by `test_certificate`, on what a real node said, and by
`tests/brokers`. Here the nodes may lie.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kabis.chain import CHAIN, VALIDATORS, key_of, make_genesis, party
from veristream.kabis.cometbft import abci
from veristream.kabis.cometbft.application import Application, address_of
from veristream.kabis.cometbft.client import CometOrdering
from veristream.kabis.cometbft.headers import encode_fields, read_time
from veristream.kabis.cometbft.rpc import Call, NodeError
from veristream.kabis.protocol.cometbft_certificate import Votes
from veristream.kabis.protocol.genesis import Genesis, Party
from veristream.kabis.protocol.merkle import compute_root, hash_leaves

GENESIS = make_genesis()
START_NS = 2_000_000_000_000
VOTED_AT = "1970-01-01T01:00:00.000000007Z"
Lie = Callable[[Call, Any], Any]
"""What becomes of an answer on its way."""


@dataclass
class CometChain:
    """One application that stands for all, the blocks, and the headers with their votes."""

    application: Application = field(default_factory=lambda: Application(lambda: 0))
    transactions: list[tuple[bytes, ...]] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)
    _hash: bytes = b""

    def __post_init__(self) -> None:
        validators = tuple((key_of(name).public, 1) for name in VALIDATORS)
        self.application.handle(abci.InitChain(CHAIN, validators))

    def decide(self, *transactions: bytes) -> None:
        """A block of these, and the empty one that certifies it."""
        self._decide(transactions)
        self._decide(())

    def _decide(self, transactions: tuple[bytes, ...]) -> None:
        height = len(self.commits) + 1
        header = make_header(height, self._hash)
        self.commits.append({"signed_header": {"header": header, "commit": make_commit(header)}})
        self.transactions.append(transactions)
        ordered = abci.Ordered(
            height, START_NS + height * 10**9, address_of(key_of("v0").public), transactions
        )
        finalized = self.application.handle(abci.Finalize(ordered))
        assert isinstance(finalized, abci.Finalized)
        self._hash = finalized.hash

    def answer(self, call: Call) -> Any:
        """The result of a call, as an honest node gives it."""
        given = dict(call.parameters)
        match call.method:
            case "abci_query":
                asked = abci.Query(str(given["path"]), bytes.fromhex(str(given["data"])))
                answered = self.application.handle(asked)
                assert isinstance(answered, abci.Answered)
                value = b64encode(answered.value).decode()
                return {
                    "response": {
                        "code": int(bool(answered.problem)),
                        "log": answered.problem,
                        "value": value,
                    }
                }
            case "broadcast_tx_sync":
                transaction = b64decode(str(given["tx"]))
                if transaction in self.waiting:
                    raise NodeError(-32603, "tx already exists in cache")
                checked = self.application.handle(abci.CheckTransaction(transaction, again=False))
                assert isinstance(checked, abci.Checked)
                if not checked.problem:
                    self.waiting.append(transaction)
                return {"code": int(bool(checked.problem)), "data": checked.outcome.hex()}
            case "block":
                listed = self.transactions[int(str(given["height"])) - 1]
                return {"block": {"data": {"txs": [b64encode(each).decode() for each in listed]}}}
            case "commit":
                return self.commits[int(str(given["height"])) - 1]
            case other:
                raise AssertionError(f"nobody asks for {other}")

    def ordering(self, lies: dict[int, Lie], preferred: int = 0) -> CometOrdering:
        """A client of four nodes, of which these lie; it asks the preferred one first."""
        validators = tuple(Party(name, party(name).public, "http://127.0.0.1:1") for name in VALIDATORS)
        ordering = CometOrdering(with_validators(validators))
        ordering._nodes = [FakeNode(self, lies.get(number)) for number in range(4)]  # type: ignore[misc]
        ordering._preferred = preferred
        return ordering


def with_validators(validators: tuple[Party, ...]) -> Genesis:
    """The same genesis, with addresses."""
    return Genesis(
        *(GENESIS.chain_id, GENESIS.time_ms, GENESIS.faults, GENESIS.storage_mode, validators),
        *(GENESIS.storage, GENESIS.admins, GENESIS.clients),
    )


@dataclass
class FakeNode:
    """A node of the chain, perhaps with a lie in its answers."""

    chain: CometChain
    lie: Lie | None = None
    asked: list[str] = field(default_factory=list)

    async def call(self, call: Call, timeout_s: float) -> Any:
        return (await self.call_all((call,), timeout_s))[0]

    async def call_all(self, calls: Sequence[Call], timeout_s: float) -> list[Any]:
        self.asked += [call.method for call in calls]
        honest = [self.chain.answer(call) for call in calls]
        return [
            self.lie(call, each) if self.lie else each for call, each in zip(calls, honest, strict=True)
        ]


def make_header(height: int, anchor: bytes) -> dict[str, Any]:
    """A header as the RPC shows it; only what our certificates lean on has a meaning here."""
    other = "AB" * 32
    return {
        "version": {"block": "11"},
        "chain_id": CHAIN,
        "height": str(height),
        "time": "1970-01-01T00:33:20Z",
        "last_block_id": {"hash": other, "parts": {"total": 1, "hash": other}},
        **dict.fromkeys(
            (
                *("last_commit_hash", "data_hash", "validators_hash", "next_validators_hash"),
                *("consensus_hash", "last_results_hash", "evidence_hash"),
            ),
            other,
        ),
        "app_hash": anchor.hex().upper(),
        "proposer_address": address_of(key_of("v0").public).hex().upper(),
    }


def make_commit(header: dict[str, Any], voters: Sequence[str] = VALIDATORS[:3]) -> dict[str, Any]:
    """The votes of some validators for a header; the others voted for nothing."""
    hashed = compute_root(hash_leaves(encode_fields(header)))
    votes = Votes(int(header["height"]), 0, hashed, 1, b"\1" * 32, ())
    signatures = [
        {
            "block_id_flag": 2,
            "validator_address": address_of(key_of(name).public).hex().upper(),
            "timestamp": VOTED_AT,
            "signature": b64encode(key_of(name).sign(votes.message(CHAIN, read_time(VOTED_AT)))).decode(),
        }
        for name in voters
    ]
    absent = {"block_id_flag": 1, "validator_address": "", "timestamp": VOTED_AT, "signature": None}
    return {
        "height": header["height"],
        "round": 0,
        "block_id": {"hash": hashed.hex().upper(), "parts": {"total": 1, "hash": "01" * 32}},
        "signatures": [*signatures, absent],
    }
