"""A ticket lock: take the next number, wait until it is called.

Mellor-Crummey and Scott, *Algorithms for scalable synchronization on shared-memory multiprocessors*
(1991), section 2.2; the idea is Reed and Kanodia's (1979). It excludes and is first come, first
served. Numbers are reused after `NUMBERS` of them: as many as there are processes are enough, and
with fewer (`-D NUMBERS=2`) two processes hold the same number.
"""

from veristream.actions import *

PROCESSES = constant(3)
NUMBERS = constant(3)

next_ticket: Int[0, NUMBERS - 1] = 0
now_serving: Int[0, NUMBERS - 1] = 0


class Process(Role, count=PROCESSES):
    ticket: Maybe[Int[0, NUMBERS - 1]] = None
    critical: bool = False

    @action
    def take_ticket(self):
        """One atomic fetch-and-increment; nobody has to take a ticket."""
        global next_ticket
        require(self.ticket is None)
        self.ticket = next_ticket
        next_ticket = (next_ticket + 1) % NUMBERS

    @action(fair="weak")
    def enter(self):
        require(self.ticket == now_serving and not self.critical)
        self.critical = True

    @action(fair="weak")
    def leave(self):
        global now_serving
        require(self.critical)
        self.critical = False
        self.ticket = None
        now_serving = (now_serving + 1) % NUMBERS


def waits(p):
    return p.ticket is not None and not p.critical


@always
def mutual_exclusion():
    return sum(p.critical for p in Process) <= 1


def ahead(p):
    """How many are served before this one."""
    return (p.ticket - now_serving) % NUMBERS


@transition
def nobody_is_overtaken(p: Process):
    return not waits(p) or after(p.critical) or after(ahead(p)) <= ahead(p)


@always
def tickets_differ():
    return all(p.ticket is None or p.ticket != q.ticket for p in Process for q in Process if p != q)


@leads_to
def who_waits_comes_in(p: Process):
    return waits(p), p.critical


no_deadlock = deadlock_free()
