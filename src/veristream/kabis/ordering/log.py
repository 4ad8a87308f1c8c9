"""The message log of one height, bounded against Byzantine validators.

The paper's log keeps every message. This one keeps, for each validator, at most `ROUNDS_AHEAD` rounds after
the current one (the highest, so that a validator that is behind still sees where F + 1 others are), and for
each validator, round and step at most two votes besides those for nil and for known proposals. A dropped
message counts as lost; correct validators send theirs again. Dropping votes never hides a quorum, because
proofs-of-lock and commits are kept as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from veristream.kabis.ordering.interface import Conflict
from veristream.kabis.ordering.messages import Certificate, Committee, Message, Proposal, Signed, Step, Vote
from veristream.kabis.protocol.receipts import SignedVote, VoteKind
from veristream.kabis.protocol.transactions import VoteConflict

ROUNDS_AHEAD = 4
ROUNDS_BEHIND = 16
PROPOSALS_MAX = 2
VOTES_MAX = 2

Contradiction = tuple[Signed, Signed]


@dataclass(slots=True)
class RoundLog:
    """The messages of one round."""

    proposals: list[Proposal] = field(default_factory=list)
    votes: dict[tuple[Step, bytes | None], dict[int, Vote]] = field(default_factory=dict)
    first_votes: dict[tuple[Step, int], Vote] = field(default_factory=dict)
    contradicting: set[tuple[Step, int]] = field(default_factory=set)
    proofs: dict[bytes, Certificate] = field(default_factory=dict)
    kept: int = 0

    def count(self, step: Step, identifier: bytes | None) -> int:
        """Counts the validators that voted for this value in the step."""
        return len(self.votes.get((step, identifier), ()))

    def count_any(self, step: Step) -> int:
        """Counts the validators that voted in the step, for any value."""
        return sum(1 for voted_step, _ in self.first_votes if voted_step is step)

    def senders(self) -> set[int]:
        """Returns the validators with at least one message."""
        proposers = {proposal.sender for proposal in self.proposals}
        return proposers | {sender for _, sender in self.first_votes}

    def one_of_each(self, step: Step | None = None) -> tuple[Signed, ...]:
        """Returns one message of each validator, of one step or any; prefers votes, which are short."""
        found: dict[int, Signed] = {}
        for (voted_step, sender), vote in self.first_votes.items():
            if step in (None, voted_step):
                found.setdefault(sender, vote)
        if step is None:
            for proposal in self.proposals:
                found.setdefault(proposal.sender, proposal)
        return tuple(found.values())

    def messages(self) -> list[Message]:
        """Returns all messages, proposals first."""
        votes = [vote for group in self.votes.values() for vote in group.values()]
        return [*self.proposals, *self.proofs.values(), *votes]

    def add_proposal(self, proposal: Proposal) -> Contradiction | None:
        """Keeps the proposer's first two statements, and one that has a proof-of-lock."""
        statements = [kept.statement for kept in self.proposals]
        if proposal.statement in statements:
            place = statements.index(proposal.statement)
            if self.proposals[place].proof is None:  # it may have been forwarded without its proof
                self.proposals[place] = proposal
                self.kept += 1
            return None
        if len(statements) < PROPOSALS_MAX or proposal.value.identifier in self.proofs:
            self.proposals.append(proposal)
            self.kept += 1
        return (self.proposals[0], proposal) if len(statements) == 1 else None

    def add_vote(self, vote: Vote) -> Contradiction | None:
        """Counts the vote once; returns the first contradiction with an earlier vote of the sender."""
        group = self.votes.get((vote.step, vote.identifier), {})
        if vote.sender in group or not self._is_worth_keeping(vote):
            return None
        self.votes[(vote.step, vote.identifier)] = group
        group[vote.sender] = vote
        self.kept += 1
        slot = (vote.step, vote.sender)
        first = self.first_votes.setdefault(slot, vote)
        if first is vote or slot in self.contradicting:
            return None
        self.contradicting.add(slot)
        return (first, vote)

    def add_proof(self, proof: Certificate) -> None:
        """Keeps a proof-of-lock as a whole; with at most F Byzantine validators a round has only one."""
        if len(self.proofs) < PROPOSALS_MAX:
            self.proofs.setdefault(proof.identifier, proof)

    def remove(self, sender: int) -> None:
        """Removes all messages of one validator."""
        self.proposals = [proposal for proposal in self.proposals if proposal.sender != sender]
        for group in self.votes.values():
            group.pop(sender, None)
        for step in (Step.PREVOTE, Step.PRECOMMIT):
            self.first_votes.pop((step, sender), None)
            self.contradicting.discard((step, sender))

    def _is_worth_keeping(self, vote: Vote) -> bool:
        slot = (vote.step, vote.sender)
        if slot not in self.first_votes or vote.identifier is None:
            return True
        if any(proposal.value.identifier == vote.identifier for proposal in self.proposals):
            return True
        groups = (group for (step, _), group in self.votes.items() if step is vote.step)
        return sum(vote.sender in group for group in groups) < VOTES_MAX


@dataclass(slots=True)
class MessageLog:
    """The messages of one height, by round."""

    height: int
    committee: Committee
    rounds: dict[int, RoundLog] = field(default_factory=dict)
    current: int = -1
    has_news: bool = False  # a message was added since the rules were last applied
    ahead: dict[int, set[int]] = field(default_factory=dict)

    def round(self, number: int) -> RoundLog:
        return self.rounds.get(number) or RoundLog()

    def enter(self, number: int) -> None:
        """Makes a round the current one and forgets old rounds."""
        self.current = number
        for rounds in self.ahead.values():
            rounds.difference_update([ahead for ahead in rounds if ahead <= number])
        for gone in [known for known in self.rounds if known < number - ROUNDS_BEHIND]:
            del self.rounds[gone]

    def add(self, message: Signed) -> Contradiction | None:
        """Adds a message if the bounds allow it; returns the contradiction that it shows, if any."""
        if not 0 <= message.sender < self.committee.size or not self._has_room(message):
            return None
        log = self.rounds.setdefault(message.round, RoundLog())
        before = log.kept
        if isinstance(message, Proposal):
            contradiction = log.add_proposal(message)
        else:
            contradiction = log.add_vote(message)
        self.has_news |= log.kept != before
        return contradiction

    def add_proof(self, proof: Certificate) -> None:
        """Keeps a proof-of-lock of the current or an earlier round."""
        if self.current - ROUNDS_BEHIND <= proof.round <= self.current:
            self.rounds.setdefault(proof.round, RoundLog()).add_proof(proof)
            self.has_news = True

    def proof(self, number: int, identifier: bytes) -> Certificate | None:
        """Returns the prevotes of a quorum for a value in a round, if known."""
        log = self.round(number)
        known = log.proofs.get(identifier)
        if known is None and log.count(Step.PREVOTE, identifier) >= self.committee.quorum:
            return self.certificate(Step.PREVOTE, number, identifier)
        return known

    def certificate(self, step: Step, number: int, identifier: bytes) -> Certificate:
        """Returns the votes for a value, in validator order."""
        votes = sorted(self.round(number).votes[(step, identifier)].items())
        signatures = tuple((sender, vote.signature) for sender, vote in votes)
        return Certificate(step, self.height, number, identifier, signatures)

    def round_to_skip_to(self) -> int | None:
        """Returns the highest later round with messages of F + 1 validators (line 55)."""
        later = [number for number in self.rounds if number > self.current]
        enough = self.committee.faults + 1
        reached = [number for number in later if len(self.rounds[number].senders()) >= enough]
        return max(reached, default=None)

    def _has_room(self, message: Signed) -> bool:
        if message.round <= self.current:
            return message.round >= max(0, self.current - ROUNDS_BEHIND)
        rounds = self.ahead.setdefault(message.sender, set())
        if message.round not in rounds and len(rounds) >= ROUNDS_AHEAD:
            lowest = min(rounds)
            if message.round < lowest:
                return False
            rounds.remove(lowest)
            self._remove(lowest, message.sender)
        rounds.add(message.round)
        return True

    def _remove(self, number: int, sender: int) -> None:
        log = self.rounds[number]
        log.remove(sender)
        if not log.messages():
            del self.rounds[number]


class LateVotes:
    """The message log of the last decided height, for comparison with late votes.

    A height is decided as soon as a quorum has voted. The second vote of an equivocating validator may
    arrive only after that.
    """

    def __init__(self) -> None:
        self._log: MessageLog | None = None

    def decided(self, log: MessageLog) -> None:
        """Keeps the log of a decided height; only late votes are added to it."""
        self._log = log

    def compare(self, vote: Vote, verify: Callable[[Vote], None]) -> Conflict | None:
        """Returns a conflict with an earlier vote; verifies the late vote only if it contradicts one."""
        log = self._log
        if log is None or log.height != vote.height:
            return None
        first = log.round(vote.round).first_votes.get((vote.step, vote.sender))
        if first is None or first.identifier == vote.identifier:
            return None
        verify(vote)
        contradiction = log.add(vote)
        return None if contradiction is None else Conflict(*contradiction)


def to_evidence(conflict: Conflict) -> VoteConflict | None:
    """Returns the transaction that records the conflict on the ledger; None if it is not about votes."""
    first, second = conflict.first, conflict.second
    if isinstance(first, Vote) and isinstance(second, Vote):
        return VoteConflict(_to_signed_vote(first), _to_signed_vote(second))
    return None


def _to_signed_vote(vote: Vote) -> SignedVote:
    return SignedVote(
        vote.sender, VoteKind(vote.step), vote.height, vote.round, vote.identifier, vote.signature
    )
