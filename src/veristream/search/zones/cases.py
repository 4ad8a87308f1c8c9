"""What one search of zones is asked: the properties of a group as cases, wherever zones are searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from veristream.ir.disjuncts import Disjunct, negate, split
from veristream.ir.expr import TRUE, Binary, Expr, IsDone, Unary
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.property import Always, DeadlockFree, Property, Reachable
from veristream.ir.vacuity import antecedents
from veristream.kernel.layout import Row, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.search.zones.explore import ZoneExploration
from veristream.search.zones.watch import Questions
from veristream.verdict import Effort, Verdict

TimedSafety = Always | Reachable | DeadlockFree


@dataclass(slots=True)
class TimedCase:
    """A property under search: its number among the questions, and its verdict once known."""

    property: Property
    claim: TimedSafety
    number: int
    premises: list[tuple[int, Expr]] = field(default_factory=list)
    verdict: Verdict | None = None
    effort: Effort | None = None


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The cases of a group of properties, the questions that decide them, and the kernel that answers;
    measured clocks are told apart up to `reach`."""

    network: Network
    reach: int
    questions: Questions
    cases: tuple[TimedCase, ...]
    kernel: Kernel

    def initial(self) -> Row:
        """The state to begin with, all clocks 0."""
        return encode(self.kernel.layout, self.network, TimedInterpreter(self.network).untimed.initial())

    def explore(self, memory_max_mib: int | None) -> ZoneExploration:
        """A search that nothing is in yet."""
        return ZoneExploration(
            self.network,
            self.questions.watch(),
            self.kernel,
            self.questions.bounds(exact=False, reach=self.reach),
            self.questions.watched(),
            memory_max_mib,
        )


def inquire(network: Network, group: Sequence[Property], reach: int) -> Inquiry:
    """The inquiry of some properties, its kernel compiled or loaded."""
    questions, cases = pose(network, group)
    return Inquiry(network, reach, questions, cases, load_kernel(network, questions.watch()))


def pose(network: Network, group: Sequence[Property]) -> tuple[Questions, tuple[TimedCase, ...]]:
    """The questions that some properties ask of a search."""
    questions = Questions(network)
    return questions, tuple(_case(questions, one) for one in group)


def _case(questions: Questions, property_: Property) -> TimedCase:
    claim = property_.claim
    match claim:
        case DeadlockFree():
            alive = Unary("not", terminated(questions.network))
            number = questions.ask((Disjunct(alive, deadlock=True),))
        case Always(condition=condition):
            number = questions.ask(negate(condition))
        case Reachable(condition=condition, optimise=optimise):
            number = questions.ask(split(condition), optimise)
        case _:
            raise AssertionError(f"not a safety property: {claim}")
    case_ = TimedCase(property_, claim, number)
    for premise in antecedents(property_):
        case_.premises.append((questions.ask(split(premise)), premise))
    return case_


def terminated(network: Network) -> Expr:
    """Whether a state without a step is where the network is meant to end."""
    ended: Expr = TRUE
    for component in network.components:
        ended = Binary("and", ended, IsDone(component.name))
    return ended if network.terminal is None else Binary("or", network.terminal, ended)
