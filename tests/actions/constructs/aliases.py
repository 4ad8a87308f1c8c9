"""Names for collections refer to the state itself, with the index at the time of naming."""

from veristream.actions import *

index: Int[0, 1] = 0
sets: Map[Int[0, 1], Set[Int[0, 2]]] = set()
queues: Map[Int[0, 1], Seq[Int[0, 2], 2]] = []
heads: Seq[Int[0, 1], 2] = [0, 1]


@action
def name_first():
    global index
    mine = sets[index]
    queue = queues[index]
    index = 1 - index
    mine.add(len(queue))
    queue.append(index)
    if 1 in mine and index == 1:
        mine.discard(1)
        queue.clear()


@action
def path_in_itself():
    """Which queue loses its head depends on that head."""
    require(len(heads) == 2 and len(queues[heads[0]]) > 0)
    queues[queues[heads[0]][0] % 2].append(heads[0])
    queues[heads[0]].pop(0)
    heads.pop(0)


@action
def refill():
    global index
    require(len(heads) < 2)
    heads.append(index)
    for n in sets[index]:
        index = n % 2
    sets[index] |= {2}


@action
def replace_all():
    require(len(sets[0]) == 3)
    sets[0] = sets[1] - {0}
    sets[0].add(0)
    queues[1] = queues[0]
    queues[1].clear()


@always
def short():
    return len(queues[0]) + len(queues[1]) <= 4
