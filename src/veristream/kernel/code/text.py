"""Writes LLVM modules as text: functions of basic blocks, whose instructions a builder appends.

It knows what kernels need: numbers of one and of 64 bits, pointers to words, and tables of words. Large
models have hundreds of thousands of instructions, most of them on constants. So instructions are strings
from the start, constants are folded, a block has each pure instruction once, and blocks that nothing
leads to are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

I1, I64, POINTER, VOID = "i1", "i64", "ptr", "void"
_WORD = 1 << 64


class Value:
    """A number or pointer in a function; `number` is set if it is a constant."""

    __slots__ = ("kind", "number", "text")

    def __init__(self, kind: str, text: str, number: int | None = None) -> None:
        self.kind, self.text, self.number = kind, text, number


def constant(number: int) -> Value:
    """Returns a word; numbers from 2^63 are the same words as negative ones."""
    number = (number + (1 << 63)) % _WORD - (1 << 63)
    return Value(I64, str(number), number)


def bit(holds: bool) -> Value:
    """Returns a constant bit."""
    return Value(I1, str(int(holds)), int(holds))


FALSE, TRUE, ZERO = bit(False), bit(True), constant(0)


@dataclass(eq=False, slots=True)
class Block:
    """A basic block: its instructions, the one that ends it, and the blocks that may come next."""

    name: str
    lines: list[str] = field(default_factory=list)
    end: str | Switch = ""
    next: tuple[Block, ...] = ()
    phis: list[Phi] = field(default_factory=list)
    known: dict[str, Value] = field(default_factory=dict)  # pure instructions by their text


class Phi(Value):
    """A value that depends on the block before; what comes from blocks that do not lead here is ignored."""

    __slots__ = ("incoming",)

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.incoming: list[tuple[Value, Block]] = []

    def add_incoming(self, value: Value, block: Block) -> None:
        """Adds the value that comes from the block."""
        self.incoming.append((value, block))


@dataclass(eq=False, slots=True)
class Function:
    """A function that returns a word or nothing; its parameters are words and pointers to words."""

    module: Module
    name: str
    parameters: tuple[str, ...]
    internal: bool = False
    result: str = I64
    apart: int = 0  # so many of the first parameters point to memory that nothing else points to
    inline: bool = True
    blocks: list[Block] = field(default_factory=list)
    count: int = 0  # of named values and blocks
    args: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        self.module.functions.append(self)
        self.args = tuple(Value(kind, f"%a{i}") for i, kind in enumerate(self.parameters))

    @property
    def text(self) -> str:
        """How calls name the function."""
        return f'@"{self.name}"'

    def append_basic_block(self, name: str) -> Block:
        """Appends a block; its name gets a number."""
        self.count += 1
        block = Block(f"{name}.{self.count}")
        self.blocks.append(block)
        return block

    def write(self, out: list[str]) -> None:
        """Appends the function's text."""
        apart = [" noalias" if i < self.apart else "" for i in range(len(self.args))]
        pairs = zip(self.args, apart, strict=True)
        parameters = ", ".join(f"{one.kind}{mark} {one.text}" for one, mark in pairs)
        head = f"define {'internal ' if self.internal else ''}{self.result} {self.text}({parameters})"
        out.append(f"{head}{'' if self.inline else ' noinline'} {{")
        reached = _reachable(self.blocks[0])
        before: dict[Block, list[Block]] = {}
        for block in reached:
            for successor in block.next:
                before.setdefault(successor, []).append(block)
        for block in self.blocks:
            if block in reached:
                out.append(f"{block.name}:")
                for phi in block.phis:
                    ways = [f"[ {v.text}, %{b.name} ]" for v, b in phi.incoming if b in before[block]]
                    out.append(f"{phi.text} = phi {phi.kind} {', '.join(ways)}")
                out.extend(block.lines)
                assert block.end, f"block {block.name} of {self.name} does not end"
                out.append(str(block.end))
        out.append("}")


def _reachable(first: Block) -> set[Block]:
    reached, pending = {first}, [first]
    while pending:
        for successor in pending.pop().next:
            if successor not in reached:
                reached.add(successor)
                pending.append(successor)
    return reached


class Module:
    """Functions, and tables of words."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self._tables: dict[str, tuple[Value, str]] = {}

    def table(self, name: str, numbers: Sequence[int], variable: bool = False) -> Value:
        """Returns a pointer to a table, which is declared once; others can change a `variable` one."""
        if name not in self._tables:
            words = ", ".join(f"i64 {constant(number).text}" for number in numbers)
            kind = "global" if variable else "internal constant"
            text = f'@"{name}" = {kind} [{len(numbers)} x i64] [{words}]'
            self._tables[name] = (Value(POINTER, f'@"{name}"'), text)
        return self._tables[name][0]

    def __str__(self) -> str:
        lines = [text for _, text in self._tables.values()]
        for function in self.functions:
            function.write(lines)
        lines.append('!0 = !{!"branch_weights", i32 1, i32 10000}')
        return "\n".join(lines) + "\n"


_SIGNED = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_UNSIGNED = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}


def _compare(op: str, a: int, b: int) -> bool:
    match op:
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case _:
            return a >= b


class Builder:
    """Appends instructions to a block; folds those on constants."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.block = function.append_basic_block("entry")

    @property
    def module(self) -> Module:
        """The module of the function."""
        return self.function.module

    def append_basic_block(self, name: str) -> Block:
        """Appends a block to the function."""
        return self.function.append_basic_block(name)

    def position_at_end(self, block: Block) -> None:
        """Continues in the block."""
        self.block = block

    @contextmanager
    def goto_block(self, block: Block) -> Iterator[None]:
        """Continues in the block for a while, before the instruction that ends it."""
        before, self.block = self.block, block
        yield
        self.block = before

    @contextmanager
    def if_then(self, condition: Value) -> Iterator[None]:
        """Emits the code inside so that it runs if the bit is set; it may end with a jump elsewhere."""
        then, after = self.append_basic_block("if"), self.append_basic_block("endif")
        self.cbranch(condition, then, after)
        self.position_at_end(then)
        yield
        if not self.block.end:
            self.branch(after)
        self.position_at_end(after)

    def _name(self) -> str:
        self.function.count += 1
        return f"%v{self.function.count}"

    def _pure(self, kind: str, text: str) -> Value:
        """Appends an instruction without effects, unless the block has it already."""
        known = self.block.known.get(text)
        if known is None:
            name = self._name()
            self.block.lines.append(f"{name} = {text}")
            known = self.block.known[text] = Value(kind, name)
        return known

    def alloca(self, words: int = 1) -> Value:
        """Allocates words on the stack, in the function's first block."""
        name = self._name()
        size = "i64" if words == 1 else f"[{words} x i64]"
        self.function.blocks[0].lines.append(f"{name} = alloca {size}")
        return Value(POINTER, name)

    def load(self, pointer: Value) -> Value:
        """Loads a word."""
        name = self._name()
        self.block.lines.append(f"{name} = load i64, ptr {pointer.text}")
        return Value(I64, name)

    def store(self, word: Value, pointer: Value) -> None:
        """Stores a word."""
        self.block.lines.append(f"store i64 {word.text}, ptr {pointer.text}")

    def gep(self, pointer: Value, index: Value) -> Value:
        """Returns a pointer to a word of an array."""
        if index.number == 0:
            return pointer
        return self._pure(POINTER, f"getelementptr i64, ptr {pointer.text}, i64 {index.text}")

    def add(self, a: Value, b: Value) -> Value:
        """Returns the sum."""
        if a.number is not None and b.number is not None:
            return constant(a.number + b.number)
        if a.number == 0:
            return b
        return a if b.number == 0 else self._pure(I64, f"add i64 {a.text}, {b.text}")

    def sub(self, a: Value, b: Value) -> Value:
        """Returns the difference."""
        if a.number is not None and b.number is not None:
            return constant(a.number - b.number)
        return a if b.number == 0 else self._pure(I64, f"sub i64 {a.text}, {b.text}")

    def neg(self, a: Value) -> Value:
        """Returns the negative number."""
        return self.sub(ZERO, a)

    def mul(self, a: Value, b: Value) -> Value:
        """Returns the product."""
        if a.number is not None and b.number is not None:
            return constant(a.number * b.number)
        for one, other in ((a, b), (b, a)):
            if one.number == 0:
                return ZERO
            if one.number == 1:
                return other
        return self._pure(I64, f"mul i64 {a.text}, {b.text}")

    def and_(self, a: Value, b: Value) -> Value:
        """Returns the conjunction of the bits."""
        for one, other in ((a, b), (b, a)):
            if one.number is not None:
                if one.number == 0:
                    return one
                if one.number == (1 if one.kind is I1 else -1):
                    return other
                if other.number is not None:
                    return constant(one.number & other.number)
        return self._pure(a.kind, f"and {a.kind} {a.text}, {b.text}")

    def or_(self, a: Value, b: Value) -> Value:
        """Returns the disjunction of the bits."""
        for one, other in ((a, b), (b, a)):
            if one.number is not None:
                if one.number == 0:
                    return other
                if one.number == (1 if one.kind is I1 else -1):
                    return one
                if other.number is not None:
                    return constant(one.number | other.number)
        return self._pure(a.kind, f"or {a.kind} {a.text}, {b.text}")

    def xor(self, a: Value, b: Value) -> Value:
        """Returns the bits that differ."""
        if a.number is not None and b.number is not None:
            number = a.number ^ b.number
            return bit(bool(number)) if a.kind is I1 else constant(number)
        return self._pure(a.kind, f"xor {a.kind} {a.text}, {b.text}")

    def not_(self, a: Value) -> Value:
        """Returns the opposite of each bit."""
        return self.xor(a, TRUE if a.kind is I1 else constant(-1))

    def shl(self, a: Value, by: Value) -> Value:
        """Shifts to the left, by less than 64."""
        if by.number == 0 or a.number == 0:
            return a
        if a.number is not None and by.number is not None:
            return constant(a.number << by.number)
        return self._pure(I64, f"shl i64 {a.text}, {by.text}")

    def lshr(self, a: Value, by: Value) -> Value:
        """Shifts to the right, by less than 64, and fills with 0."""
        if by.number == 0 or a.number == 0:
            return a
        if a.number is not None and by.number is not None:
            return constant(a.number % _WORD >> by.number)
        return self._pure(I64, f"lshr i64 {a.text}, {by.text}")

    def ashr(self, a: Value, by: Value) -> Value:
        """Shifts to the right, by less than 64, and keeps the sign."""
        return self._pure(I64, f"ashr i64 {a.text}, {by.text}")

    def sdiv(self, a: Value, b: Value) -> Value:
        """Divides towards 0; the divisor must not be 0."""
        return self._pure(I64, f"sdiv i64 {a.text}, {b.text}")

    def srem(self, a: Value, b: Value) -> Value:
        """Returns the rest of `sdiv`."""
        return self._pure(I64, f"srem i64 {a.text}, {b.text}")

    def udiv(self, a: Value, b: Value) -> Value:
        """Divides unsigned numbers."""
        return self._pure(I64, f"udiv i64 {a.text}, {b.text}")

    def icmp_signed(self, op: str, a: Value, b: Value) -> Value:
        """Compares signed numbers."""
        if a.number is not None and b.number is not None:
            return bit(_compare(op, a.number, b.number))
        return self._pure(I1, f"icmp {_SIGNED[op]} i64 {a.text}, {b.text}")

    def icmp_unsigned(self, op: str, a: Value, b: Value) -> Value:
        """Compares unsigned numbers."""
        if a.number is not None and b.number is not None:
            return bit(_compare(op, a.number % _WORD, b.number % _WORD))
        return self._pure(I1, f"icmp {_UNSIGNED[op]} i64 {a.text}, {b.text}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Returns `a` if the bit is set, otherwise `b`."""
        if condition.number is not None:
            return a if condition.number else b
        text = f"select i1 {condition.text}, {a.kind} {a.text}, {b.kind} {b.text}"
        return self._pure(a.kind, text)

    def zext(self, a: Value) -> Value:
        """Returns a bit as a word."""
        if a.number is not None:
            return constant(a.number)
        return self._pure(I64, f"zext i1 {a.text} to i64")

    def inttoptr(self, word: Value) -> Value:
        """Returns the address that the word is."""
        return self._pure(POINTER, f"inttoptr i64 {word.text} to ptr")

    def call(self, function: Function | Value, arguments: Sequence[Value]) -> Value:
        """Calls a function, or the one at an address; the result of one without a result has no use."""
        given = ", ".join(f"{one.kind} {one.text}" for one in arguments)
        if isinstance(function, Function) and function.result == VOID:
            self.block.lines.append(f"call void {function.text}({given})")
            return ZERO
        name = self._name()
        self.block.lines.append(f"{name} = call i64 {function.text}({given})")
        return Value(I64, name)

    def phi(self, kind: str) -> Phi:
        """Begins the block with a value that depends on the block before."""
        phi = Phi(kind, self._name())
        self.block.phis.append(phi)
        return phi

    def _finish(self, text: str | Switch, *following: Block) -> None:
        assert not self.block.end, f"{self.block.name} has ended"
        self.block.end, self.block.next = text, following

    def branch(self, target: Block) -> None:
        """Ends the block with a jump."""
        self._finish(f"br label %{target.name}", target)

    def cbranch(self, condition: Value, then: Block, otherwise: Block, rarely: bool = False) -> None:
        """Ends the block with a jump that depends on a bit; `rarely` says how often it is set."""
        if condition.number is not None:
            self.branch(then if condition.number else otherwise)
            return
        hint = ", !prof !0" if rarely else ""
        text = f"br i1 {condition.text}, label %{then.name}, label %{otherwise.name}{hint}"
        self._finish(text, then, otherwise)

    def switch(self, number: Value, default: Block) -> Switch:
        """Ends the block with a jump that depends on a number."""
        switch = Switch(self.block, number, default)
        self._finish(switch, default)
        return switch

    def ret(self, word: Value) -> None:
        """Returns a word."""
        self._finish(f"ret i64 {word.text}")

    def ret_void(self) -> None:
        """Returns nothing."""
        self._finish("ret void")


@dataclass(slots=True)
class Switch:
    """A jump with cases."""

    block: Block
    number: Value
    default: Block
    cases: list[tuple[Value, Block]] = field(default_factory=list)

    def add_case(self, number: Value, target: Block) -> None:
        """Adds a case."""
        self.cases.append((number, target))
        self.block.next = (*self.block.next, target)

    def __str__(self) -> str:
        cases = " ".join(f"i64 {number.text}, label %{block.name}" for number, block in self.cases)
        return f"switch i64 {self.number.text}, label %{self.default.name} [ {cases} ]"
