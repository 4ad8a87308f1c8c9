"""A farmer takes a wolf, a goat and a cabbage across a river, in a boat with room for one of them.

Alcuin's problem XVIII (*Propositiones ad acuendos juvenes*, about 800). Of the 16 placements 10 are
safe and reachable; the shortest solution takes 7 crossings.
"""

from veristream.actions import *


class Bank(Enum):
    LEFT = 0
    RIGHT = 1


class Passenger(Enum):
    WOLF = 0
    GOAT = 1
    CABBAGE = 2


farmer: Bank = Bank.LEFT
bank: Map[Passenger, Bank] = Bank.LEFT


def other(side):
    return Bank.RIGHT if side == Bank.LEFT else Bank.LEFT


def stays(passenger, companion):
    """The passenger is where the farmer leaves from, and is not taken along."""
    return bank[passenger] == farmer and companion != passenger


@action
def cross(companion: Maybe[Passenger]):
    global farmer
    require(companion is None or bank[companion] == farmer)
    require(not (stays(Passenger.GOAT, companion) and stays(Passenger.WOLF, companion)))
    require(not (stays(Passenger.GOAT, companion) and stays(Passenger.CABBAGE, companion)))
    farmer = other(farmer)
    if companion is not None:
        bank[companion] = farmer


def all_across():
    return farmer == Bank.RIGHT and all(bank[p] == Bank.RIGHT for p in Passenger)


@always
def never_across():
    """Violated: the counterexample is the solution."""
    return not all_across()


@always
def nothing_is_eaten():
    goat = bank[Passenger.GOAT]
    return goat == farmer or (bank[Passenger.WOLF] != goat and bank[Passenger.CABBAGE] != goat)


@transition
def the_boat_needs_its_farmer():
    return after(farmer) != farmer


@transition
def the_boat_has_one_seat():
    return sum(after(bank[p]) != bank[p] for p in Passenger) <= 1


no_deadlock = deadlock_free()
