"""Maps: by number, enum, role and bool; of records, of sets, of sequences."""

from veristream.actions import *


class Phase(Enum):
    IDLE = 0
    BUSY = 1


class Entry(Record):
    owner: Maybe[Int[1, 2]] = None
    count: Int[0, 2] = 1


class Worker(Role, count=2):
    jobs: Map[Phase, Set[Int[0, 1]]] = set()
    table: Map[Int[1, 2], Entry]

    @action
    def start(self, n: Int[0, 1]):
        require(n not in self.jobs[Phase.BUSY] and self.table[n + 1].count < 2)
        self.jobs[Phase.BUSY].add(n)
        self.jobs[Phase.IDLE] -= {n}
        self.table[n + 1].owner = self.id + 1
        self.table[n + 1].count += 1

    @action
    def finish(self):
        n = any_of(self.jobs[Phase.BUSY])
        done = self.jobs[Phase.IDLE]
        self.jobs[Phase.BUSY].remove(n)
        done.add(n)
        for other in Worker:
            if other != self:
                other.table[n + 1] = self.table[2 - n]
        queues[n == 1].append(self)


queues: Map[bool, Seq[Worker, 1]] = []
weights: Map[Phase, Int[0, 3]] = {Phase.IDLE: 3, Phase.BUSY: 1}


@action
def drain(side: bool):
    require(len(queues[side]) > 0 and len(queues[not side]) == 0)
    who = queues[side].pop(0)
    for phase in weights:
        weights[phase] = (weights[phase] + who.id + 1) % (len(weights) + 1)
    who.jobs[Phase.IDLE] = set()
    who.table[1] = Entry()


@always
def weighty():
    return sum(weights[p] for p in Phase) < 6 or all(
        w.table[k].owner is None for w in Worker for k in w.table
    )
