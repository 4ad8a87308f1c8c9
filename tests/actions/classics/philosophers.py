"""Dining philosophers: each needs the two forks beside the own plate.

E. W. Dijkstra, *Hierarchical ordering of sequential processes* (1971). If all take the left fork
first they can starve together, in as many steps as there are philosophers. If one takes the right one
first (`-D DEVIANTS=1`) nobody starves.
"""

from veristream.actions import *

SEATS = constant(5)
DEVIANTS = constant(0)  # so many of them take the right fork first


class Philosopher(Role, count=SEATS):
    first: bool = False  # holds the first fork
    second: bool = False

    def left(self):
        return self.id

    def right(self):
        return (self.id + 1) % SEATS

    def first_fork(self):
        return self.right() if self.id < DEVIANTS else self.left()

    def second_fork(self):
        return self.left() if self.id < DEVIANTS else self.right()

    @action(fair="strong")
    def take_first(self):
        require(not self.first and forks[self.first_fork()] is None)
        forks[self.first_fork()] = self
        self.first = True

    @action(fair="strong")
    def take_second(self):
        require(self.first and not self.second and forks[self.second_fork()] is None)
        forks[self.second_fork()] = self
        self.second = True

    @action(fair="weak")
    def put_down(self):
        require(self.first and self.second)
        forks[self.first_fork()] = None
        forks[self.second_fork()] = None
        self.first = False
        self.second = False


forks: Map[Int[0, SEATS - 1], Maybe[Philosopher]] = None


def eats(p):
    return p.first and p.second


@always
def neighbours_do_not_eat_together():
    return not any(eats(p) and eats(Philosopher[p.right()]) for p in Philosopher)


@exists
def two_eat_at_once():
    return sum(eats(p) for p in Philosopher) == 2


@leads_to
def the_hungry_eat(p: Philosopher):
    return p.first, eats(p)


no_deadlock = deadlock_free()
