"""Leader election as in Raft: a server votes once in a term, and a majority of votes makes a leader.

D. Ongaro and J. Ousterhout, *In search of an understandable consensus algorithm* (2014), section 5.2.
Requests and votes can be late and lost, servers restart at any time. A term has at most one leader,
as long as a vote survives a restart; if it is forgotten (`-D PERSISTENT=0`) two can lead.
"""

from veristream.actions import *

SERVERS = constant(3)
TERMS = constant(2)
IN_FLIGHT = constant(1)
PERSISTENT = constant(1)


class State(Enum):
    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


class Kind(Enum):
    REQUEST = 0
    VOTE = 1


class Server(Role, count=SERVERS):
    state: State = State.FOLLOWER
    term: Int[0, TERMS] = 0
    voted_for: Maybe[Server] = None
    votes: Set[Server] = set()

    def step_to(self, term):
        """A newer term makes a follower of everyone."""
        if term > self.term:
            self.term = term
            self.state = State.FOLLOWER
            self.voted_for = None
            self.votes.clear()

    @action
    def time_out(self):
        require(self.state != State.LEADER and self.term < TERMS)
        self.term += 1
        self.state = State.CANDIDATE
        self.voted_for = self
        self.votes = {self}

    @action
    def request(self, peer: Server):
        require(self.state == State.CANDIDATE and peer != self and len(network) < IN_FLIGHT)
        message = Message(kind=Kind.REQUEST, term=self.term, sender=self, receiver=peer)
        require(message not in network)
        network.add(message)

    @action
    def answer(self):
        message = any_of(network)
        require(message.kind == Kind.REQUEST and message.receiver == self)
        network.remove(message)
        self.step_to(message.term)
        if message.term == self.term and self.voted_for in {None, message.sender}:
            self.voted_for = message.sender
            network.add(Message(Kind.VOTE, self.term, self, message.sender))

    @action
    def count(self):
        message = any_of(network)
        require(message.kind == Kind.VOTE and message.receiver == self)
        network.remove(message)
        if self.state == State.CANDIDATE and message.term == self.term:
            self.votes.add(message.sender)

    @action
    def lead(self):
        require(self.state == State.CANDIDATE and 2 * len(self.votes) > SERVERS)
        self.state = State.LEADER
        led.add(self.term)

    @action
    def restart(self):
        require(self.state != State.FOLLOWER or PERSISTENT == 0)
        self.state = State.FOLLOWER
        self.votes.clear()
        if PERSISTENT == 0:
            self.voted_for = None


class Message(Record):
    kind: Kind
    term: Int[1, TERMS]
    sender: Server
    receiver: Server


network: Bag[Message, IN_FLIGHT] = []
led: Set[Int[1, TERMS]] = set()  # terms that had a leader


@action
def lose():
    message = any_of(network)
    network.remove(message)


@always
def one_leader_a_term():
    return not any(
        s.state == State.LEADER and t.state == State.LEADER and s.term == t.term
        for s in Server
        for t in Server
        if s != t
    )


@transition
def a_term_never_falls(s: Server):
    return after(s.term) >= s.term


@transition
def nobody_leads_a_term_again(s: Server):
    """A leader of a term that had one already is a second one."""
    became_leader = s.state != State.LEADER and after(s.state) == State.LEADER
    return not became_leader or s.term not in led


@exists
def an_old_leader_stays():
    """Two servers can believe that they lead, in different terms."""
    return any(
        s.state == State.LEADER and t.state == State.LEADER and s.term < t.term
        for s in Server
        for t in Server
    )
