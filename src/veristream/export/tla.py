"""Translates Networks to TLA+ for TLC (Lamport, "Specifying Systems", Addison-Wesley 2002).

Each action is one definition, with the other variables UNCHANGED; choices of values are quantified. Buffers
are sequences. A fault is a failed `Assert`. If a property asks for deadlock freedom, TLC's deadlocks are
ours, and a properly terminated state has a step to itself; otherwise run TLC with `-deadlock`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from veristream.errors import ModelError
from veristream.export.commands import flatten
from veristream.export.flat import KEPT, READY, Command, Flat, Test
from veristream.export.names import Globals, Locals
from veristream.export.rewrite import both, negate
from veristream.export.safety import WIDEST
from veristream.export.tla_text import (
    OK,
    PRELUDE,
    Definer,
    Env,
    Terms,
    bracket,
    branches,
    inline,
    queue_name,
    show_definitions,
    unbracket,
    variable_name,
)
from veristream.ir.expr import FALSE, TRUE, Expr, Local, Statement
from veristream.ir.network import Network, Variable
from veristream.ir.property import Always
from veristream.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Exported:
    """A TLA+ module, to be saved in a file of its name, and TLC's configuration for it."""

    module: str
    spec: str
    config: str


def to_tla(network: Network, module: str) -> Exported:
    """Returns the network in TLA+, with each `Always` property as an invariant.

    Raises ModelError for clocks and for values beyond 32 bits.
    """
    return _Exporter(flatten(network)).export(network, module)


class _Exporter:
    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.names = Globals()
        self.used: set[str] = set()
        self.start: Env = {
            **{f"v {v.name}": variable_name(self.names, v.name) for v in flat.variables},
            **{f"q {c.name}": queue_name(self.names, c.name) for c in flat.buffers},
        }

    def export(self, network: Network, module: str) -> Exported:
        actions = [self._action(command) for command in self.flat.commands]
        invariants = [
            (self.names.name("always", p.name), self._proposition(p.claim.condition))
            for p in network.properties
            if isinstance(p.claim, Always)
        ]
        tail = [*self._next(), *(f"{name} == {text}" for name, text in invariants)]
        names = ", ".join(self.start.values()) or "nothing"
        prelude = [text for name, text in PRELUDE.items() if name in self.used]
        lines = [
            f"---- MODULE {module} ----",
            *self._advice(),
            "EXTENDS Integers, Sequences, TLC",
            f"VARIABLES {names}",
            f"vars == <<{names}>>",
            *prelude,
            "",
            "Init ==",
            *self._init(),
            "",
            *(line for action in actions for line in action),
            *tail,
            "====",
        ]
        config = ["INIT Init", "NEXT Next", *(f"INVARIANT {name}" for name, _ in invariants)]
        return Exported(module, "\n".join(lines) + "\n", "\n".join(config) + "\n")

    def _advice(self) -> list[str]:
        if self.flat.terminated is not None:
            return []
        return ["\\* No property asks for deadlocks: run TLC with -deadlock, which ignores them."]

    def _init(self) -> list[str]:
        lines = []
        for variable in self.flat.variables:
            if variable.type.low < WIDEST.low or variable.type.high > WIDEST.high:
                hint = "give it a smaller range"
                raise ModelError("a value beyond 32 bits cannot be exported", variable.span, hint)
            lines.append(f"  /\\ {self.start[f'v {variable.name}']} = {_initial(variable)}")
        for channel in self.flat.buffers:
            empty = _array(channel.shape, ["<<>>" if channel.fields else "0"])
            lines.append(f"  /\\ {self.start[f'q {channel.name}']} = {empty}")
        return lines or ["  nothing = 0"]

    def _next(self) -> list[str]:
        """Writes `Next`; actions that leave an atomic location have priority."""
        first = [c.name for c in self.flat.commands if c.first]
        others = [c.name for c in self.flat.commands if not c.first]
        lines: list[str] = []
        if self.flat.atomic != FALSE:
            terms = self._terms()
            lines += ["First ==", *(f"  \\/ {name}" for name in first or ["FALSE"])]
            bound = both(negate(self.flat.committed), self.flat.atomic)
            text = unbracket(terms.truth(bound, self.start))
            lines += ["Unhindered ==", f"  IF {text} THEN ~ENABLED First ELSE TRUE"]
            lines += ["Others ==", *(f"  \\/ {name}" for name in others or ["FALSE"])]
            steps = ["First", "(Unhindered /\\ Others)"]
        else:
            steps = others
        if self.flat.terminated not in (None, FALSE):
            condition = _predicate(self.flat.terminated, self._terms(), self.start)
            lines += ["Terminated ==", f"  /\\ {condition}", "  /\\ UNCHANGED vars"]
            steps = [*steps, "Terminated"]
        return [*lines, "Next ==", *(f"  \\/ {name}" for name in steps or ["FALSE"])]

    def _terms(self) -> Terms:
        return Terms(self.flat.straight.known, self.names, Locals(), self.used)

    # One action.

    def _action(self, command: Command) -> list[str]:
        terms = self._terms()
        definer = Definer(terms)
        env: Env = {**self.start, OK: "TRUE"}
        chosen = {choice.name for choice in command.choices}
        for choice in command.choices:
            env[f"l {choice.name}"] = terms.locals.name(choice.name)
        early = _before_choice(command, chosen)
        lines = [f"{command.name} ==  \\* {_one_line(command.comment)}"]
        lines += [f"  {line}" for test in early for line in _test(test, terms, env)]
        inner = [line for test in command.tests[len(early) :] for line in _test(test, terms, env)]
        inner += self._ready(command, definer, env)
        inner += self._effect(command, definer, env)
        if not command.choices:
            return [*lines, *(f"  {line}" for line in inner), ""]
        ranges = [f"{env[f'l {c.name}']} \\in {c.low}..{c.high}" for c in command.choices]
        lines.append(f"  /\\ \\E {', '.join(ranges)} :")
        return [*lines, *(f"       {line}" for line in inner), ""]

    def _ready(self, command: Command, definer: Definer, env: Env) -> list[str]:
        if not command.ready:
            return []
        chain = definer.run(command.ready, env)
        texts = [f"{chain.env[f'l {READY.name}']} = 1"]
        if chain.env[OK] != "TRUE":
            texts.insert(0, f'Assert({chain.env[OK]}, "a test of the model fails")')
        definitions, texts = inline(chain.definitions, texts)
        return _under(definitions, texts)

    def _effect(self, command: Command, definer: Definer, env: Env) -> list[str]:
        """Writes the primed variables with the values that the update computes."""
        chain = definer.run((*command.update, *command.kept), env)
        texts: list[str] = []
        if chain.env[OK] != "TRUE":
            texts.append(f'Assert({chain.env[OK]}, "the model fails")')
        if command.kept:
            texts.append(f"{chain.env[f'l {KEPT.name}']} = 1")
        same = []
        for key, name in self.start.items():
            if chain.env[key] == name:
                same.append(name)
            else:
                texts.append(f"{name}' = {chain.env[key]}")
        definitions, texts = inline(chain.definitions, texts)
        texts = [_tidy(text) for text in texts]
        unchanged = [f"/\\ UNCHANGED <<{', '.join(same)}>>"] if same else []
        if not self.start:
            unchanged = ["/\\ UNCHANGED nothing"]
        return [*_under(definitions, texts), *unchanged]

    # Properties.

    def _proposition(self, condition: Expr) -> str:
        straight = self.flat.straight
        out: list[Statement] = []
        value = straight.value(straight.rename(condition, {}), out)
        terms = self._terms()
        chain = Definer(terms).run(tuple(out), {**self.start, OK: "TRUE"})
        text = terms.truth(value, chain.env)
        if chain.env[OK] != "TRUE":
            text = f'Assert({chain.env[OK]}, "the property fails") /\\ {text}'
        return Definer.let(chain, text)


def _before_choice(command: Command, chosen: set[str]) -> list[Test]:
    """Returns the leading tests that do not depend on a chosen value."""
    found: list[Test] = []
    for test in command.tests:
        parts = [*walk(test.condition), *walk(test.safe)]
        if any(isinstance(part, Local) and part.name in chosen for part in parts):
            break
        found.append(test)
    return found


def _test(test: Test, terms: Terms, env: Env) -> list[str]:
    lines = []
    if test.safe != TRUE:
        lines.append(f'/\\ Assert({terms.truth(test.safe, env)}, "{_one_line(test.message)}")')
    if test.condition != TRUE:
        lines.append(f"/\\ {_predicate(test.condition, terms, env)}")
    return lines


def _predicate(condition: Expr, terms: Terms, env: Env) -> str:
    """Writes the condition as a conjunct that yields one step, even if several disjuncts are true."""
    text = terms.truth(condition, env)
    return f"{bracket(text)} = TRUE" if branches(condition) else unbracket(text)


def _tidy(text: str) -> str:
    name, equals, value = text.partition(" = ")
    return f"{name}{equals}{unbracket(value)}" if name.endswith("'") else text


def _under(definitions: list[tuple[str, str]], texts: list[str]) -> list[str]:
    """Writes the conjuncts below the definitions that they use.

    Values are bound by choosing from a singleton set, since TLC evaluates a LET again at each use, which
    takes exponential time in a chain of them. Operators need a LET.
    """
    if not texts:
        return []
    if not definitions:
        return [f"/\\ {text}" for text in texts]
    heads: list[str] = []
    operators: list[tuple[str, str]] = []
    for name, text in definitions:
        if not text or "(" in name:
            operators.append((name, text))
            continue
        heads += _let(operators)
        operators = []
        heads.append(f"\\E {name} \\in {{{text}}} :")
    heads += _let(operators)
    first, *rest = heads
    return [f"/\\ {first}", *(f"   {head}" for head in rest), *(f"     /\\ {text}" for text in texts)]


def _let(operators: list[tuple[str, str]]) -> list[str]:
    return [f"LET {show_definitions(operators)} IN"] if operators else []


def _initial(variable: Variable) -> str:
    return _array(variable.shape, [str(value) for value in variable.initial])


def _array(shape: tuple[int, ...], values: list[str]) -> str:
    """Writes nested functions with domains from 0; differing values come from a tuple."""
    if not shape:
        return values[0]
    counters = [f"i{depth}" for depth in range(len(shape))]
    if len(set(values)) == 1:
        text = values[0]
    else:
        place = counters[0]
        for counter, size in zip(counters[1:], shape[1:], strict=True):
            place = f"({place} * {size} + {counter})"
        assert len(values) == prod(shape)
        text = f"<<{', '.join(values)}>>[{place} + 1]"
    for counter, size in zip(reversed(counters), reversed(shape), strict=True):
        text = f"[{counter} \\in 0..{size - 1} |-> {text}]"
    return text


def _one_line(text: str) -> str:
    return " ".join(text.replace('"', "'").replace("\\", "/").split())
