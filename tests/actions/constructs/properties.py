"""Properties: with parameters, of roles, of steps, with names and branches."""

from veristream.actions import *


class Epoch(Enum):
    OLD = 0
    NEW = 1


class Server(Role, count=2):
    term: Int[0, 3] = 0
    leader: Maybe[Server] = None
    log: Seq[Epoch, 2] = []

    @action(fair="weak")
    def campaign(self):
        require(self.term < 3)
        self.term += 1
        self.leader = self
        for s in Server:
            if s.term < self.term:
                s.leader = None

    @action(fair="strong")
    def follow(self, other: Server):
        require(other.leader == other and other.term >= self.term and other != self)
        self.leader = other
        self.term = other.term

    @action
    def write(self):
        require(self.leader is self and len(self.log) < 2)
        self.log.append(Epoch.NEW if self.term > 1 else Epoch.OLD)

    @always
    def follows_someone(self):
        if self.leader is None:
            return self.term < 4
        return self.leader.term >= 0 and self.log != [Epoch.NEW, Epoch.OLD]

    @transition
    def never_falls(self):
        return after(self.term) >= self.term and after(len(self.log)) - len(self.log) in {0, 1}

    @eventually(fairness="strong-process")
    def gets_far(self):
        return self.term == 3


@transition
def one_at_a_time(a: Server, b: Server):
    moved = after(a.term) != a.term
    other = after(b.term) != b.term
    return a == b or not (moved and other) or after(a.leader == b.leader)


@exists
def agree(s: Server, e: Epoch):
    return s.log == [e, e] and all(t.leader == s for t in Server)


@leads_to
def elected(s: Server):
    behind = s.term < 2
    return behind, not behind


@terminal
def done():
    return all(s.term == 3 for s in Server)


no_deadlock = deadlock_free()
