"""Writes expressions and statements in TLA+: a block of statements becomes a chain of definitions.

Every assignment defines a new name for the variable's value from there on; a conditional or a loop that
changes several variables becomes a tuple of their values. Possible faults are collected in `OK`, which the
action asserts first. TLC computes with 32 bits and stops on overflow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from veristream.export.flat import FlatBlock, Put, Take
from veristream.export.names import Globals, Locals
from veristream.export.rewrite import children, is_truth, unroll
from veristream.export.safety import Knowledge
from veristream.ir import expr as ir
from veristream.ir.bounds import interval
from veristream.ir.network import Channel

OK = "ok$"
"""The key in an environment that says that nothing has faulted so far."""

UNROLLED_ROUNDS_MAX = 8
"""A loop with more iterations becomes a recursive operator."""

_RELATIONS = {"==": "=", "!=": "#", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPERATORS: Mapping[str, str] = {
    "div": "Quotient",
    "rem": "Remainder",
    "min": "Least",
    "max": "Greatest",
    "&": "BitAnd",
    "|": "BitOr",
    "^": "BitXor",
}

PRELUDE: Mapping[str, str] = {
    "Least": "Least(a, b) == IF a < b THEN a ELSE b",
    "Greatest": "Greatest(a, b) == IF a > b THEN a ELSE b",
    "Size": "Size(a) == IF a < 0 THEN -a ELSE a",
    "Quotient": ("Quotient(a, b) == LET q == Size(a) \\div Size(b) IN IF (a < 0) = (b < 0) THEN q ELSE -q"),
    "Remainder": "Remainder(a, b) == a - b * Quotient(a, b)",
    "BitAnd": (
        "RECURSIVE BitAnd(_, _)\n"
        "BitAnd(a, b) == IF a = 0 \\/ b = 0 THEN 0 ELSE IF a = -1 THEN b ELSE IF b = -1 THEN a\n"
        "                ELSE 2 * BitAnd(a \\div 2, b \\div 2) + (a % 2) * (b % 2)"
    ),
    "BitOr": "BitOr(a, b) == a + b - BitAnd(a, b)",
    "BitXor": "BitXor(a, b) == a + b - 2 * BitAnd(a, b)",
}
"""Operators that TLA+'s own modules lack; each is written only if it is used."""
_NEEDS = {
    "Quotient": ("Size",),
    "Remainder": ("Size", "Quotient"),
    "BitOr": ("BitAnd",),
    "BitXor": ("BitAnd",),
}

Env = dict[str, str]
"""The current name of each variable (`v x`), buffer (`q x`) and local (`l x`)."""


@dataclass(slots=True)
class Terms:
    """Writes the expressions of one action."""

    known: Knowledge
    names: Globals
    locals: Locals
    used: set[str] = field(default_factory=set)  # operators of the prelude

    def truth(self, expr: ir.Expr, env: Env) -> str:
        """Writes the condition as a TLA+ Boolean."""
        match expr:
            case ir.Const(value=value):
                return "TRUE" if value else "FALSE"
            case ir.Unary(
                op="not", operand=ir.Queue(op="empty" | "full" as op, channel=name, indices=indices)
            ):
                capacity = self.known.names.channels[name].capacity
                relation = "> 0" if op == "empty" else f"< {capacity}"
                return f"{self._length(name, indices, env)} {relation}"
            case ir.Unary(op="not", operand=operand):
                return f"~{bracket(self.truth(operand, env))}"
            case ir.Binary(op="and", left=left, right=right):
                return f"({self.truth(left, env)} /\\ {self.truth(right, env)})"
            case ir.Binary(op="or", left=left, right=right):
                return f"({self.truth(left, env)} \\/ {self.truth(right, env)})"
            case ir.Binary(op="implies", left=left, right=right):
                return f"({self.truth(left, env)} => {self.truth(right, env)})"
            case ir.Binary(op=op, left=left, right=right) if op in _RELATIONS:
                return f"{self.number(left, env)} {_RELATIONS[op]} {self.number(right, env)}"
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                sides = self.truth(then, env), self.truth(otherwise, env)
                return f"(IF {self.truth(condition, env)} THEN {sides[0]} ELSE {sides[1]})"
            case ir.Fold(op="all" | "any", name=name, low=low, high=high, body=body):
                if low > high:
                    return "TRUE" if expr.op == "all" else "FALSE"
                counter = self.locals.name(name)
                quantifier = "\\A" if expr.op == "all" else "\\E"
                inner = self.truth(body, {**env, f"l {name}": counter})
                return f"({quantifier} {counter} \\in {low}..{high} : {inner})"
            case ir.Queue(op="empty" | "full", channel=name, indices=indices):
                wanted = 0 if expr.op == "empty" else self.known.names.channels[name].capacity
                return f"{self._length(name, indices, env)} = {wanted}"
            case _:
                return f"{self.number(expr, env)} # 0"

    def number(self, expr: ir.Expr, env: Env) -> str:
        """Writes the expression as a number that can be an operand."""
        match expr:
            case ir.Const(value=value):
                return str(value) if value >= 0 else f"({value})"
            case ir.Load(variable=name, indices=indices):
                return env[f"v {name}"] + self._brackets(indices, env)
            case ir.Local(name=name, index=index):
                return env[f"l {name}"] + ("" if index is None else f"[{self.number(index, env)}]")
            case ir.Unary(op="-", operand=operand):
                return f"(-{self.number(operand, env)})"
            case ir.Unary(op="~", operand=operand):
                return f"(-{self.number(operand, env)} - 1)"
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                sides = self.number(then, env), self.number(otherwise, env)
                return f"(IF {self.truth(condition, env)} THEN {sides[0]} ELSE {sides[1]})"
            case ir.Fold(op="sum"):
                return self.number(unroll(expr), env)
            case ir.Queue(op="len", channel=name, indices=indices):
                return self._length(name, indices, env)
            case ir.Peek():
                return self._peek(expr, env)
            case ir.Binary() if not is_truth(expr):
                return self._arithmetic(expr, env)
            case ir.AtLocation() | ir.IsDone() | ir.IsIdle() | ir.Call() | ir.Primed():
                raise AssertionError(f"not straight: {expr}")
            case _:
                return f"(IF {self.truth(expr, env)} THEN 1 ELSE 0)"

    def _arithmetic(self, expr: ir.Binary, env: Env) -> str:
        left, right = self.number(expr.left, env), self.number(expr.right, env)
        match expr.op:
            case "+" | "-" | "*":
                return f"({left} {expr.op} {right})"
            case "mod":
                return f"({left} % {right})"
            case "<<":
                return f"({left} * 2^{right})"
            case ">>":
                return f"({left} \\div 2^{right})"
            case "div" | "rem" if self._counts(expr.left, 0) and self._counts(expr.right, 1):
                symbol = "%" if expr.op == "rem" else "\\div"
                return f"({left} {symbol} {right})"
            case op:
                operator = _OPERATORS[op]
                self.used |= {operator, *_NEEDS.get(operator, ())}
                return f"{operator}({left}, {right})"

    def _counts(self, expr: ir.Expr, low: int) -> bool:
        return interval(expr, self.known.names).low >= low

    def _brackets(self, indices: tuple[ir.Expr, ...], env: Env) -> str:
        return "".join(f"[{self.number(index, env)}]" for index in indices)

    def queue(self, name: str, indices: tuple[ir.Expr, ...], env: Env) -> str:
        """Writes a buffer: a sequence, or a number if its messages have no parts."""
        return env[f"q {name}"] + self._brackets(indices, env)

    def _length(self, name: str, indices: tuple[ir.Expr, ...], env: Env) -> str:
        queue = self.queue(name, indices, env)
        return f"Len({queue})" if self.known.names.channels[name].fields else queue

    def _peek(self, expr: ir.Peek, env: Env) -> str:
        channel = self.known.names.channels[expr.channel]
        queue = self.queue(expr.channel, expr.indices, env)
        match expr.position:
            case ir.Const(value=value):
                place = str(value + 1)
            case position:
                place = f"{self.number(position, env)} + 1"
        part = f"[{expr.part + 1}]" if len(channel.fields) > 1 else ""
        return f"{queue}[{place}]{part}"


@dataclass(slots=True)
class Chain:
    """The definitions of a sequence of statements, and the names after them."""

    env: Env
    definitions: list[tuple[str, str]] = field(default_factory=list)


class Definer:
    """Turns statements into definitions, with names unique in one action."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._numbers: dict[str, int] = {}

    def run(self, block: FlatBlock, env: Env) -> Chain:
        """Returns the definitions of a block."""
        chain = Chain(dict(env))
        for statement in block:
            self._statement(statement, chain)
        return chain

    def _define(self, key: str, text: str, chain: Chain) -> None:
        """Defines a new name for the value of `key` from here on."""
        name = self._fresh(_base(key, self.terms))
        chain.definitions.append((name, text))
        chain.env[key] = name

    def _fresh(self, base: str) -> str:
        # No other identifier contains two adjacent underscores, so the name is unique.
        self._numbers[base] = self._numbers.get(base, 0) + 1
        return f"{base}__{self._numbers[base]}"

    def _statement(self, statement: ir.Statement | Put | Take, chain: Chain) -> None:
        terms, env = self.terms, chain.env
        match statement:
            case ir.Assign(target=ir.Load(variable=name, indices=indices), value=value):
                self._store(f"v {name}", indices, value, chain)
            case ir.Assign(target=ir.Local(name=name, index=index), value=value):
                self._store(f"l {name}", () if index is None else (index,), value, chain)
            case ir.Let(name=name, value=value, size=size):
                text = terms.number(value, env)
                if size is not None:
                    text = f"[i__ \\in 0..{size - 1} |-> {text}]"
                self._define(f"l {name}", text, chain)
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                self._if(terms.truth(condition, env), then, otherwise, chain)
            case ir.While(condition=condition, body=body):
                self._loop(condition, None, body, chain)
            case ir.For(name=name, low=low, high=high, body=body):
                if high - low < UNROLLED_ROUNDS_MAX:
                    self._unrolled(name, range(low, high + 1), body, chain)
                else:
                    self._loop(None, statement, body, chain)
            case ir.Check(condition=condition):
                sofar = "" if env[OK] == "TRUE" else f"{env[OK]} /\\ "
                self._define(OK, f"{sofar}{terms.truth(condition, env)}", chain)
            case Put(channel=name):
                self._put(statement, terms.known.names.channels[name], chain)
            case Take(channel=name, indices=indices):
                queue = terms.queue(name, indices, env)
                fields = terms.known.names.channels[name].fields
                self._replace(f"q {name}", indices, f"Tail({queue})" if fields else f"{queue} - 1", chain)
            case ir.Return() | ir.Evaluate() | ir.Reset():
                raise AssertionError(f"not straight: {statement}")
            case _:
                raise AssertionError(statement)

    def _store(self, key: str, indices: tuple[ir.Expr, ...], value: ir.Expr, chain: Chain) -> None:
        self._replace(key, indices, self.terms.number(value, chain.env), chain)

    def _replace(self, key: str, indices: tuple[ir.Expr, ...], text: str, chain: Chain) -> None:
        if indices:
            place = "".join(f"[{self.terms.number(index, chain.env)}]" for index in indices)
            text = f"[{chain.env[key]} EXCEPT !{place} = {text}]"
        self._define(key, text, chain)

    def _put(self, put: Put, channel: Channel, chain: Chain) -> None:
        queue = self.terms.queue(put.channel, put.indices, chain.env)
        parts = [self.terms.number(value, chain.env) for value in put.values]
        message = parts[0] if len(parts) == 1 else f"<<{', '.join(parts)}>>"
        text = f"Append({queue}, {message})" if channel.fields else f"{queue} + 1"
        self._replace(f"q {put.channel}", put.indices, text, chain)

    # Conditionals and loops return the values of everything that they may change.

    def _if(self, condition: str, then: FlatBlock, otherwise: FlatBlock, chain: Chain) -> None:
        sides = [self.run(side, chain.env) for side in (then, otherwise)]
        keys = [key for key, was in chain.env.items() if any(side.env[key] != was for side in sides)]
        if keys:
            texts = [self._result(side, keys) for side in sides]
            self._split(keys, f"IF {condition} THEN {texts[0]} ELSE {texts[1]}", chain)

    def _result(self, chain: Chain, keys: list[str]) -> str:
        values = [chain.env[key] for key in keys]
        return self.let(chain, values[0] if len(values) == 1 else f"<<{', '.join(values)}>>")

    def _split(self, keys: list[str], text: str, chain: Chain) -> None:
        if len(keys) == 1:
            self._define(keys[0], text, chain)
            return
        whole = self._fresh("all")
        chain.definitions.append((whole, text))
        for i, key in enumerate(keys, 1):
            self._define(key, f"{whole}[{i}]", chain)

    def _unrolled(self, name: str, rounds: range, body: FlatBlock, chain: Chain) -> None:
        outer = set(chain.env)
        for number in rounds:
            inner = self.run(body, {**chain.env, f"l {name}": str(number)})
            chain.definitions += inner.definitions
            chain.env.update({key: text for key, text in inner.env.items() if key in outer})

    def _loop(
        self, condition: ir.Expr | None, counted: ir.For | None, body: FlatBlock, chain: Chain
    ) -> None:
        """Defines a recursive operator over what the body changes, and the counter if there is one."""
        probe = self.run(body, {**chain.env, **_counter_env(counted, "0")})
        keys = [key for key, was in chain.env.items() if probe.env[key] != was]
        operator = self._fresh("loop")
        parameters = {key: self._fresh(_base(key, self.terms)) for key in keys}
        counter = None if counted is None else self._fresh("round")
        inner_env = {**chain.env, **parameters, **_counter_env(counted, counter or "")}
        inner = self.run(body, inner_env)
        going = (
            f"{counter} <= {counted.high}" if counted else self.terms.truth(_given(condition), inner_env)
        )
        if OK in keys:
            going = f"{parameters[OK]} /\\ {going}"  # after a fault, the loop might not terminate
        again = [inner.env[key] for key in keys] + ([f"{counter} + 1"] if counter else [])
        formal = list(parameters.values()) + ([counter] if counter else [])
        actual = [chain.env[key] for key in keys] + ([str(counted.low)] if counted else [])
        if not keys:
            return
        final = [parameters[key] for key in keys]
        result = final[0] if len(final) == 1 else f"<<{', '.join(final)}>>"
        step = self.let(inner, f"{operator}({', '.join(again)})")
        holes = ", ".join("_" for _ in formal)
        chain.definitions.append((f"RECURSIVE {operator}({holes})", ""))
        head = f"{operator}({', '.join(formal)})"
        chain.definitions.append((head, f"IF {going} THEN {step} ELSE {result}"))
        self._split(keys, f"{operator}({', '.join(actual)})", chain)

    @staticmethod
    def let(chain: Chain, text: str) -> str:
        """Wraps the text in a LET with the chain's definitions; a definition used once is inlined."""
        definitions, texts = inline(chain.definitions, [text])
        if not definitions:
            return bracket(texts[0])
        return f"(LET {show_definitions(definitions)} IN {texts[0]})"


def _given(condition: ir.Expr | None) -> ir.Expr:
    assert condition is not None
    return condition


def _counter_env(counted: ir.For | None, text: str) -> Env:
    return {} if counted is None else {f"l {counted.name}": text}


def _base(key: str, terms: Terms) -> str:
    kind, _, name = key.partition(" ")
    if key == OK:
        return "ok"
    if kind == "l":
        return terms.locals.name(name)
    return variable_name(terms.names, name) if kind == "v" else queue_name(terms.names, name)


def variable_name(names: Globals, variable: str) -> str:
    """Returns the identifier of a variable, or of a component's location."""
    return names.name("at", variable[1:]) if variable.startswith("@") else names.name("v", variable)


def queue_name(names: Globals, channel: str) -> str:
    """Returns the identifier of a buffer."""
    return names.name("q", channel)


def bracket(text: str) -> str:
    """Adds parentheses unless the text is a name, a number or already bracketed."""
    if re.fullmatch(r"\w+|<<[^<>]*>>", text) or _closes(text, "(", ")") or _closes(text, "[", "]"):
        return text
    return f"({text})"


def unbracket(text: str) -> str:
    """Removes parentheses around the whole text."""
    return unbracket(text[1:-1]) if _closes(text, "(", ")") else text


def _closes(text: str, left: str, right: str) -> bool:
    """Whether the first character is the bracket that the last one closes."""
    if not (text.startswith(left) and text.endswith(right)):
        return False
    depth = 0
    for position, char in enumerate(text):
        depth += (char == left) - (char == right)
        if depth == 0:
            return position == len(text) - 1
    return False


def branches(expr: ir.Expr) -> bool:
    """Whether TLC would generate one step for each way in which the condition can hold."""
    match expr:
        case ir.Binary(op="or" | "implies") | ir.Fold(op="any"):
            return True
        case ir.Binary(op="and") | ir.Conditional():
            return any(map(branches, children(expr)))
        case ir.Fold(op="all", body=body):
            return branches(body)
        case _:
            return False


def show_definitions(definitions: list[tuple[str, str]]) -> str:
    """Writes the definitions of a LET."""
    return " ".join(f"{name} == {text}" if text else name for name, text in definitions)


def inline(definitions: list[tuple[str, str]], texts: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Drops unused definitions and inlines those used once."""
    kept: list[tuple[str, str]] = []
    for position in range(len(definitions) - 1, -1, -1):
        name, text = definitions[position]
        if not text or "(" in name:
            kept.insert(0, (name, text))
            continue
        pattern = re.compile(rf"\b{re.escape(name)}\b")
        uses = sum(len(pattern.findall(t)) for _, t in kept) + sum(len(pattern.findall(t)) for t in texts)
        if uses == 0:
            continue
        recursive = any("(" in n and pattern.search(t) for n, t in kept)
        if uses > 1 or recursive:
            kept.insert(0, (name, text))
            continue
        value = bracket(text)
        kept = [(n, pattern.sub(lambda _, v=value: v, t)) for n, t in kept]  # type: ignore[misc]
        texts = [pattern.sub(lambda _, v=value: v, t) for t in texts]  # type: ignore[misc]
    return kept, texts
