"""Writes the stack of a component: the numbers of the frames that wait, and the values that they keep.

Part of `components`. The bottom of the stack is at index 0; what lies above its top is 0, so that equal
stacks are equal rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.languages.csp.lower.expressions import Translator
from veristream.languages.csp.lower.machine import Arc, Component, Start
from veristream.languages.csp.lower.spell import spell_term
from veristream.languages.csp.lower.stacks.frames import EMPTY, OCCUPIED, kept_name, top_name
from veristream.languages.csp.syntax import Number

HEIGHT, NEXT = ".height", ".stack"
NOTHING = "-"
"""What an unused place of a stack shows in traces."""
_INDEX = "waiting#"
Assignments = list[tuple[ir.Load, ir.Expr]]


@dataclass(frozen=True, slots=True)
class Stack:
    """The variables of the stack of a component, in which at most `size` processes wait."""

    component: Component
    size: int

    @property
    def _height(self) -> ir.Load:
        return ir.Load(self.component.name + HEIGHT)

    @property
    def _names(self) -> list[str]:
        """The arrays: the numbers of the frames, then each of the values that a frame may keep."""
        width = max(self.component.frame_slots, default=0)
        name = self.component.name
        return [name + NEXT, *(f"{name}.w{position}" for position in range(width))]

    def enumeration(self) -> tuple[net.Enumeration, ...]:
        """Returns the names of the processes that may wait, for traces."""
        if not self.component.frames:
            return ()
        alike: Counter[str] = Counter()
        members = [NOTHING]
        for process in self.component.frames:
            name = spell_term(process)
            alike[name] += 1
            members.append(name if alike[name] == 1 else f"{name} #{alike[name]}")
        return (net.Enumeration(self._names[0], tuple(members), span=self.component.span),)

    def variables(self, start: Start | None) -> tuple[net.Variable, ...]:
        """Returns the variables, with what waits when the component starts."""
        if not self.component.frames:
            return ()
        pushed = () if start is None else start.pushed
        rows: list[list[int]] = []
        for frame in pushed:
            values = [value.value for value in frame.values if isinstance(value, Number)]
            rows.append([frame.number, *values])
        types = [
            ir.Type(0, len(self.component.frames), self._names[0]),
            *(ir.INT,) * (len(self._names) - 1),
        ]
        arrays = tuple(
            net.Variable(
                name,
                type_,
                (self.size,),
                tuple(
                    rows[at][column] if at < len(rows) and column < len(rows[at]) else 0
                    for at in range(self.size)
                ),
            )
            for column, (name, type_) in enumerate(zip(self._names, types, strict=True))
        )
        height = net.Variable(self.component.name + HEIGHT, ir.Type(0, self.size), (), (len(pushed),))
        return (height, *arrays)

    def bound(self) -> dict[str, ir.Expr]:
        """Returns the meaning of the bound names that `frames` uses."""
        if not self.component.frames:
            return {}
        last = ir.Binary("max", ir.Binary("-", self._height, ir.Const(1)), ir.Const(0))
        numbers, *kept = self._names
        found: dict[str, ir.Expr] = {
            EMPTY: ir.Binary("==", self._height, ir.Const(0)),
            OCCUPIED: ir.Binary(">", self._height, ir.Const(0)),
        }
        for number in self.component.frames.values():
            found[top_name(number)] = ir.Binary("==", ir.Load(numbers, (last,)), ir.Const(number))
        for position, name in enumerate(kept):
            found[kept_name(position)] = ir.Load(name, (last,))
        return found

    def check(self, arc: Arc) -> ir.Block:
        """Returns the check that there is room for what an arc of the component pushes."""
        more = len(arc.starts[0].pushed) - arc.pops
        if more <= 0:
            return ()
        fits = ir.Binary("<=", self._height, ir.Const(self.size - more))
        message = f"more than {self.size} processes wait behind `;` (--max-stack)"
        return (ir.Check(fits, message, span=arc.move.span),)

    def cleared(self) -> ir.Block:
        """Returns the statements that empty the stack."""
        if not self.component.frames:
            return ()
        zero, index = ir.Const(0), (ir.Local(_INDEX),)
        rows = tuple(ir.Assign(ir.Load(name, index), zero) for name in self._names)
        return (ir.For(_INDEX, 0, self.size - 1, rows), ir.Assign(self._height, zero))

    def moved(self, arc: Arc, translator: Translator) -> Assignments:
        """Returns the assignments of an arc to the stack of its own component, the height last."""
        own = arc.starts[0]
        base = ir.Binary("-", self._height, ir.Const(1)) if arc.pops else self._height
        found = self._put(own, base, translator)
        names = self._names
        if arc.pops and not own.pushed:
            found += [(ir.Load(name, (base,)), ir.Const(0)) for name in names]
        elif arc.pops:
            unused = names[1 + len(own.pushed[0].values) :]
            found += [(ir.Load(name, (base,)), ir.Const(0)) for name in unused]
        change = len(own.pushed) - arc.pops
        if change:
            found.append((self._height, ir.Binary("+", self._height, ir.Const(change))))
        return found

    def begun(self, start: Start, translator: Translator) -> Assignments:
        """Returns the assignments to the empty stack of a component that is forked."""
        found = self._put(start, ir.Const(0), translator)
        if start.pushed:
            found.append((self._height, ir.Const(len(start.pushed))))
        return found

    def _put(self, start: Start, base: ir.Expr, translator: Translator) -> Assignments:
        found: Assignments = []
        for position, frame in enumerate(start.pushed):
            at = ir.Binary("+", base, ir.Const(position)) if position else base
            values = [ir.Const(frame.number), *(translator.expr(value) for value in frame.values)]
            found += [
                (ir.Load(name, (at,)), value) for name, value in zip(self._names, values, strict=False)
            ]
        return found
