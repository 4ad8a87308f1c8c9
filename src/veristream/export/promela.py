"""Translates Networks to Promela for SPIN (Holzmann, "The SPIN Model Checker", Addison-Wesley 2003).

The whole state is in global variables; one process has one loop with one `d_step` for each action and
choice of values, so SPIN's states are exactly ours. A fault is a failed assertion. If a property asks for
deadlock freedom, SPIN's invalid end states are the deadlocks, and a proper end has a step to itself;
otherwise every end is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import assert_never

from veristream.errors import ModelError
from veristream.export.c_functions import Functions, indexes_itself, needs_c
from veristream.export.clike import Writer, cells_name, indent, length_name, variable_name
from veristream.export.commands import flatten
from veristream.export.flat import Command, Flat, specialise
from veristream.export.forward import forward
from veristream.export.names import Globals, Locals
from veristream.export.rewrite import all_of, any_of, children, negate
from veristream.ir import expr as ir
from veristream.ir import property as prop
from veristream.ir.network import FairnessMark, Network
from veristream.ir.walk import walk
from veristream.source import NOWHERE, Span


def to_promela(network: Network, ltl: prop.Property | None = None) -> str:
    """Returns the network in Promela, with the property as its `ltl` block if one is given.

    The formula of a `Reachable` property says that the goal is never reached. Raises ModelError for
    what SPIN does not support: clocks, values beyond 32 bits, actions and `X` in formulas, fairness.
    """
    if ltl is not None and isinstance(ltl.claim, prop.Temporal | prop.LeadsTo):
        _refuse_fairness(network, ltl)
    return _Exporter(flatten(network)).export(ltl)


def _refuse_fairness(network: Network, ltl: prop.Property) -> None:
    """Raises ModelError for fairness: SPIN's is about processes, and the translation has only one."""
    if ltl.fairness is not prop.Fairness.NONE:
        raise ModelError("fairness cannot be exported", ltl.span, "leave out `under ...`")
    for component in network.components:
        for edge in component.edges:
            if edge.fairness is not FairnessMark.NONE:
                raise ModelError("a fair edge cannot be exported", edge.span, "leave out `fair ...`")


class _Exporter:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.names = Globals()
        self.c = Functions(flat, self.names)
        self.failing: set[str] = set()  # commands that are functions and may fault
        self.guards: list[ir.Expr] = []  # of the options written so far
        self.faulty: list[ir.Expr] = []  # conditions under which a property faults

    def export(self, ltl: prop.Property | None) -> str:
        formula = None if ltl is None else self._formula(ltl)
        options = self._options(stays=ltl is None)
        lines = [f"/* {self.flat.name.replace('*/', '* /')} */"]
        lines += self._declarations()
        lines += self.c.text()
        ends = ltl is not None or self.flat.terminated in (None, ir.TRUE)
        label = ["end:"] if ends else []
        lines += ["", "active proctype network() {", *label, "  do", *indent(options), "  od", "}"]
        if ltl is not None:
            lines += ["", f"ltl {self.names.name('p', ltl.name)} {{ {formula} }}"]
        return "\n".join(lines) + "\n"

    # The state.

    def _declarations(self) -> list[str]:
        lines = []
        for variable in self.flat.variables:
            name = variable_name(self.names, variable.name)
            count = prod(variable.shape) if variable.shape else None
            lines.append(_declare(name, variable.type, count, variable.initial, variable.span))
        for channel in self.flat.buffers:
            count = prod(channel.shape) if channel.shape else None
            length = length_name(self.names, channel.name)
            lines.append(_declare(length, ir.Type(0, channel.capacity), count, (0,), channel.span))
            for part, type_ in enumerate(channel.fields):
                name = cells_name(self.names, channel.name, part)
                cells = ir.Type(min(0, type_.low), max(0, type_.high))  # a cell without a message is 0
                size = channel.capacity * (count or 1)
                lines.append(_declare(name, cells, size, (0,), channel.span))
        return lines

    # The actions.

    def _options(self, *, stays: bool) -> list[str]:
        lines: list[str] = []
        for command in self.flat.commands:
            lines.append(f"/* {command.comment.replace('*/', '* /')} */")
            if command.ready or command.kept:
                self.c.possible(command)
            command = replace(command, update=forward(command.update))
            if needs_c(command, self.flat) and self.c.perform(command):
                self.failing.add(command.name)
            ranges = [range(choice.low, choice.high + 1) for choice in command.choices]
            for values in product(*ranges):
                lines += self._option(command, values)
        for faulty in self.faulty:
            lines += _step(self._condition(faulty), ["assert(false);"])
        if stays and self.flat.terminated not in (None, ir.TRUE, ir.FALSE):
            condition = self._writer(Locals()).expr(self.flat.terminated)
            lines += ["/* terminated */", f":: {condition}"]
        lines += self._keeper()
        return lines or [":: false"]

    def _keeper(self) -> list[str]:
        """Writes an option that is never taken: SPIN drops variables that it believes are never read."""
        parts = [part for guard in self.guards for part in _walk_but_folds(guard)]
        read = {part.variable for part in parts if isinstance(part, ir.Load)}
        read |= {part.channel for part in parts if isinstance(part, ir.Queue)}
        reads = []
        for variable in self.flat.variables:
            if variable.name not in read:
                reads.append(variable_name(self.names, variable.name) + ("[0]" if variable.shape else ""))
        for channel in self.flat.buffers:
            if channel.name not in read:
                reads.append(length_name(self.names, channel.name) + ("[0]" if channel.shape else ""))
            cells = [cells_name(self.names, channel.name, i) for i in range(len(channel.fields))]
            reads += [f"{name}[0]" for name in cells]
        note = "/* never taken; keeps SPIN from dropping variables as unread */"
        return [note, f":: false && ({' || '.join(reads)})"] if reads else []

    def _option(self, command: Command, values: tuple[int, ...]) -> list[str]:
        """Writes the steps for one choice of values: the update, and the faults."""
        names = [choice.name for choice in command.choices]
        chosen: dict[str, ir.Expr] = {n: ir.Const(v) for n, v in zip(names, values, strict=True)}
        special = specialise(command, chosen)
        writer = self._writer(Locals())
        before = [part for test in special.tests for part in (test.safe, test.condition)]
        guard = all_of(before)
        last = self._last(special)
        if guard == ir.FALSE:
            return self._fault(special, last)
        if not indexes_itself(guard):
            self.guards.append(guard)
        plain = [] if guard == ir.TRUE else [self._condition(guard)]
        # The call comes last, since the next assertion reads the `fault` that it leaves.
        asks = bool(command.ready or command.kept)
        calls = [_call(f"possible_{command.name}", values)] if asks else []
        text = " && ".join([*plain, *last, *calls]) or "true"
        body = [_NO_FAULT] if asks else []
        if needs_c(command, self.flat):
            arguments = ", ".join(map(str, values))
            body.append(f"c_code {{ perform_{command.name}({arguments}); }};")
            body += [_NO_FAULT] if command.name in self.failing else []
        else:
            body += writer.lines(special.update)
        return _step(text, body) + self._fault(special, last)

    def _condition(self, condition: ir.Expr) -> str:
        """Writes the condition as part of a guard."""
        if not indexes_itself(condition):
            return self._writer(Locals()).expr(condition, 2)
        writer = Writer(self.flat.straight.known, self.names, Locals(), in_c=True)
        return f"c_expr {{ {writer.expr(condition)} }}"

    def _fault(self, command: Command, last: list[str]) -> list[str]:
        """Writes an option that fails if a test of the command cannot be evaluated."""
        dangers: list[ir.Expr] = []
        before: list[ir.Expr] = []
        for test in command.tests:
            if test.safe != ir.TRUE:
                dangers.append(all_of([*before, negate(test.safe)]))
            before += [test.safe, test.condition]
        danger = any_of(dangers)
        if danger == ir.FALSE:
            return []
        return _step(" && ".join([self._condition(danger), *last]), ["assert(false);"])

    def _last(self, command: Command) -> list[str]:
        """Writes the test that no atomic location blocks the command."""
        if self.flat.atomic == ir.FALSE or command.first:
            return []
        nobody = self._writer(Locals()).expr(negate(self.flat.atomic), 1)
        return [f"({nobody} || {_call('unhindered', ())})"]

    def _writer(self, local_names: Locals) -> Writer:
        return Writer(self.flat.straight.known, self.names, local_names, in_c=False)

    # Properties.

    def _formula(self, property_: prop.Property) -> str:
        match property_.claim:
            case prop.Always(condition=condition):
                return f"[] {self._proposition(condition)}"
            case prop.Reachable(condition=condition):
                return f"[] !{self._proposition(condition)}"
            case prop.LeadsTo(cause=cause, effect=effect):
                return f"[] ({self._proposition(cause)} -> <> {self._proposition(effect)})"
            case prop.Temporal(formula=formula):
                return self._temporal(formula)
            case (
                prop.DeadlockFree()
                | prop.DivergenceFree()
                | prop.NonTerminating()
                | prop.Deterministic()
                | prop.Refines()
                | prop.Transition()
                | prop.Inevitable()
                | prop.PotentiallyAlways()
            ):
                raise ModelError(
                    f"the property {property_.name} is not a formula of states",
                    property_.span,
                    "SPIN checks deadlocks without a formula; other claims have no counterpart",
                )
            case _:
                assert_never(property_.claim)

    def _temporal(self, formula: prop.Formula) -> str:
        match formula:
            case prop.Holds(condition=condition):
                return self._proposition(condition)
            case prop.TemporalUnary(op="X", span=span):
                raise ModelError("`X` cannot be exported", span, "SPIN is built without `X`")
            case prop.TemporalUnary(op=op, operand=operand):
                return f"({op} {self._temporal(operand)})"
            case prop.TemporalBinary(op=operator, left=left, right=right):
                symbol = "V" if operator == "R" else operator
                return f"({self._temporal(left)} {symbol} {self._temporal(right)})"
            case prop.Occurs(span=span):
                raise ModelError("an action in a formula cannot be exported", span, _STATES_ONLY)
            case prop.Silent():
                raise ModelError("`tau` in a formula cannot be exported", NOWHERE, _STATES_ONLY)
            case _:
                assert_never(formula)

    def _proposition(self, condition: ir.Expr) -> str:
        straight = self.flat.straight
        renamed = straight.rename(condition, {})
        if straight.is_plain(renamed):
            safe, expr = straight.safe(renamed), straight.expand(renamed)
            if safe != ir.TRUE:
                self.faulty.append(negate(safe))
            elif _is_simple(expr):
                return f"({self._writer(Locals()).expr(expr)})"
        return f"({_call(self.c.holds(renamed), ())})"


_NO_FAULT = "assert(c_expr { fault == 0 });"
_STATES_ONLY = "SPIN's formulas are about states only"


def _call(function: str, arguments: tuple[int, ...]) -> str:
    """Writes a call inside an expression; SPIN treats `f(x)` as a side effect, but not `(f)(x)`."""
    return f"c_expr {{ ({function})({', '.join(map(str, arguments))}) }}"


def _step(guard: str, body: list[str]) -> list[str]:
    if not body or body[-1] in ("od;", "fi;"):
        body = [*body, "skip;"]  # SPIN has no label to jump to after a final loop
    text = " ".join(body)
    if len(text) + len(guard) <= 80 and "if" not in text and "do" not in text:
        return [f":: d_step {{ {guard} -> {text} }}"]
    return [f":: d_step {{ {guard} ->", *indent(indent(body)), "  }"]


_TYPES = (("bit", 1, False), ("byte", 8, False), ("short", 16, True), ("int", 32, True))
"""Promela's types: name, bits, signed."""


def _declare(name: str, type_: ir.Type, count: int | None, initial: tuple[int, ...], span: Span) -> str:
    kind, bits = _choose_type(type_, span)
    array = "" if count is None else f"[{count}]"
    value = ""
    if len(set(initial)) > 1:
        # A list allows no minus sign, but accepts the bits of a negative number.
        value = f" = {{ {', '.join(str(number % 2**bits) for number in initial)} }}"
    elif initial[0] != 0:
        value = f" = {initial[0]}"
    return f"{kind} {name}{array}{value};"


def _choose_type(type_: ir.Type, span: Span) -> tuple[str, int]:
    for name, bits, signed in _TYPES:
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        if low <= type_.low and type_.high <= high:
            return name, bits
    raise ModelError("a value beyond 32 bits cannot be exported", span, "give it a smaller range")


def _walk_but_folds(expr: ir.Expr) -> Iterator[ir.Expr]:
    """Yields the parts of the expression that are certainly written: a fold may be empty."""
    if isinstance(expr, ir.Fold):
        return
    yield expr
    for child in children(expr):
        yield from _walk_but_folds(child)


def _is_simple(expr: ir.Expr) -> bool:
    """Whether SPIN's formulas can contain the expression: they allow no conditionals."""
    return not indexes_itself(expr) and not any(
        isinstance(part, ir.Conditional) or (isinstance(part, ir.Binary) and part.op in ("min", "max"))
        for part in walk(expr)
    )
