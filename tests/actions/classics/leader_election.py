"""Leader election on a ring of one direction: the greatest name goes round and wins.

E. Chang and R. Roberts, *An improved algorithm for decentralized extrema-finding in circular
configurations of processes* (1979). A node passes on names greater than its own and swallows smaller
ones. With n nodes it takes n (n + 1) / 2 messages at worst, when the names fall in the direction of
the messages, and 2 n - 1 at best, when they rise (`-D FALLING=0`).
"""

from veristream.actions import *

NODES = constant(5)
FALLING = constant(1)

WORST = NODES * (NODES + 1) // 2
BEST = 2 * NODES - 1

messages: Int[0, WORST] = 0


class Node(Role, count=NODES):
    """The number of a node is its name."""

    inbox: Seq[Int[0, NODES - 1], NODES] = []
    awake: bool = False
    leader: bool = False

    def next(self):
        return Node[(self.id + NODES - 1) % NODES if FALLING == 1 else (self.id + 1) % NODES]

    def send(self, name):
        global messages
        self.next().inbox.append(name)
        messages += 1

    @action(fair="weak")
    def wake_up(self):
        require(not self.awake)
        self.awake = True
        self.send(self.id)

    @action(fair="weak")
    def receive(self):
        require(self.awake and self.inbox != [])
        name = self.inbox.pop(0)
        if name > self.id:
            self.send(name)
        elif name == self.id:
            self.leader = True


@always
def at_most_one_leader():
    return sum(n.leader for n in Node) <= 1


@always
def only_the_greatest_leads():
    return all(not n.leader or n.id == NODES - 1 for n in Node)


@always
def few_messages():
    """Violated in the worst order: there are more than in the best one."""
    return messages <= BEST


@always
def the_election_is_over_in_the_end():
    return not any(n.leader for n in Node) or all(n.inbox == [] for n in Node)


@eventually
def somebody_leads():
    return any(n.leader for n in Node)


@terminal
def elected():
    return Node[NODES - 1].leader and messages == (WORST if FALLING == 1 else BEST)


no_deadlock = deadlock_free()
