"""Tendermint: how Kabis's validators, one of them Byzantine, agree on the next block of identifiers.

E. Buchman, J. Kwon and Z. Milosevic, *The latest gossip on BFT consensus* (arXiv 1807.04938), algorithm 1,
one height, rule by rule; numbers in docstrings are its lines. Kabis's paper (section 4.2) uses 3F + 1
service replicas for this. The abstractions, and why they lose no run:

- A sent message may be received at any later time or never. Messages are never removed, so receiving late
  is firing a rule late: the network is the set of all votes of correct validators, and time-outs may fire
  as soon as they are scheduled.
- Byzantine validators may send anything to anybody at any time. Rules only require *enough* messages, so
  all Byzantine messages count as sent from the start; a rule need not fire.
- A Byzantine proposer sends all proposals, including the one that a correct proposer would have sent. So
  if the Byzantine validator proposes in all rounds (`HONEST_FROM == ROUNDS`), every order of proposers is
  covered. From round `HONEST_FROM` on, any correct validator proposes, once per round.
- A validator that has entered a round counts as heard there (55), as if it had proposed.
- A validator decides when it sees the votes, which does not affect the others: after its decision it may
  stop, and a validator that never moves again has stopped. So decisions are derived from the votes.
- With `HASTY` a validator may enter the next round at any time, and nil is not distinguished from no vote.
  Every run without it is a run with it, once nil votes are removed and a nil precommit is not a step: only
  time-outs count nil votes. This makes three rounds feasible.
- Correct validators are symmetric, so states that differ only by a permutation of them are identified.
"""

from veristream.actions import *

HONEST = constant(3)
BYZANTINE = constant(1)
F = constant(1)  # the number of Byzantine validators that the protocol tolerates
ROUNDS = constant(2)
VALUES = constant(2)  # valid ones; there is always one more, which is invalid
HONEST_FROM = constant(ROUNDS)  # the first round with a correct proposer
QUORUM = constant(2 * F + 1)
HASTY = constant(False)  # 1: time-outs may fire at any moment and nil votes are not kept; see above

LOCKING = constant(True)  # 0: a locked validator prevotes for any valid proposal
PROOF = constant(True)  # 0: the prevotes of a proposal's valid round are not required
NEWER = constant(True)  # 0: a proof older than the lock unlocks, too
VALIDATES = constant(True)  # 0: validators do not verify what they vote for
DURABLE = constant(True)  # 0: a validator forgets its lock when it restarts
BALLOTS = constant(1)  # how many times a Byzantine vote counts; 2: messages are counted, not senders

UNSENT = -2
NIL = -1
INVALID = VALUES


class Step(Enum):
    PROPOSE = 0
    PREVOTE = 1
    PRECOMMIT = 2


class Proposal(Record):
    value: Int[NIL, VALUES] = NIL  # nil: nothing is proposed yet
    valid_round: Int[-1, ROUNDS - 1] = -1


proposals: Map[Int[0, ROUNDS - 1], Proposal] = Proposal()  # of correct proposers
restarts: Int[0, 1] = 0


class Validator(Role, count=HONEST, symmetric=True):
    """A correct validator; a nil vote is different from a vote that is not sent yet."""

    round: Int[0, ROUNDS - 1] = 0
    step: Step = Step.PROPOSE
    locked_value: Int[NIL, VALUES] = NIL
    locked_round: Int[-1, ROUNDS - 1] = -1
    valid_value: Int[NIL, VALUES] = NIL
    valid_round: Int[-1, ROUNDS - 1] = -1
    prevotes: Map[Int[0, ROUNDS - 1], Int[UNSENT, VALUES]] = UNSENT
    precommits: Map[Int[0, ROUNDS - 1], Int[UNSENT, VALUES]] = UNSENT

    @action
    def propose(self, fresh: Int[0, VALUES - 1]):
        """11 to 21: proposes its valid value with the round of the proof, or else a value of its own."""
        require(self.round >= HONEST_FROM and self.step == Step.PROPOSE)
        require(proposals[self.round].value == NIL)
        require(self.valid_value == NIL or self.valid_value == fresh)
        proposals[self.round] = Proposal(fresh, self.valid_round)

    @action
    def prevote_new(self, value: Int[0, VALUES]):
        """22 to 27: a proposal without a proof of lock."""
        require(self.step == Step.PROPOSE and is_proposed(self.round, value, -1))
        self.prevote(value, not LOCKING or self.locked_round == -1 or self.locked_value == value)

    @action
    def prevote_proven(self, value: Int[0, VALUES], proven: Int[0, ROUNDS - 1]):
        """28 to 33: a proposal that received its prevotes in an earlier round."""
        require(self.step == Step.PROPOSE and is_proposed(self.round, value, proven))
        require(proven < self.round and (not PROOF or prevotes_for(proven, value) >= QUORUM))
        self.prevote(
            value,
            not LOCKING or not NEWER or self.locked_round <= proven or self.locked_value == value,
        )

    @action
    def prevote_after_timeout(self):
        """57 to 60."""
        require(self.step == Step.PROPOSE)
        self.prevote(nil(), True)

    @action
    def precommit(self, value: Int[0, VALUES]):
        """36 to 43, in step prevote: it locks."""
        require(self.step == Step.PREVOTE and has_polka(self.round, value))
        self.locked_value = value
        self.locked_round = self.round
        self.learn_valid(value)
        self.send_precommit(value)

    @action
    def learn_late(self, value: Int[0, VALUES]):
        """36, 42 and 43, after the precommit; only proposers use it."""
        require(HONEST_FROM < ROUNDS and self.step == Step.PRECOMMIT and has_polka(self.round, value))
        require(self.valid_round < self.round)
        self.learn_valid(value)

    @action
    def precommit_nil(self):
        """44 to 46, and 61 to 64 after a time-out."""
        require(not HASTY and self.step == Step.PREVOTE)
        require(prevotes_for(self.round, NIL) >= QUORUM or prevotes_in(self.round) >= QUORUM)
        self.send_precommit(NIL)

    @action
    def start_next_round(self):
        """47, 48 and 65 to 67: enough precommits of any kind, and the time-out."""
        require(self.round < ROUNDS - 1 and (HASTY or precommits_in(self.round) >= QUORUM))
        self.start(self.round + 1)

    @action
    def skip_to(self, later: Int[0, ROUNDS - 1]):
        """55 and 56: F + 1 others are already in that round."""
        require(later > self.round and heard_in(later) >= F + 1)
        self.start(later)

    @action
    def restart(self):
        """Crashes and loses a lock that was not on disk."""
        global restarts
        require(not DURABLE and restarts == 0 and self.locked_round >= 0)
        restarts += 1
        self.locked_value = NIL
        self.locked_round = -1

    def start(self, later):
        self.round = later
        self.step = Step.PROPOSE

    def prevote(self, value, unlocked):
        self.prevotes[self.round] = value if unlocked and is_valid(value) else nil()
        self.step = Step.PREVOTE

    def send_precommit(self, value):
        self.precommits[self.round] = value
        self.step = Step.PRECOMMIT

    def learn_valid(self, value):
        if HONEST_FROM < ROUNDS:
            self.valid_value = value
            self.valid_round = self.round


def nil():
    return UNSENT if HASTY else NIL


def is_valid(value):
    return not VALIDATES or value != INVALID


def is_proposed(number, value, proven):
    """Whether the round's proposer may have sent this proposal."""
    return number < HONEST_FROM or proposals[number] == Proposal(value, proven)


def is_value_proposed(number, value):
    return number < HONEST_FROM or proposals[number].value == value


def has_polka(number, value):
    """36: whether a valid proposal has its prevotes, which Tendermint calls a polka."""
    return is_valid(value) and is_value_proposed(number, value) and prevotes_for(number, value) >= QUORUM


def prevotes_for(number, value):
    """Returns the number of validators that may have sent this prevote."""
    return sum(one.prevotes[number] == value for one in Validator) + BALLOTS * BYZANTINE


def precommits_for(number, value):
    return sum(one.precommits[number] == value for one in Validator) + BALLOTS * BYZANTINE


def prevotes_in(number):
    return sum(one.prevotes[number] != UNSENT for one in Validator) + BYZANTINE


def precommits_in(number):
    return sum(one.precommits[number] != UNSENT for one in Validator) + BYZANTINE


def heard_in(number):
    """Returns the number of validators that may have sent a message of that round."""
    return sum(one.round == number or one.prevotes[number] != UNSENT for one in Validator) + BYZANTINE


def is_decidable(number, value):
    """49: whether a correct validator that receives all messages of the round decides the value."""
    return is_value_proposed(number, value) and precommits_for(number, value) >= QUORUM


def is_decided(value):
    return any(is_decidable(number, value) for number in range(ROUNDS))


@always
def agreement():
    """No two correct validators decide differently, in any rounds."""
    return sum(is_decided(value) for value in range(VALUES + 1)) <= 1


@always
def validity():
    """Only valid values are decided: validators verify every header before they vote."""
    return not is_decided(INVALID)


@always
def one_polka_a_round(number: Int[0, ROUNDS - 1]):
    """At most one value of a round has its prevotes."""
    return sum(prevotes_for(number, value) >= QUORUM for value in range(VALUES)) <= 1


@always
def lock_was_proven(one: Validator):
    """A locked validator has seen the prevotes for its lock."""
    return one.locked_round == -1 or prevotes_for(one.locked_round, one.locked_value) >= QUORUM


@transition
def locks_grow_newer(one: Validator):
    return after(one.locked_round) >= one.locked_round


@exists
def decided_in_the_first_round():
    return is_decidable(0, 0)


@exists
def decided_in_the_last_round():
    """A value is decided in the last round and in no earlier one."""
    return is_decided(1) and not any(
        is_decidable(number, value) for number in range(ROUNDS - 1) for value in range(VALUES)
    )


@exists
def somebody_is_locked_on_what_is_not_decided():
    """One validator is locked on a value, and the others decide another."""
    return is_decided(0) and any(one.locked_value == 1 for one in Validator)


@exists
def lock_is_changed():
    """A proof of a later round unlocks: precommits of one validator for two values."""
    return any(
        one.precommits[0] == 0 and one.precommits[number] == 1
        for one in Validator
        for number in range(1, ROUNDS)
    )


@exists
def lock_refuses():
    """A locked validator prevotes nil, and another prevotes for the proposal."""
    return any(
        one.locked_round == 0
        and one.prevotes[number] == NIL
        and other.prevotes[number] == 1 - one.locked_value
        for number in range(1, ROUNDS)
        for one in Validator
        for other in Validator
    )


@exists
def proof_is_proposed():
    """A correct proposer proposes a value with the round of its prevotes, and others prevote for it."""
    return any(
        proposals[number].valid_round >= 0 and one.prevotes[number] == proposals[number].value
        for number in range(1, ROUNDS)
        for one in Validator
    )


@exists
def proof_unlocks():
    """A locked validator prevotes for another value, which received its prevotes after the lock."""
    return any(
        one.precommits[0] == 0 and one.locked_round == 0 and one.prevotes[number] == 1
        for number in range(2, ROUNDS)
        for one in Validator
    )
