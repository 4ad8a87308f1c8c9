"""How the actions of a network depend on each other, as bit sets of actions.

The relations are those of guard-based stubborn sets (Laarman, Pater, van de Pol, Hansen, "Guard-based
partial-order reduction", STTT 18, 2016):

- Two actions *clash* if they can be possible in the same state and one of them writes what the other reads
  or writes. Actions that do not clash commute, and neither enables, disables or changes the failure of the
  other.
- The *necessary set* of a condition contains every action that may make it true. While the condition is
  false and none of them is taken, it stays false.

An action that fails counts as possible: it satisfies all conditions that stand before its failing test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from veristream.ir.actions import Action, list_actions
from veristream.ir.expr import Const, Expr
from veristream.ir.network import LocationKind, Network
from veristream.ir.property import Occurs, Silent
from veristream.ir.remembered import remembered
from veristream.search.reduction.conditions import Condition, Conditions, Of
from veristream.search.reduction.cycles import returning_actions
from veristream.search.reduction.places import with_locals
from veristream.search.reduction.steps import Step, Steps

NONE = -1


@dataclass(frozen=True, slots=True)
class Needs:
    """A conjunction: the numbers of its conditions, and of the necessary set of its rest or NONE."""

    conditions: tuple[int, ...]
    rest: int


@dataclass(frozen=True, slots=True)
class Goal:
    """A state proposition that the search looks for; `visible` are the actions that may change it."""

    needs: Needs
    visible: int


@dataclass(frozen=True, slots=True)
class Relations:
    """`necessary` has the set of each condition, then those of the rests."""

    conditions: tuple[Condition, ...]
    necessary: tuple[int, ...]
    actions: tuple[Needs, ...]
    clashes: tuple[int, ...]
    goals: tuple[Goal, ...]
    may_fault: bool  # some action may fail at run time
    # For a property of runs:
    returning: int = 0  # the actions that may be on a cycle of states
    watched: int = 0  # the actions that no cycle may put off: those that are visible or may fail


def unsupported(network: Network) -> str | None:
    """Why the reduction does not apply to the network; None if it does."""
    if network.timed:
        return "clocks relate all actions"
    places = [place for component in network.components for place in component.locations]
    if any(place.kind in (LocationKind.COMMITTED, LocationKind.ATOMIC) for place in places):
        return "priorities relate all actions"
    if any(place.invariant is not None for place in places):
        return "invariants of locations relate all actions"
    return None


def relate(network: Network, goals: Sequence[Expr] = ()) -> Relations:
    """The relations between the actions of a network that the reduction supports."""
    assert unsupported(network) is None
    return _Relating(*_described(network)).relate(goals)


@remembered
def _described(network: Network) -> tuple[Steps, list[Step]]:
    """The actions of the network."""
    steps = Steps(network)
    return steps, [steps.describe(action) for action in list_actions(network)]


def relate_runs(
    network: Network, conditions: Sequence[Expr], occurrences: Sequence[Occurs | Silent]
) -> Relations:
    """The relations for a property of runs, with these state and action propositions: its one goal tells
    which actions it can see, and needs nothing."""
    found = relate(network, conditions)
    actions = list_actions(network)
    visible = 0
    for goal in found.goals:
        visible |= goal.visible
    for number, action in enumerate(actions):
        if any(_may_occur(action, one) for one in occurrences):
            visible |= 1 << number
    failing = sum(1 << number for number, step in enumerate(_described(network)[1]) if step.may_fault)
    return replace(
        found,
        goals=(Goal(Needs((), NONE), visible),),
        returning=returning_actions(network, actions),
        watched=visible | failing,
    )


def _may_occur(action: Action, proposition: Occurs | Silent) -> bool:
    """Whether a step of the action may satisfy the proposition."""
    match proposition:
        case Silent():
            return not action.visible
        case Occurs(name=name, arguments=wanted):
            given = action.label.arguments
            if name != action.label.name or wanted is None:
                return name == action.label.name
            return len(wanted) == len(given) and not any(
                want is not None and isinstance(one, Const) and one.value != want
                for want, one in zip(wanted, given, strict=True)
            )


class _Relating:
    """Collects the relations of one network."""

    def __init__(self, steps: Steps, described: list[Step]) -> None:
        self.steps, self.described = steps, described
        count = steps.places.count
        self.readers, self.writers = [0] * count, [0] * count
        self.arrivals: dict[tuple[int, int], int] = {}
        for number, step in enumerate(described):
            for place in step.footprint.reads:
                self.readers[place] |= 1 << number
            for place in step.footprint.writes:
                self.writers[place] |= 1 << number
            for arrival in step.reaches:
                self.arrivals[arrival] = self.arrivals.get(arrival, 0) | 1 << number
        self.numbers: dict[Condition, int] = {}
        self.rests: dict[int, int] = {}  # a necessary set, and its number among the rests

    def relate(self, goals: Sequence[Expr]) -> Relations:
        """The relations, with one goal for each proposition."""
        actions = [self._needs(step.known, step.rest) for step in self.described]
        wanted = [self._goal(goal) for goal in goals]
        first = len(self.numbers)

        def numbered(needs: Needs) -> Needs:
            return Needs(needs.conditions, needs.rest if needs.rest == NONE else first + needs.rest)

        return Relations(
            tuple(self.numbers),
            (*map(self._enabling, self.numbers), *self.rests),
            tuple(map(numbered, actions)),
            tuple(self._clashes()),
            tuple(Goal(numbered(goal.needs), goal.visible) for goal in wanted),
            any(step.may_fault for step in self.described),
        )

    def _needs(self, known: Iterable[Condition], rest: Iterable[int] | None) -> Needs:
        numbers = tuple(self.numbers.setdefault(one, len(self.numbers)) for one in known)
        if rest is None:
            return Needs(numbers, NONE)
        return Needs(numbers, self.rests.setdefault(self._writers(rest), len(self.rests)))

    def _goal(self, goal: Expr) -> Goal:
        folded = self.steps.folding.fold(goal)
        names = with_locals(self.steps.places.names, folded)
        found = Conditions(self.steps.places, self.steps.faults)
        found.evaluate(folded, names)
        reads = self.steps.places.footprint(folded, names).reads
        rest = found.rest if found.has_rest else None
        return Goal(self._needs(found.known, rest), self._writers(reads))

    def _writers(self, places: Iterable[int]) -> int:
        found = 0
        for place in places:
            found |= self.writers[place]
        return found

    def _enabling(self, condition: Condition) -> int:
        """The actions that may make the condition true."""
        places = self.steps.places
        match condition:
            case Condition(of=Of.VALUE, number=element):
                return self.writers[element]
            case Condition(of=Of.LENGTH, number=queue, op="<"):
                return self.writers[places.head(queue)]
            case Condition(of=Of.LENGTH, number=queue):
                return self.writers[places.tail(queue)]
            case Condition(of=Of.LOCATION, number=component, op="==", value=location):
                return self.arrivals.get((component, location), 0)
            case Condition(number=component):
                return self.writers[places.at(component)]

    def _clashes(self) -> list[int]:
        apart = self._apart()
        found = []
        for number, step in enumerate(self.described):
            clashing = self._writers(step.footprint.reads)
            for place in step.footprint.writes:
                clashing |= self.readers[place] | self.writers[place]
            found.append(clashing & ~apart[number])
        return found

    def _apart(self) -> list[int]:
        """For each action, those that are never possible in the same state: their conditions exclude it."""
        apart = [0] * len(self.described)
        by_number: dict[tuple[Of, int], dict[Condition, int]] = {}
        for number, step in enumerate(self.described):
            for one in step.known:
                same = by_number.setdefault((one.of, one.number), {})
                same[one] = same.get(one, 0) | 1 << number
        for same in by_number.values():
            for one, having in same.items():
                excluded = 0
                for other, others in same.items():
                    if _exclude(one, other):
                        excluded |= others
                for number in _bits(having if excluded else 0):
                    apart[number] |= excluded
        return apart


def _exclude(one: Condition, other: Condition) -> bool:
    """Whether no number satisfies both conditions."""
    if one.op == "==":
        return not other.allows(one.value)
    if other.op == "==":
        return not one.allows(other.value)
    low = max(_least(one), _least(other))
    high = min(_greatest(one), _greatest(other))
    return low > high


def _least(condition: Condition) -> float:
    match condition.op:
        case ">":
            return condition.value + 1
        case ">=":
            return condition.value
        case _:
            return float("-inf")


def _greatest(condition: Condition) -> float:
    match condition.op:
        case "<":
            return condition.value - 1
        case "<=":
            return condition.value
        case _:
            return float("inf")


def _bits(mask: int) -> Iterable[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
