"""Dijkstra's self-stabilising token ring: from any state it comes to have exactly one token.

E. W. Dijkstra, *Self-stabilizing systems in spite of distributed control* (1974), the solution with
K-state machines. Machine 0 holds the token while it equals its left neighbour, the others while they
differ. With n machines K = n - 1 values are enough; with K = n - 2 some runs never stabilise.
The paper lets the ring begin in any state; here every machine wakes up with any value.
"""

from veristream.actions import *

MACHINES = constant(4)
K = constant(3)


class Machine(Role, count=MACHINES):
    awake: bool = False
    value: Int[0, K - 1] = 0

    def left(self):
        return Machine[(self.id + MACHINES - 1) % MACHINES]

    def has_token(self):
        if self.id == 0:
            return self.value == self.left().value
        return self.value != self.left().value

    @action(fair="weak")
    def wake_up(self, value: Int[0, K - 1]):
        require(not self.awake)
        self.awake = True
        self.value = value

    @action(fair="weak")
    def pass_token(self):
        require(all_awake() and self.has_token())
        if self.id == 0:
            self.value = (self.value + 1) % K
        else:
            self.value = self.left().value


def all_awake():
    return all(m.awake for m in Machine)


def tokens():
    return sum(m.has_token() for m in Machine)


def is_stable():
    return all_awake() and tokens() == 1


@always
def there_is_a_token():
    return tokens() >= 1


@transition
def tokens_never_increase():
    return not all_awake() or after(tokens()) <= tokens()


@transition
def stays_stable():
    return not is_stable() or after(is_stable())


@eventually
def stabilises():
    return is_stable()


@leads_to
def the_token_comes_round(m: Machine):
    return is_stable(), is_stable() and m.has_token()


@exists
def begins_with_many_tokens():
    return all_awake() and tokens() == MACHINES


no_deadlock = deadlock_free()
