"""Nondeterministic choices: from every kind of domain, dependent, empty, with repeated values."""

from veristream.actions import *


class Suit(Enum):
    HEARTS = 0
    SPADES = 1


class Hand(Role, count=2):
    cards: Set[Int[1, 3]] = {1, 2}
    order: Seq[Int[1, 3], 2] = [2, 2]
    suit: Suit = Suit.HEARTS

    @action
    def play(self):
        card = any_of(self.cards)
        target = any_of(Hand)
        require(card not in target.cards)
        other = any_of(target.cards)
        require(other != card)
        self.cards.remove(card)
        target.cards.add(card)
        target.suit = Suit.SPADES

    @action
    def pick(self):
        card = any_of(self.order)
        twice = one_of(card, 1, 1)
        self.suit = any_or_none(card, self.suit)
        self.order.pop(0)
        if twice != card:
            self.order.append(twice)

    @action
    def change(self, suit: Suit, really: bool):
        require(really or suit != self.suit)
        self.suit = suit


table: Map[Int[0, 1], Suit] = Suit.SPADES


def any_or_none(card, suit):
    if card == 1:
        return Suit.HEARTS
    kept = Suit.SPADES
    if card == 2:
        kept = suit
    return kept


@action
def flip():
    k = any_of(table)
    suit = any_of(Suit)
    n = any_of(range(2, 4))
    require(suit != table[k] and n == 2)
    table[k] = suit


@terminal
def no_cards():
    return all(h.order == [] for h in Hand)
