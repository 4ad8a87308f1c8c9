"""Votes and crashes: a validator's vote is on disk before anybody sees it.

One round of Tendermint (`tendermint.py`): correct validators prevote for any proposal and precommit
what has its prevotes. A vote is made in memory, its record becomes durable later, together with all
others that wait, and it is sent. A crash takes whatever is not durable, but not what was sent. The
Byzantine validator's votes all count as sent, and its proposals too. An operator may lose a validator's
folder of votes once it is down.
"""

from veristream.actions import *

HONEST = constant(3)
BYZANTINE = constant(1)
QUORUM = constant(3)
VALUES = constant(2)
CRASHES = constant(2)  # of all validators
LOSSES = constant(1)  # of folders

DURABLE_FIRST = constant(True)  # 0: a vote may be sent before its record is durable
READS_BACK = constant(True)  # 0: a validator does not read its records when it starts
REFUSES_LOSS = constant(True)  # 0: a validator whose records are gone starts as if it had never voted

NONE = -1
PREVOTE = 0
PRECOMMIT = 1

crashes: Int[0, CRASHES] = 0
losses: Int[0, LOSSES] = 0


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


class Validator(Role, count=HONEST, symmetric=True):
    """A correct validator at one height."""

    up: bool = True
    voted: Map[Int[0, 1], Int[NONE, VALUES - 1]] = NONE  # in memory
    durable: Map[Int[0, 1], Int[NONE, VALUES - 1]] = NONE
    lost: bool = False  # its folder is gone, which it notices
    sent: Map[Int[0, 1], Set[Int[0, VALUES - 1]]] = set()

    @action
    def vote(self, step: Int[0, 1], value: Int[0, VALUES - 1]):
        """Makes one vote of each step, and no vote at this height after a loss."""
        require(self.up and self.voted[step] == NONE and not (REFUSES_LOSS and self.lost))
        require(step == PREVOTE or has(PREVOTE, value))
        self.voted[step] = value

    @action(fair="weak")
    def sync(self):
        require(self.up and any(self.durable[step] != self.voted[step] for step in range(2)))
        for step in range(2):
            self.durable[step] = self.voted[step]

    @action(fair="weak")
    def send(self, step: Int[0, 1]):
        require(self.up and self.voted[step] != NONE and self.voted[step] not in self.sent[step])
        require(not DURABLE_FIRST or self.durable[step] == self.voted[step])
        self.sent[step].add(self.voted[step])

    @action
    def crash(self):
        global crashes
        require(self.up and crashes < CRASHES)
        crashes += 1
        self.up = False
        for step in range(2):
            self.voted[step] = NONE

    @action
    def lose(self):
        """The folder of votes is deleted; what the validator sent before is not."""
        global losses
        require(not self.up and losses < LOSSES)
        losses += 1
        self.lost = True
        for step in range(2):
            self.durable[step] = NONE

    @action(fair="weak")
    def restart(self):
        require(not self.up)
        self.up = True
        for step in range(2):
            self.voted[step] = self.durable[step] if READS_BACK else NONE


def has(step, value):
    """Whether a quorum may have sent this vote."""
    return sum(value in one.sent[step] for one in Validator) + BYZANTINE >= QUORUM


@always
def votes_once(one: Validator, step: Int[0, 1]):
    """No correct validator sends two votes of one step."""
    return len(one.sent[step]) <= 1


@always
def agreement():
    return sum(has(PRECOMMIT, value) for value in range(VALUES)) <= 1


@always
def one_polka():
    """At most one value has its prevotes."""
    return sum(has(PREVOTE, value) for value in range(VALUES)) <= 1


@always
def sent_is_durable(one: Validator, step: Int[0, 1]):
    """What others may have seen is on disk, unless the folder was lost."""
    return one.lost or all(value == one.durable[step] for value in one.sent[step])


@leads_to
def durable_is_sent(one: Validator, step: Int[0, 1]):
    """A vote that became durable is sent, even if the validator crashes in between."""
    return one.durable[step] != NONE, len(one.sent[step]) > 0 or one.lost


@exists
def sender_is_down():
    """A validator that others have heard from has nothing but its records."""
    return any(not one.up and not one.lost and 0 in one.sent[PRECOMMIT] for one in Validator)


@exists
def others_decide_without_the_loser():
    return has(PRECOMMIT, 0) and any(
        one.lost and one.up and one.sent[PRECOMMIT] == set() for one in Validator
    )
