"""The properties that one exploration of zones decides together, as cases and questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veristream.ir.disjuncts import Disjunct, negate, split
from veristream.ir.expr import TRUE, Binary, Expr, IsDone, Unary
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.property import Always, DeadlockFree, Property, Reachable
from veristream.ir.vacuity import antecedents
from veristream.kernel.layout import Row, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.search.safety import Case
from veristream.search.zones.explore import ZoneExploration
from veristream.search.zones.watch import Questions


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The cases of a group of properties, the questions that decide them, and the kernel that answers.

    Values of measured clocks are distinguished up to `reach`.
    """

    network: Network
    reach: int
    questions: Questions
    cases: tuple[Case, ...]
    kernel: Kernel

    def initial(self) -> Row:
        """The initial state, in which all clocks are 0."""
        return encode(self.kernel.layout, self.network, TimedInterpreter(self.network).untimed.initial())

    def explore(self, memory_max_mib: int | None) -> ZoneExploration:
        """An exploration without any zone yet."""
        return ZoneExploration(
            self.network,
            self.questions.watch(),
            self.kernel,
            self.questions.bounds(exact=False, reach=self.reach),
            self.questions.watched(),
            memory_max_mib,
        )


def inquire(network: Network, group: Sequence[Property], reach: int) -> Inquiry:
    """The inquiry for a group of properties; compiles or loads its kernel."""
    questions, cases = pose(network, group)
    return Inquiry(network, reach, questions, cases, load_kernel(network, questions.watch()))


def pose(network: Network, group: Sequence[Property]) -> tuple[Questions, tuple[Case, ...]]:
    """The questions that decide a group of properties."""
    questions = Questions(network)
    return questions, tuple(_case(questions, one) for one in group)


def _case(questions: Questions, property_: Property) -> Case:
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
    case_ = Case(property_, claim, number, questions.measure_of[number])
    for premise in antecedents(property_):
        case_.premises.append((questions.ask(split(premise)), premise))
    return case_


def terminated(network: Network) -> Expr:
    """Holds in the states in which the network may end."""
    ended: Expr = TRUE
    for component in network.components:
        ended = Binary("and", ended, IsDone(component.name))
    return ended if network.terminal is None else Binary("or", network.terminal, ended)
