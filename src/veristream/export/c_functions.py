"""C functions embedded in a Promela model, for what Promela's expressions cannot express.

A guard that has to run statements, or to know what a step would lead to, calls a function. A step with
locals is a function too: `hidden` variables work in SPIN's depth-first search but not in its breadth-first
one. A function that faults sets `fault`, and the model asserts that it is not set.
"""

from __future__ import annotations

from itertools import product
from math import prod

from veristream.export.clike import (
    UNROLLED_CELLS_MAX,
    Writer,
    cells_name,
    indent,
    length_name,
    variable_name,
)
from veristream.export.flat import KEPT, READY, Command, Flat, FlatBlock, Put, Take, specialise
from veristream.export.forward import list_exprs
from veristream.export.names import Globals, Locals
from veristream.export.rewrite import all_of
from veristream.ir.expr import FALSE, Assign, Const, Expr, For, If, Let, Load, Peek, Queue, Statement, While
from veristream.ir.walk import walk

TESTS_MAX = 50
"""The most tests in one function, since SPIN cannot parse long ones."""


def needs_c(command: Command, flat: Flat) -> bool:
    """Whether Promela cannot express the step.

    That is the case if it has locals, if a queue is so long that its messages move up in a loop, or if an
    array is indexed by its own elements.
    """
    long = {channel.name for channel in flat.buffers if channel.capacity > UNROLLED_CELLS_MAX}
    return any(
        (isinstance(statement, Take) and statement.channel in long)
        or any(map(indexes_itself, list_exprs(statement)))
        for statement in command.update
    ) or bool(_declared(command.update))


def indexes_itself(expr: Expr) -> bool:
    """Whether an array or queue is indexed by its own elements, which SPIN rejects."""
    for part in walk(expr):
        inner = [below for below in walk(part) if below is not part]
        match part:
            case Load(variable=name):
                if any(isinstance(below, Load) and below.variable == name for below in inner):
                    return True
            case Queue(channel=name) | Peek(channel=name):
                if any(isinstance(below, Queue | Peek) and below.channel == name for below in inner):
                    return True
            case _:
                pass
    return False


class Functions:
    """Collects the functions of one model."""

    def __init__(self, flat: Flat, names: Globals) -> None:
        self.flat = flat
        self.names = names
        self._functions: list[list[str]] = []
        self._count = 0

    def text(self) -> list[str]:
        """Returns all functions requested so far, each in its own block; empty if there are none."""
        functions = self._unhindered() + self._functions
        blocks = [["int fault;"], *functions] if functions else []
        # SPIN cannot parse a block of more than about 60,000 characters.
        return [line for block in blocks if block for line in ("c_code {", *indent(block), "}")]

    def possible(self, command: Command) -> None:
        """Adds `possible_NAME`, which returns whether the step exists, given that its plain tests hold.

        It performs the step on copies of what the step changes. If it faults, it returns that the step
        exists; the step then fails on the flag.
        """
        changed = self._changed(command.update) if command.kept else []
        writer = self._writer(frozenset(changed))
        body: list[str] = ["fault = 0;"]
        if command.ready:
            body += [*writer.lines(command.ready), f"if (!{writer.expr(READY)}) return 0;"]
        if command.kept:
            body += [line for name in changed for line in self._copy(name)]
            body += writer.lines(command.update) + writer.lines(command.kept)
        body.append(f"return {writer.expr(KEPT)};" if command.kept else "return 1;")
        blocks = (*command.ready, *(command.update if command.kept else ()), *command.kept)
        copies = [f"int {name}{_array(self._size(name))};" for name in changed]
        self._add(f"possible_{command.name}", command, writer, blocks, [*copies, *body])

    def perform(self, command: Command) -> bool:
        """Adds `perform_NAME`, which performs the step; returns whether it may fault."""
        writer = self._writer()
        lines = writer.lines(command.update)
        faults = any("fault = 1;" in line for line in lines)
        body = [*(["fault = 0;"] if faults else []), *lines, "return 0;"]
        self._add(f"perform_{command.name}", command, writer, command.update, body)
        return faults

    def holds(self, condition: Expr) -> str:
        """Adds a function that evaluates the renamed condition; returns its name."""
        out: list[Statement] = []
        value = self.flat.straight.value(condition, out)
        writer = self._writer()
        self._count += 1
        name = f"holds_{self._count}"
        body = [*writer.lines(tuple(out)), f"return {writer.expr(value)};"]
        self._add(name, None, writer, tuple(out), body)
        return name

    def _writer(self, copies: frozenset[str] = frozenset()) -> Writer:
        return Writer(self.flat.straight.known, self.names, Locals(), in_c=True, copies=copies)

    def _add(
        self, name: str, command: Command | None, writer: Writer, block: FlatBlock, body: list[str]
    ) -> None:
        choices = () if command is None else command.choices
        parameters = ", ".join(f"int {writer.locals.name(choice.name)}" for choice in choices)
        known = writer.known.sizes
        declared = [
            f"int {writer.locals.name(local, known.get(local))}{_array(known.get(local))};"
            for local in dict.fromkeys(_declared(block))
        ]
        if any(line.startswith("cursor =") for line in body):
            declared.append("int cursor;")
        self._functions.append(_function(f"int {name}({parameters or 'void'})", [*declared, *body]))

    # Copies of what a step changes.

    def _copy(self, name: str) -> list[str]:
        size = self._size(name)
        if size is None:
            return [f"{name} = now.{name};"]
        return [f"{{ int i; for (i = 0; i < {size}; i++) {name}[i] = now.{name}[i]; }}"]

    def _size(self, name: str) -> int | None:
        """Returns the number of elements of the array with this identifier; None if it is not an array."""
        for variable in self.flat.variables:
            if variable_name(self.names, variable.name) == name:
                return prod(variable.shape) if variable.shape else None
        for channel in self.flat.buffers:
            count = prod(channel.shape) if channel.shape else None
            if length_name(self.names, channel.name) == name:
                return count
            for part in range(len(channel.fields)):
                if cells_name(self.names, channel.name, part) == name:
                    return channel.capacity * (count or 1)
        raise AssertionError(name)

    def _changed(self, block: FlatBlock) -> list[str]:
        """Returns the identifiers of the state variables that the block may change."""
        found: dict[str, None] = {}
        for statement in block:
            match statement:
                case Assign(target=Load(variable=name)):
                    found[variable_name(self.names, name)] = None
                case If(then=then, otherwise=otherwise):
                    found |= dict.fromkeys(self._changed(then) + self._changed(otherwise))
                case While(body=body) | For(body=body):
                    found |= dict.fromkeys(self._changed(body))
                case Put(channel=name) | Take(channel=name):
                    found[length_name(self.names, name)] = None
                    fields = self.flat.straight.known.names.channels[name].fields
                    for part in range(len(fields)):
                        found[cells_name(self.names, name, part)] = None
                case _:
                    pass
        return list(found)

    # Priority.

    def _unhindered(self) -> list[list[str]]:
        """Returns `unhindered`: whether a component is committed, or no step leaves an atomic location."""
        if self.flat.atomic == FALSE:
            return []
        first = [command for command in self.flat.commands if command.first]
        tests: list[str] = []
        for command in first:
            ranges = [range(choice.low, choice.high + 1) for choice in command.choices]
            for values in product(*ranges):
                tests += self._hinders(command, values)
        declared = [
            f"int possible_{command.name}({', '.join('int' for _ in command.choices) or 'void'});"
            for command in first
            if command.ready or command.kept
        ]
        parts = [tests[i : i + TESTS_MAX] for i in range(0, len(tests), TESTS_MAX)]
        helpers = [
            _function(f"int unhindered_{i}(void)", [*part, "return 1;"]) for i, part in enumerate(parts)
        ]
        asks = [f"if (!unhindered_{i}()) return 0;" for i in range(len(parts))]
        if self.flat.committed != FALSE:
            asks.insert(0, f"if ({self._writer().expr(self.flat.committed)}) return 1;")
        return [declared, *helpers, _function("int unhindered(void)", [*asks, "return 1;"])]

    def _hinders(self, command: Command, values: tuple[int, ...]) -> list[str]:
        names = [choice.name for choice in command.choices]
        special = specialise(command, {n: Const(v) for n, v in zip(names, values, strict=True)})
        guard = all_of(part for test in special.tests for part in (test.safe, test.condition))
        if guard == FALSE:
            return []
        text = self._writer().expr(guard, 2)
        if command.ready or command.kept:
            text += f" && possible_{command.name}({', '.join(map(str, values))}) && !fault"
        return [f"if ({text}) return 0;"]


def _function(head: str, body: list[str]) -> list[str]:
    return [head, "{", *indent(body), "}"]


def _array(size: int | None) -> str:
    return "" if size is None else f"[{size}]"


def _declared(block: FlatBlock) -> list[str]:
    """Returns the locals that the block declares, including loop counters."""
    found: list[str] = []
    for statement in block:
        match statement:
            case Let(name=name):
                found.append(name)
            case If(then=then, otherwise=otherwise):
                found += _declared(then) + _declared(otherwise)
            case While(body=body):
                found += _declared(body)
            case For(name=name, body=body):
                found += [name, *_declared(body)]
            case _:
                pass
    return found
