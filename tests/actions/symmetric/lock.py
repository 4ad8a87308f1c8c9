"""A lock service whose clients are all alike: requests on their way, a queue, a holder.

Every place where an instance can stand is used: as the owner of state, as a value, in a set, in a
sequence and in the records of a bag.
"""

from veristream.actions import *

N = constant(3)


class Phase(Enum):
    IDLE = 0
    WAIT = 1
    CRIT = 2


class Client(Role, count=N, symmetric=True):
    phase: Phase = Phase.IDLE
    friend: Maybe[Client] = None

    @action
    def ask(self):
        require(self.phase == Phase.IDLE)
        net.add(Message(self, True))
        self.phase = Phase.WAIT

    @action
    def enter(self):
        require(holder == self and self.phase == Phase.WAIT)
        self.phase = Phase.CRIT

    @action
    def leave(self):
        global holder
        require(self.phase == Phase.CRIT)
        self.phase = Phase.IDLE
        holder = None
        f = self
        seen.add(f)
        self.friend = f


class Message(Record):
    sender: Client
    flag: bool


net: Bag[Message, N] = []
holder: Maybe[Client] = None
seen: Set[Client] = set()
queue: Seq[Client, N] = []


@action
def accept():
    m = any_of(net)
    net.remove(m)
    queue.append(m.sender)


@action
def grant():
    global holder
    require(holder is None and len(queue) > 0)
    holder = queue.pop(0)


@always
def mutex():
    return all(
        a == b or not (a.phase == Phase.CRIT and b.phase == Phase.CRIT) for a in Client for b in Client
    )


@always
def wrong():
    return len(seen) < 2


@transition
def grows():
    return len(after(seen)) >= len(seen)


@exists
def two():
    return len(queue) == 2


free = deadlock_free()
