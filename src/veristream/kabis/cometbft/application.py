"""The ABCI application of every CometBFT node: our ledger, which validates what the nodes order.

It makes CometBFT's validators behave like ours: none votes for a block with a transaction that does not
take effect on its own ledger. Each CometBFT block with transactions is one of our blocks. Empty CometBFT
blocks are not, so heights differ, and the application reports the CometBFT height of each of our blocks.

The first transaction *founds* the chain: it is our genesis, which must have the chain id and validators of
the CometBFT chain. All other transactions are rejected until then.

Nothing is stored: when a node starts, it replays all blocks to its application.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, assert_never

from veristream.kabis.cometbft import abci
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.requests import Accused, Evidence, Read, encode_outcome, list_accused
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX, Block, BlockHeader
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.cometbft_certificate import encode_anchor
from veristream.kabis.protocol.fields import U64, Digest, at_most
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import NOT_YET, Already, Done, Outcome, Reason, Refused

WAITING_BLOCKS_MAX = 50
"""How many CometBFT blocks a transaction may wait for its predecessor."""
PLACES_MAX = 1000
ADDRESS_BYTES = 20


class DecidedWrongError(Exception):
    """An invalid block was decided: more than a third of the validators are faulty."""


@dataclass(frozen=True, slots=True)
class Place(Coded, kind="cometbft-place"):
    """Our header, and the height of the CometBFT block with its transactions."""

    comet_height: U64
    header: BlockHeader


@dataclass(frozen=True, slots=True)
class Places(Coded, kind="cometbft-places"):
    """CometBFT heights of some of our blocks, and the node's own CometBFT height."""

    comet_height: U64
    places: Annotated[tuple[Place, ...], at_most(PLACES_MAX)]


@dataclass(frozen=True, slots=True)
class CometStatus(Coded, kind="cometbft-status"):
    """Status of a node's application: our height, our last block, and the digest of the genesis."""

    height: U64
    block_id: Digest
    founding: Digest


def address_of(public: bytes) -> bytes:
    """Returns CometBFT's address of the validator with this key."""
    return sha256(public).digest()[:ADDRESS_BYTES]


@dataclass(slots=True)
class Application:
    """A node's application; `handle` answers requests in order.

    The clock only affects the expected outcome of transactions that are not in a block yet.
    """

    clock_ms: Callable[[], int]
    chain_id: str = ""
    validators: tuple[tuple[bytes | None, int], ...] = ()
    ledger: Ledger | None = None
    comet_height: int = 0
    places: list[Place] = field(default_factory=list)
    _names: dict[bytes, str] = field(default_factory=dict)
    _caught: dict[str, Accused] = field(default_factory=dict)
    _waiting: dict[bytes, int] = field(default_factory=dict)  # since this CometBFT height

    def handle(self, request: abci.Request) -> abci.Response:
        """Answers a request; raises DecidedWrongError if it cannot continue."""
        match request:
            case abci.Echo(text):
                return abci.Echoed(text)
            case abci.Flush():
                return abci.Flushed()
            case abci.Info():
                return abci.Informed(self.comet_height, self._hash())
            case abci.InitChain(chain_id, validators):
                self.chain_id, self.validators = chain_id, validators
                return abci.Initialised(self._hash())
            case abci.Query(path, data):
                return self._answer(path, data)
            case abci.CheckTransaction(transaction, again):
                return self._check(transaction, again=again)
            case abci.Prepare(candidates):
                return abci.Prepared(self._select(candidates))
            case abci.Process(proposed):
                return abci.Processed(self._select(proposed) == proposed.transactions)
            case abci.Finalize(decided, caught):
                finalized = self._finalize(decided)
                self._accuse(caught)
                return finalized
            case abci.Commit():
                return abci.Committed()
            case abci.ListSnapshots():
                return abci.NoSnapshots()
            case _:
                assert_never(request)

    def _hash(self) -> bytes:
        """The anchor of our last block; empty before the genesis."""
        return b"" if self.ledger is None else encode_anchor(self.ledger.height, self.ledger.last_id)

    # Transactions

    def judge(self, transaction: bytes) -> Outcome:
        """Returns the outcome of a transaction alone in the next block."""
        if self.ledger is None:
            problem = self._find_problem(transaction)
            return Refused(Reason.OTHER_CHAIN, problem) if problem else Done()
        if sha256(transaction).digest() == self.ledger.genesis.digest():
            return Already()
        if len(transaction) > TRANSACTION_BYTES_MAX:  # it fits into no block and would wait forever
            return Refused(
                Reason.MALFORMED, f"{len(transaction)} bytes; at most {TRANSACTION_BYTES_MAX} are allowed"
            )
        return self.ledger.preview(transaction, max(self.ledger.time_ms + 1, self.clock_ms()))

    def _check(self, transaction: bytes, *, again: bool) -> abci.Checked:
        """Accepts a transaction that takes effect, and for a while one that may take effect later."""
        outcome = self.judge(transaction)
        digest = sha256(transaction).digest()
        since = self._waiting.pop(digest, self.comet_height) if again else self.comet_height
        problem = ""
        match outcome:
            case Already():
                problem = "it has already taken effect"
            case Refused(reason) if reason in NOT_YET:
                if self.comet_height - since > WAITING_BLOCKS_MAX:
                    problem = f"{outcome}, for {WAITING_BLOCKS_MAX} blocks"
                else:
                    self._waiting[digest] = since
            case Refused():
                problem = str(outcome)
        return abci.Checked(encode_outcome(outcome), problem)

    def _select(self, ordered: abci.Ordered) -> tuple[bytes, ...]:
        """Selects the transactions that take effect in order; before the genesis, only the founding."""
        if self.ledger is None:
            good = (each for each in ordered.transactions if not self._find_problem(each))
            founding = next(good, None)
            return () if founding is None else (founding,)
        return self._build(self.ledger, ordered).transactions

    def _build(self, ledger: Ledger, ordered: abci.Ordered) -> Block:
        """Builds our next block, with the time of CometBFT's block, which never decreases."""
        proposer = self._names.get(ordered.proposer, "")
        return ledger.propose(ordered.transactions, ordered.time_ns // 1_000_000, proposer)

    def _find_problem(self, transaction: bytes) -> str:
        """Returns why a transaction does not found this chain; empty if it does."""
        try:
            genesis = Genesis.decode(transaction)
        except DecodeError as error:
            return f"the chain has no genesis yet, and this is not one: {error}"
        keys = [key for key, _ in self.validators]
        if genesis.chain_id != self.chain_id:
            return f"CometBFT's chain is {self.chain_id}"
        if len({power for _, power in self.validators}) != 1:
            return "CometBFT's validators have different powers"
        if sorted(genesis.validator_keys) != sorted(key or b"" for key in keys):
            return "CometBFT has other validators"
        return ""

    # Blocks

    def _finalize(self, decided: abci.Ordered) -> abci.Finalized:
        self.comet_height = decided.height
        if decided.transactions:
            if self.ledger is None:
                self._require(decided, self._select(decided))
                self._found(Genesis.decode(decided.transactions[0]))
            else:
                block = self._build(self.ledger, decided)
                self._require(decided, block.transactions)
                self.ledger.apply(block)
                self.places.append(Place(decided.height, block.header))
        oldest = self.comet_height - 2 * WAITING_BLOCKS_MAX
        self._waiting = {digest: since for digest, since in self._waiting.items() if since > oldest}
        return abci.Finalized(len(decided.transactions), self._hash())

    def _require(self, decided: abci.Ordered, effective: tuple[bytes, ...]) -> None:
        if effective != decided.transactions:
            raise DecidedWrongError(f"block {decided.height} of {self.chain_id}")

    def _accuse(self, caught: tuple[abci.Misbehaviour, ...]) -> None:
        """Records validators that voted twice, with our current block; CometBFT's chain has the proof."""
        for each in caught:
            name = self._names.get(each.validator)
            if name is not None and self.ledger is not None and name not in self._caught:
                self._caught[name] = Accused("validator", name, self.ledger.height, each.digest)

    def _found(self, genesis: Genesis) -> None:
        self.ledger = Ledger(genesis, fixed_members=True)
        self._names = {address_of(party.public): party.name for party in genesis.validators}

    # Queries

    def _answer(self, path: str, data: bytes) -> abci.Answered:
        try:
            match path, self.ledger:
                case "/outcome", _:
                    return abci.Answered(encode_outcome(self.judge(data)))
                case _, None:
                    return abci.Answered(b"", "the chain has no genesis yet")
                case "/status", Ledger() as ledger:
                    status = CometStatus(ledger.height, ledger.last_id, ledger.genesis.digest())
                    return abci.Answered(status.encode())
                case "/evidence", Ledger() as ledger:
                    accused = (*list_accused(ledger), *self._caught.values())
                    return abci.Answered(Evidence(accused, seen=len(self._caught)).encode())
                case "/places", _:
                    asked = Read.decode(data)
                    found = self.places[max(0, asked.first - 1) : asked.last][:PLACES_MAX]
                    return abci.Answered(Places(self.comet_height, tuple(found)).encode())
        except DecodeError as error:
            return abci.Answered(b"", f"malformed query: {error}")
        return abci.Answered(b"", f"unknown path {path}")
