"""A validator as a pure state machine around `Tendermint`: orders transactions into certified blocks.

Every method takes the time and returns actions to perform in order; a `Persist` must be durable before the
actions after it are performed.

*Starting a height.* A height starts when there is something to order: our own transaction that takes
effect, a proposal that contains one, or F + 1 validators that have started it. So an idle chain creates no
blocks. If messages about a height keep arriving, it starts after a while, because we may have missed
something: a single Byzantine validator can cause at most one empty block a second or so.

*Changes of the members.* Each height is decided by the validators that are in force at it (`seats`). One
that is not only observes: it takes decided blocks, and votes from the height on at which it is in force.

*Catching up.* A validator that makes no progress asks the others in turn for decided blocks; one that hears
of a much later height asks at once. A decided block is accepted from anyone because of its certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ordering import interface
from veristream.kabis.ordering.durable import Memory
from veristream.kabis.ordering.log import LateVotes, to_evidence
from veristream.kabis.ordering.mempool import Limits, Mempool
from veristream.kabis.ordering.messages import (
    NO_ROUND,
    Certificate,
    Commit,
    Message,
    MessageError,
    Proposal,
    Step,
    Value,
    Vote,
    height_of,
)
from veristream.kabis.ordering.pace import SHORTEST, Pace
from veristream.kabis.ordering.peers import TRANSACTIONS_PER_OFFER_MAX, Ask, Offer, PeerMessage
from veristream.kabis.ordering.seats import Me, Seats, Signers
from veristream.kabis.ordering.tendermint import Application, Durations, Tendermint
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import Remembering, SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.outcomes import Effect, Outcome, Reason, Refused
from veristream.kabis.protocol.receipts import CommitCertificate
from veristream.kabis.protocol.transactions import (
    Submit,
    VoteConflict,
    decode_transaction,
    is_of_unknown_kind,
)

DECODED_BLOCKS_MAX = 8
REVIEWED_MAX = 64
OFFERED_BYTES_MAX = 1 << 18
JUNK = frozenset((Reason.MALFORMED, Reason.BAD_SIGNATURE))


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to one validator, or to all others."""

    receiver: int | None
    message: PeerMessage


@dataclass(frozen=True, slots=True)
class Committed:
    """Store the block with its certificate; the ledger has already applied it, with these effects."""

    commit: Commit
    block: Block
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Accused:
    """A validator contradicted itself; if in its votes, the evidence has been submitted."""

    conflict: interface.Conflict


Action = interface.Persist | interface.Schedule | Send | Committed | Accused


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a validator; `durations` are the shortest timeouts, which adapt."""

    durations: Durations = SHORTEST
    limits: Limits = field(default_factory=Limits)
    clock_bound_ms: int = 10_000
    patience_ms: int = 1_000
    late_ms: int = 100
    idle_ticks: int = 10
    answer_every_ms: int = 200
    commits_per_answer: int = 16
    recent_commits: int = 64


@dataclass(slots=True)
class ValidatorCore:
    """One validator of a chain; `load` returns a stored commit of an earlier height.

    `check` should be shared with the ledger, so that signatures are verified only once. `others` are the
    numbers by which the caller knows the other validators that blocks can be asked from.
    """

    me: Me
    signers: Signers
    ledger: Ledger
    load: Callable[[int], Commit | None]
    memory: Memory = field(default_factory=Memory)
    settings: Settings = field(default_factory=Settings)
    check: Verify = verify_signature

    machine: Tendermint = field(init=False)
    mempool: Mempool = field(init=False)
    seats: Seats = field(init=False)
    others: tuple[int, ...] = field(init=False)
    pace: Pace = field(init=False)
    unknown: int = 0  # offered transactions of kinds that this version does not know
    _now_ms: int = 0
    _ticks: int = 0
    _decided_ms: int = 0
    _begun_ms: int = 0
    _heard_ms: int | None = None
    _to_consider: bool = False
    _stood_at: tuple[int, int, Step, bool] | None = None
    _actions: list[Action] = field(default_factory=list)
    _answered: dict[int, tuple[int, int]] = field(default_factory=dict)
    _asked: tuple[int, int] = (0, 0)  # up to which height, and when
    _ask_next: int = 0
    _is_behind: bool = False
    _recent: dict[int, Commit] = field(default_factory=dict)
    _late: LateVotes = field(default_factory=LateVotes)
    _decoded: dict[bytes, Block] = field(default_factory=dict)
    _verdicts: dict[bytes, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seats = Seats(self.ledger, self.me, self.signers, Remembering(self.check), self._identify)
        application = Application(self._propose, self._is_valid, self._is_timely)
        identify, durations = self.seats.identity, self.settings.durations
        self.machine = Tendermint(identify(self.height), application, durations, self.memory, identify)
        self.machine.skip(self.ledger.height)
        self.mempool = Mempool(self.settings.limits)
        self.pace = Pace(self.settings.durations)
        size = len(self.ledger.genesis.validators)
        self._ask_next = self.me if isinstance(self.me, int) else 0
        self.others = tuple(number for number in range(size) if number != self.me)

    @property
    def height(self) -> int:
        """The next height to decide."""
        return self.ledger.height + 1

    # Inputs

    def begin(self, now_ms: int) -> tuple[Action, ...]:
        """Must be called first, once; resumes a height for which something was already signed."""
        self._now_ms = self._decided_ms = now_ms
        has_begun = self.memory.signed_in(self.height) or self.memory.entry(self.height).round
        if has_begun and self.seats.votes_at(self.height):
            self._start()
        return self._finish()

    def submit(self, encoded: bytes, now_ms: int) -> tuple[Outcome, tuple[Action, ...]]:
        """Handles a client's transaction: returns its expected outcome, and the offer to others if kept."""
        self._now_ms = now_ms
        outcome = self._admit(encoded, offer=True)
        return outcome, self._finish()

    def hear(self, sender: int, message: PeerMessage, now_ms: int) -> tuple[Action, ...]:
        """Handles a message of another validator; raises MessageError if no correct one sends it."""
        self._now_ms = now_ms
        match message:
            case Offer():
                self._hear_offer(message)
            case Ask():
                self._answer(sender, message.height, is_asked=True)
            case Commit():
                self._hear_commit(sender, message)
            case _:
                self._hear_consensus(sender, message)
        return self._finish()

    def time_out(self, timeout: interface.Timeout, now_ms: int) -> tuple[Action, ...]:
        """Handles the expiry of a `Schedule`."""
        self._now_ms = now_ms
        self._feed(timeout)
        return self._finish()

    def tick(self, now_ms: int) -> tuple[Action, ...]:
        """Runs periodically: repeats messages that may have been lost if there was no progress."""
        self._now_ms = now_ms
        self._ticks += 1
        machine = self.machine
        stands_at = (machine.height, machine.round, machine.step, machine.running)
        is_stuck = machine.running and stands_at == self._stood_at
        self._stood_at = stands_at
        if is_stuck:
            self._feed(interface.Resend())
            self._offer_again()
        if is_stuck or self._is_behind or self._ticks % self.settings.idle_ticks == 0:
            self._is_behind = False
            self._ask_around()
            self.mempool.forget_old(now_ms)
        self._to_consider = True
        return self._finish()

    # Heights

    def _finish(self) -> tuple[Action, ...]:
        while self._to_consider and not self.machine.running:
            self._to_consider = False  # set again by the next block
            if self.seats.votes_at(self.height) and self._has_reason():
                self._start()
        actions, self._actions = tuple(self._actions), []
        return actions

    def _has_reason(self) -> bool:
        """Whether the next height should start; an idle chain goes on to a change of its members."""
        waited_ms = 0 if self._heard_ms is None else self._now_ms - self._heard_ms
        speakers: set[int] = set()
        for known in self.machine.next_log.rounds.values():
            speakers |= known.senders()
        return (
            self.ledger.pending_members is not None
            or len(speakers) > self.seats.identity(self.height).committee.faults
            or waited_ms >= self.settings.patience_ms
            or self.mempool.find_effective(self._judge)
            or any(
                self._block(proposal.value).transactions and self._is_valid(proposal.value)
                for proposal in self.machine.next_log.round(0).proposals
            )
        )

    def _start(self) -> None:
        self._begun_ms = self._now_ms
        self.machine.durations = self.pace.durations
        self._feed(interface.Start(self.height))

    def _feed(self, given: interface.Input) -> None:
        for output in self.machine.handle(given):
            match output:
                case interface.Persist() | interface.Schedule():
                    self._actions.append(output)
                case interface.Broadcast():
                    self._actions.append(Send(None, output.message))
                case interface.Decide():
                    self._decide(output)
                case interface.Conflict():
                    self._accuse(output)
                case _:
                    assert_never(output)

    def _decide(self, decision: interface.Decide) -> None:
        block = self._block(decision.value)
        took_ms = self._now_ms - self._begun_ms
        self.pace.decided(decision.certificate.round, took_ms, len(block.transactions))
        self._commit(Commit(decision.value, decision.certificate), block)

    def _commit(self, commit: Commit, block: Block) -> None:
        effects = self.ledger.apply(block, to_commit_certificate(commit.certificate))
        self._late.decided(self.machine.log)
        self._actions.append(Committed(commit, block, effects))
        height = block.header.height
        self._recent[height] = commit
        self._recent.pop(height - self.settings.recent_commits, None)
        self._decoded.clear()
        self._verdicts.clear()
        self._decided_ms, self._heard_ms, self._to_consider = self._now_ms, None, True
        self.mempool.decided(block.transactions, self._judge)

    # Consensus

    def _hear_consensus(self, sender: int, message: Proposal | Vote | Certificate) -> None:
        height = height_of(message)
        if height < self.height:
            conflict = self._late.compare(message, self._verify) if isinstance(message, Vote) else None
            if conflict is not None:
                self._accuse(conflict)
            is_late = self._now_ms - self._decided_ms >= self.settings.late_ms
            if height < self.ledger.height or is_late:  # not just the last vote of a fast height
                self._answer(sender, height, is_asked=False)
            return
        if height > self.height and (height > self.height + 1 or not self.seats.votes_at(self.height)):
            self._ask(sender)  # it would not be kept, so it is not verified
            return
        if not self.seats.votes_at(height):
            return  # others decide this height
        self._verify(message)
        if height == self.height:
            self._heard_ms = self._now_ms if self._heard_ms is None else self._heard_ms
            self._to_consider = True
            if isinstance(message, Proposal) and self._comes_late(message):
                self.pace.gave_up_too_early()
        self._feed(interface.Received(message))

    def _verify(self, message: Message) -> None:
        self.seats.verifier(height_of(message)).verify(message)
        if isinstance(message, Proposal) and message.valid_round == NO_ROUND:
            proposer = self.seats.members(message.height).validators[message.sender].name
            if self._block(message.value).header.proposer != proposer:
                raise MessageError("the block names another proposer")

    def _comes_late(self, proposal: Proposal) -> bool:
        """Whether the proposal is new but its timeout has expired."""
        machine = self.machine
        gave_up = (machine.round, machine.step) > (proposal.round, Step.PROPOSE)
        return machine.running and gave_up and not machine.log.round(proposal.round).proposals

    def _accuse(self, conflict: interface.Conflict) -> None:
        self._actions.append(Accused(conflict))
        evidence = to_evidence(conflict)
        if evidence is not None:
            self._admit(evidence.encode(), offer=True)

    # Transactions

    def _admit(self, encoded: bytes, offer: bool) -> Outcome:
        outcome, is_new = self.mempool.add(encoded, self._now_ms, self._judge)
        if is_new:
            self._to_consider = True
            if offer:
                self._actions.append(Send(None, Offer((encoded,))))
        elif isinstance(outcome, Refused) and outcome.reason is Reason.CONFLICT:
            self._accuse_producer(encoded)
        return outcome

    def _hear_offer(self, offer: Offer) -> None:
        """Admits offered transactions; raises MessageError for junk, which no correct validator offers.

        A kind that we do not know is no junk: during an upgrade, a newer validator offers it. Nor is
        evidence about votes of a later height, whose validators we may not know yet.
        """
        for encoded in offer.transactions:
            outcome = self._admit(encoded, offer=False)
            if not isinstance(outcome, Refused) or outcome.reason not in JUNK:
                continue
            if is_of_unknown_kind(encoded):
                self.unknown += 1
            elif not self._is_ahead(encoded):
                raise MessageError(f"offered an invalid transaction: {outcome}")

    def _is_ahead(self, encoded: bytes) -> bool:
        """Whether a transaction is evidence about votes above our height."""
        try:
            transaction = decode_transaction(encoded)
        except DecodeError:
            return False
        return isinstance(transaction, VoteConflict) and transaction.first.height > self.height

    def _accuse_producer(self, encoded: bytes) -> None:
        """Submits two batches with the same sequence number as evidence, so that their key is fenced."""
        transaction = decode_transaction(encoded)
        evidence = self.ledger.find_conflict(transaction) if isinstance(transaction, Submit) else None
        if evidence is not None:
            self._admit(evidence.encode(), offer=True)

    def _judge(self, encoded: bytes) -> Outcome:
        """Returns the outcome of a transaction alone in the next block.

        An early batch is fully verified now, so that it can wait without further checks.
        """
        outcome = self.ledger.preview(encoded, max(self.ledger.time_ms + 1, self._now_ms))
        if isinstance(outcome, Refused) and outcome.reason is Reason.EARLY:
            transaction = decode_transaction(encoded)
            assert isinstance(transaction, Submit), "only batches are early"
            return self._find_bad_receipt(transaction) or outcome
        return outcome

    def _find_bad_receipt(self, transaction: Submit) -> Refused | None:
        members, digest = self.ledger.members, transaction.signed.digest()
        publics = {party.name: party.public for party in members.storage}
        if len(transaction.receipts) < members.receipts_needed:
            return Refused(Reason.TOO_FEW_RECEIPTS)
        for receipt in transaction.receipts:
            if receipt.party not in publics or receipt.digest != digest:
                return Refused(Reason.WRONG_RECEIPT, receipt.party)
            try:
                receipt.verify(self.ledger.genesis.chain_id, publics[receipt.party], self.check)
            except SignatureError:
                return Refused(Reason.BAD_SIGNATURE, receipt.party)
        return None

    def _offer_again(self) -> None:
        """Offers the waiting transactions again, in case others missed them."""
        offered: list[bytes] = []
        size = 0
        for encoded in self.mempool.candidates(TRANSACTIONS_PER_OFFER_MAX):
            size += len(encoded)
            if offered and size > OFFERED_BYTES_MAX:
                break
            offered.append(encoded)
        if offered:
            self._actions.append(Send(None, Offer(tuple(offered))))

    # Blocks

    def _propose(self, height: int, round_number: int) -> Value:
        candidates = list(self.mempool.candidates(self.pace.transactions))
        block = self.ledger.propose(candidates, self._now_ms, self.seats.name)
        chosen = set(block.transactions)
        left_out = [encoded for encoded in candidates if encoded not in chosen]
        if len(left_out) < len(candidates):  # otherwise find_effective drops them
            self.mempool.review(left_out[:REVIEWED_MAX], self._judge)
        value = Value(block.block_id(), block.encode())
        self._verdicts[value.identifier] = True
        self._decoded[value.identifier] = block
        return value

    def _is_valid(self, value: Value) -> bool:
        verdict = self._verdicts.get(value.identifier)
        if verdict is None:
            try:
                self.ledger.check(self._block(value))
                verdict = True
            except InvalidBlockError:
                verdict = False
            if len(self._verdicts) >= DECODED_BLOCKS_MAX:
                self._verdicts.clear()
            self._verdicts[value.identifier] = verdict
        return verdict

    def _is_timely(self, value: Value) -> bool:
        """Whether the block time is near our clock, or is the earliest that the chain allows."""
        time_ms, bound_ms = self._block(value).header.time_ms, self.settings.clock_bound_ms
        is_next = time_ms == self.ledger.time_ms + 1
        return is_next or self._now_ms - bound_ms <= time_ms <= self._now_ms + bound_ms

    def _identify(self, content: bytes) -> bytes:
        block = Block.decode(content)
        identifier = block.block_id()
        if len(self._decoded) >= DECODED_BLOCKS_MAX:
            self._decoded.clear()
        self._decoded[identifier] = block
        return identifier

    def _block(self, value: Value) -> Block:
        """Returns the value's block, decoding it again if it is no longer cached."""
        return self._decoded.get(value.identifier) or Block.decode(value.content)

    # Catching up

    def _hear_commit(self, sender: int, commit: Commit) -> None:
        """Applies a decided block; its certificate alone makes it valid."""
        height = height_of(commit)
        if height != self.height:
            return
        self.seats.verifier(height).verify(commit)
        block = self._block(commit.value)
        self.machine.skip(height)
        self._commit(commit, block)
        self._is_behind = True  # there may be more
        if height == self._asked[0]:
            self._asked = (0, 0)
            self._ask(sender)

    def _ask(self, receiver: int) -> None:
        if self._now_ms - self._asked[1] >= self.settings.answer_every_ms:
            self._asked = (self.height + self.settings.commits_per_answer - 1, self._now_ms)
            self._actions.append(Send(receiver, Ask(self.height)))

    def _ask_around(self) -> None:
        """Asks the other validators in turn, so as not to depend on a liar."""
        if self.others:
            self._asked = (0, 0)
            self._ask(self.others[self._ask_next % len(self.others)])
            self._ask_next += 1

    def _answer(self, sender: int, height: int, *, is_asked: bool) -> None:
        """Sends a few decided blocks, but not the same ones to the same peer too often."""
        answered_height, answered_ms = self._answered.get(sender, (0, 0))
        goes_on = is_asked and height > answered_height
        is_soon = self._now_ms - answered_ms < self.settings.answer_every_ms
        if height < 1 or height > self.ledger.height or (is_soon and not goes_on):
            return
        last = min(self.ledger.height, height + self.settings.commits_per_answer - 1)
        self._answered[sender] = (last, self._now_ms)
        for number in range(height, last + 1):
            commit = self._recent.get(number) or self.load(number)
            if commit is not None:
                self._actions.append(Send(sender, commit))


def to_commit_certificate(certificate: Certificate) -> CommitCertificate:
    """Converts to the certificate used by clients and receipts."""
    assert certificate.step is Step.PRECOMMIT
    return CommitCertificate(
        certificate.height, certificate.round, certificate.identifier, certificate.signatures
    )
