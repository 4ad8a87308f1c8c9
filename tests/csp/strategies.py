"""Random CSP# specifications, small enough to explore and with bounded parallelism.

A process refers to itself or to an earlier one only after a prefix and in the last place, so recursion
never creates more and more branches; it may refer to a later one anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from veristream.languages.csp import syntax as csp

DEFINITIONS = 4
EVENTS = ("a", "b", "c")


@dataclass
class Maker:
    """Draws the parts of a specification."""

    draw: st.DrawFn
    bound: tuple[str, ...] = ()
    fresh: int = 0

    def pick(self, *options: object) -> object:
        return self.draw(st.sampled_from(options))

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(1, one_in)) == 1

    def number(self, depth: int = 1) -> csp.Expr:
        kind = self.pick("number", "number", "global", "bound", "sum" if depth else "number")
        if kind == "bound" and self.bound:
            return csp.Bound(self.draw(st.sampled_from(self.bound)))
        if kind == "global":
            return csp.Global(self.draw(st.sampled_from(("x", "y"))))
        if kind == "sum":
            total = csp.Binary("+", self.number(0), self.number(0))
            return csp.Binary("%", total, csp.Number(3))
        return csp.Number(self.draw(st.integers(0, 2)))

    def known(self) -> csp.Expr:
        """Draws a number or a bound name; an alphabet can be computed only from numbers."""
        if self.bound and self.chance(2):
            return csp.Bound(self.draw(st.sampled_from(self.bound)))
        return csp.Number(self.draw(st.integers(0, 1)))

    def condition(self) -> csp.Expr:
        op = self.draw(st.sampled_from(("==", "!=", "<", "<=")))
        return csp.Binary(op, self.number(), self.number())

    def event(self) -> csp.Event:
        arguments = (self.known(),) if self.chance(3) else ()
        return csp.Event(self.draw(st.sampled_from(EVENTS)), arguments)

    def program(self) -> csp.Program | None:
        if not self.chance(3):
            return None
        target = csp.Global(self.draw(st.sampled_from(("x", "y"))))
        return (csp.Assign(target, csp.Binary("%", self.number(), csp.Number(3))),)

    def later(self, here: int) -> csp.Process:
        if here + 1 >= DEFINITIONS:
            return csp.Skip() if self.chance(2) else csp.Stop()
        return self.ref(self.draw(st.integers(here + 1, DEFINITIONS - 1)))

    def ref(self, number: int) -> csp.Ref:
        return csp.Ref(f"P{number}", (self.known(),) if number % 2 else ())

    def process(self, here: int, depth: int, tail: bool) -> csp.Process:
        if depth == 0:
            return csp.Skip() if self.chance(3) else self.later(here)
        kind = self.pick(
            *("prefix", "prefix", "prefix", "prefix", "output", "input", "choice", "choice", "guard"),
            *("if", "sequence", "sequence", "parallel", "parallel", "interrupt", "hide", "atomic"),
            *("case", "internal", "ref", "skip"),
        )
        smaller = depth - 1
        match kind:
            case "prefix":
                event = None if self.chance(6) else self.event()
                return csp.Prefix(event, self.program(), self.after(here, smaller, tail))
            case "output" | "input":
                return self.communication(here, smaller, tail, kind == "output")
            case "choice":
                choice: csp.ChoiceKind = "external" if self.chance(3) else "general"
                return csp.Choice(choice, self.several(here, smaller, tail))
            case "internal":
                return csp.Choice("internal", self.several(here, smaller, tail))
            case "guard":
                return csp.Guard(self.condition(), self.process(here, smaller, tail))
            case "if":
                first, second = self.several(here, smaller, tail)
                return csp.Conditional(self.condition(), first, second, atomic=self.chance(2))
            case "case":
                first, second = self.several(here, smaller, tail)
                return csp.Case(((self.condition(), first),), second)
            case "sequence":
                first = self.process(here, smaller, False)
                return csp.Sequence(first, self.process(here, smaller, False))
            case "parallel":
                return csp.Parallel(self.chance(2), self.several(here, smaller, False))
            case "interrupt":
                return csp.Interrupt(*self.several(here, smaller, False))
            case "hide":
                hidden = (csp.Events(csp.Event("a")), csp.Events(csp.Event("b", (csp.Number(1),))))
                return csp.Hide(self.process(here, smaller, False), hidden)
            case "atomic":
                return csp.Atomic(self.process(here, smaller, False))
            case "ref":
                return self.later(here)
            case _:
                return csp.Skip()

    def several(self, here: int, depth: int, tail: bool) -> tuple[csp.Process, csp.Process]:
        return (self.process(here, depth, tail), self.process(here, depth, tail))

    def after(self, here: int, depth: int, tail: bool) -> csp.Process:
        if tail and self.chance(2):
            return self.ref(self.draw(st.integers(0, here)))
        return self.process(here, depth, tail)

    def communication(self, here: int, depth: int, tail: bool, output: bool) -> csp.Process:
        channel = self.draw(st.sampled_from(("r", "r", "q")))
        if output:
            values = (self.number(),)
            return csp.Output(channel, (), values, None, self.after(here, depth, tail))
        if self.chance(3):
            return csp.Input(channel, (), (self.known(),), None, None, self.after(here, depth, tail))
        self.fresh += 1
        name = f"n{self.fresh}"
        outer = self.bound
        self.bound = (*outer, name)
        condition = self.condition() if self.chance(4) else None
        then = self.after(here, depth, tail)
        self.bound = outer
        return csp.Input(channel, (), (csp.Binder(name),), condition, self.program(), then)


@st.composite
def specifications(draw: st.DrawFn) -> csp.Specification:
    """Draws a specification with processes P0 (the root) to P3; those with odd numbers have a parameter."""
    definitions = []
    for number in range(DEFINITIONS):
        maker = Maker(draw, ("i",) if number % 2 else ())
        parameters = (csp.Parameter("i"),) if number % 2 else ()
        depth = 3 if number == 0 else 2
        definitions.append(csp.Definition(f"P{number}", parameters, maker.process(number, depth, True)))
    return csp.Specification(
        (csp.Variable("x"), csp.Variable("y", initial=(1,))),
        (csp.Channel("r", 0), csp.Channel("q", 1)),
        tuple(definitions),
        (),
    )
