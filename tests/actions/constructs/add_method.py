"""A role with methods that are called like those of collections."""

from veristream.actions import *


class Account(Role, count=2):
    coins: Set[Int[0, 2]] = set()
    log: Seq[Int[0, 2], 2] = []

    def add(self, n):
        self.coins.add(n)
        self.append(n)

    def append(self, n):
        if len(self.log) < 2:
            self.log.append(n)

    def clear(self):
        self.coins.clear()
        self.log.clear()

    @action
    def remove(self):
        n = any_of(self.coins)
        self.coins.remove(n)
        if len(self.coins) == 0:
            self.clear()

    @action
    def pay(self, n: Int[0, 2]):
        require(n not in self.coins)
        self.add(n)
        other = Account[1 - self.id]
        if n in other.coins:
            other.clear()


@always
def short():
    return all(len(a.log) <= 2 for a in Account)
