"""Single-decree Paxos: acceptors agree on one value, whoever proposes.

`Paxos.tla` of L. Lamport's lecture *How to win a Turing award* (2019), after *The part-time parliament*
(1998): three acceptors, any two of them a quorum, ballots that anyone may lead. Messages can be read
late, again or never, so the network is what each process has ever said. For two ballots and two values
the TLA+ examples list 3,921 states. Agreement holds; a proposer that does not heed the votes it hears
of (`-D HEEDFUL=0`) breaks it. The last ballot has no rival, so something is chosen at the end.
"""

from veristream.actions import *

BALLOTS = constant(2)
VALUES = constant(2)
HEEDFUL = constant(1)

NEVER = -1


class Promise(Record):
    """Phase 1b: not to vote in earlier ballots, with the last vote so far."""

    given: bool = False
    voted_in: Int[-1, BALLOTS - 1] = NEVER
    value: Maybe[Int[0, VALUES - 1]] = None


begun: Set[Int[0, BALLOTS - 1]] = set()  # phase 1a
proposals: Map[Int[0, BALLOTS - 1], Maybe[Int[0, VALUES - 1]]] = None  # phase 2a


class Acceptor(Role, count=3):
    promised: Int[-1, BALLOTS - 1] = NEVER
    voted_in: Int[-1, BALLOTS - 1] = NEVER
    value: Maybe[Int[0, VALUES - 1]] = None
    promises: Map[Int[0, BALLOTS - 1], Promise] = Promise()  # phase 1b
    votes: Map[Int[0, BALLOTS - 1], Maybe[Int[0, VALUES - 1]]] = None  # phase 2b

    @action(fair="weak")
    def promise(self):
        ballot = any_of(begun)
        require(ballot > self.promised)
        self.promised = ballot
        self.promises[ballot] = Promise(given=True, voted_in=self.voted_in, value=self.value)

    @action(fair="weak")
    def vote(self, ballot: Int[0, BALLOTS - 1]):
        require(proposals[ballot] is not None and self.votes[ballot] is None)
        require(ballot >= self.promised)
        self.promised = ballot
        self.voted_in = ballot
        self.value = proposals[ballot]
        self.votes[ballot] = proposals[ballot]


@action(fair="weak")
def begin(ballot: Int[0, BALLOTS - 1]):
    require(ballot not in begun)
    begun.add(ballot)


def latest(a, quorum, ballot):
    """No other promise of the quorum speaks of a later vote than this acceptor's."""
    return all(b.promises[ballot].voted_in <= a.promises[ballot].voted_in for b in quorum)


def is_free(quorum, ballot):
    """Nobody in the quorum had voted."""
    return all(a.promises[ballot].voted_in == NEVER for a in quorum)


@action(fair="weak")
def propose(ballot: Int[0, BALLOTS - 1], value: Int[0, VALUES - 1], absent: Acceptor):
    require(proposals[ballot] is None)
    quorum = {a for a in Acceptor if a != absent}
    require(all(a.promises[ballot].given for a in quorum))
    require(
        HEEDFUL == 0
        or is_free(quorum, ballot)
        or any(latest(a, quorum, ballot) and a.promises[ballot].value == value for a in quorum)
    )
    proposals[ballot] = value


def chosen(value):
    """Two of the three acceptors voted for the value in the same ballot."""
    return any(sum(a.votes[ballot] == value for a in Acceptor) >= 2 for ballot in range(BALLOTS))


@always
def agreement():
    return not any(chosen(v) and chosen(w) for v in range(VALUES) for w in range(VALUES) if v != w)


@always
def nothing_is_chosen():
    """Violated: the counterexample is the shortest way to a decision, one ballot of six steps."""
    return not any(chosen(v) for v in range(VALUES))


@always
def who_votes_keeps_the_promise():
    return all(a.voted_in <= a.promised for a in Acceptor)


@transition
def what_is_chosen_stays_chosen(v: Int[0, VALUES - 1]):
    return not chosen(v) or after(chosen(v))


@eventually
def something_is_chosen():
    return any(chosen(v) for v in range(VALUES))
