"""The message log of one height, bounded whatever Byzantine validators send.

The paper's log keeps every message. Here, of one validator, at most `ROUNDS_AHEAD` rounds after the current
one are kept (the highest, so that a validator left behind still sees where F + 1 others are), and of one
validator, round and step at most two votes beside those for nil and for proposals that are known. A dropped
message counts as lost; correct validators send theirs again. What is dropped never forms a quorum that
others cannot show: proofs-of-lock and commits are taken as wholes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from veristream.kabis.ordering.messages import Certificate, Committee, Message, Proposal, Signed, Step, Vote

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
        """How many validators voted for this in the step."""
        return len(self.votes.get((step, identifier), ()))

    def count_any(self, step: Step) -> int:
        """How many validators voted in the step, for whatever."""
        return sum(1 for voted_step, _ in self.first_votes if voted_step is step)

    def senders(self) -> set[int]:
        """The validators of which there is any message."""
        proposers = {proposal.sender for proposal in self.proposals}
        return proposers | {sender for _, sender in self.first_votes}

    def one_of_each(self, step: Step | None = None) -> tuple[Signed, ...]:
        """One message of each validator, of one step or of any; votes before proposals, which are long."""
        found: dict[int, Signed] = {}
        for (voted_step, sender), vote in self.first_votes.items():
            if step in (None, voted_step):
                found.setdefault(sender, vote)
        if step is None:
            for proposal in self.proposals:
                found.setdefault(proposal.sender, proposal)
        return tuple(found.values())

    def messages(self) -> list[Message]:
        """All of them, proposals first."""
        votes = [vote for group in self.votes.values() for vote in group.values()]
        return [*self.proposals, *self.proofs.values(), *votes]

    def add_proposal(self, proposal: Proposal) -> Contradiction | None:
        """Keeps the first two statements of the proposer, and one that a proof-of-lock is about."""
        statements = [kept.statement for kept in self.proposals]
        if proposal.statement in statements:
            place = statements.index(proposal.statement)
            if self.proposals[place].proof is None:  # somebody may have passed it on without its proof
                self.proposals[place] = proposal
                self.kept += 1
            return None
        if len(statements) < PROPOSALS_MAX or proposal.value.identifier in self.proofs:
            self.proposals.append(proposal)
            self.kept += 1
        return (self.proposals[0], proposal) if len(statements) == 1 else None

    def add_vote(self, vote: Vote) -> Contradiction | None:
        """Counts the vote once; the first that contradicts the sender's earlier one is returned with it."""
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
        """Keeps a proof-of-lock as a whole; with at most F Byzantine validators there is one per round."""
        if len(self.proofs) < PROPOSALS_MAX:
            self.proofs.setdefault(proof.identifier, proof)

    def remove(self, sender: int) -> None:
        """Forgets what one validator said."""
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
    has_news: bool = False  # something was kept since whoever applies the rules last looked
    ahead: dict[int, set[int]] = field(default_factory=dict)

    def round(self, number: int) -> RoundLog:
        """What is known of a round."""
        return self.rounds.get(number) or RoundLog()

    def enter(self, number: int) -> None:
        """Makes a round the current one, and forgets rounds long gone."""
        self.current = number
        for rounds in self.ahead.values():
            rounds.difference_update([ahead for ahead in rounds if ahead <= number])
        for gone in [known for known in self.rounds if known < number - ROUNDS_BEHIND]:
            del self.rounds[gone]

    def add(self, message: Signed) -> Contradiction | None:
        """Keeps a message of this height if it may be kept, and returns the contradiction that it shows."""
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
        """Keeps a proof-of-lock of a round that is not after the current one."""
        if self.current - ROUNDS_BEHIND <= proof.round <= self.current:
            self.rounds.setdefault(proof.round, RoundLog()).add_proof(proof)
            self.has_news = True

    def proof(self, number: int, identifier: bytes) -> Certificate | None:
        """The prevotes of a quorum for a value in a round, if they are known."""
        log = self.round(number)
        known = log.proofs.get(identifier)
        if known is None and log.count(Step.PREVOTE, identifier) >= self.committee.quorum:
            return self.certificate(Step.PREVOTE, number, identifier)
        return known

    def certificate(self, step: Step, number: int, identifier: bytes) -> Certificate:
        """The votes for a value, in validator order."""
        votes = sorted(self.round(number).votes[(step, identifier)].items())
        signatures = tuple((sender, vote.signature) for sender, vote in votes)
        return Certificate(step, self.height, number, identifier, signatures)

    def round_to_skip_to(self) -> int | None:
        """The highest round after the current one of which F + 1 validators have spoken (line 55)."""
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
