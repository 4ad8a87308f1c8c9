"""Forward substitution: a local that does not change before its last use is replaced by its value.

Most locals of a command hold what was received, and most updates use it once. A message is removed at the
end if the queue is not used in between, so its parts need no locals either.
"""

from __future__ import annotations

from veristream.export.flat import FlatBlock, Put, Take, substitute_exchange
from veristream.export.rewrite import substitute_statement, walk
from veristream.ir.expr import (
    Assign,
    Check,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    Peek,
    Queue,
    Reset,
    Return,
    Statement,
    While,
)

USES_MAX = 3
"""A value with operators is repeated at most this often."""


def forward(block: FlatBlock) -> FlatBlock:
    """Replaces as many locals by their values as is safe and short."""
    statements = list(_drop_last(block))
    position = 0
    while position < len(statements):
        found = statements[position]
        if isinstance(found, Let) and _can_go(found, statements[position + 1 :]):
            values = {found.name: found.value}
            rest = [_substitute(statement, values) for statement in statements[position + 1 :]]
            statements[position:] = rest
        else:
            position += 1
    return tuple(statements)


def _drop_last(block: FlatBlock) -> FlatBlock:
    """Moves the removal of a message to the end of the block if that is equivalent."""
    for position, found in enumerate(block):
        if isinstance(found, Take):
            rest = block[position + 1 :]
            stable = all(isinstance(index, Const) for index in found.indices)
            if stable and found.channel not in {name for s in rest for name in _reads(s) | _writes(s)}:
                return (*block[:position], *rest, found)
    return block


def _can_go(let: Let, rest: list[Statement | Put | Take]) -> bool:
    if let.size is not None or any(let.name in _assigned(statement) for statement in rest):
        return False
    using = [i for i, statement in enumerate(rest) if let.name in _locals(statement)]
    if not using:
        return True
    uses = sum(_count(statement, let.name) for statement in rest)
    if uses > USES_MAX and not isinstance(let.value, Const | Load | Local | Peek):
        return False
    last = rest[using[-1]]
    # The last use may change what it reads if it reads everything before it writes.
    until = using[-1] if isinstance(last, Assign) else using[-1] + 1
    changed = {name for statement in rest[:until] for name in _writes(statement) | _assigned(statement)}
    value = list(walk(let.value))
    return not changed & (_read_names(value) | {part.name for part in value if isinstance(part, Local)})


def _substitute(statement: Statement | Put | Take, values: dict[str, Expr]) -> Statement | Put | Take:
    if isinstance(statement, Put | Take):
        return substitute_exchange(statement, values)
    return substitute_statement(statement, values)


def list_exprs(statement: Statement | Put | Take) -> list[Expr]:
    """Returns all expressions in the statement and in nested ones."""
    match statement:
        case Assign(target=target, value=value):
            return [value, target]
        case Let(value=value) | Return(value=value) | Evaluate(value=value) | Reset(value=value):
            return [value]
        case Check(condition=condition):
            return [condition]
        case If(condition=condition, then=then, otherwise=otherwise):
            return [condition, *(expr for inner in then + otherwise for expr in list_exprs(inner))]
        case While(condition=condition, body=body):
            return [condition, *(expr for inner in body for expr in list_exprs(inner))]
        case For(body=body):
            return [expr for inner in body for expr in list_exprs(inner)]
        case Put(indices=indices, values=values):
            return [*indices, *values]
        case Take(indices=indices):
            return list(indices)


def _parts(statement: Statement | Put | Take) -> list[Expr]:
    return [part for expr in list_exprs(statement) for part in walk(expr)]


def _read_names(parts: list[Expr]) -> set[str]:
    """Returns the names of variables and buffers, which are distinct in a model."""
    return {part.variable for part in parts if isinstance(part, Load)} | {
        part.channel for part in parts if isinstance(part, Queue | Peek)
    }


def _reads(statement: Statement | Put | Take) -> set[str]:
    own = {statement.channel} if isinstance(statement, Put | Take) else set[str]()
    return own | _read_names(_parts(statement))


def _locals(statement: Statement | Put | Take) -> set[str]:
    return {part.name for part in _parts(statement) if isinstance(part, Local)}


def _count(statement: Statement | Put | Take, name: str) -> int:
    return sum(1 for part in _parts(statement) if isinstance(part, Local) and part.name == name)


def _targets(statement: Statement | Put | Take) -> list[Load | Local]:
    match statement:
        case Assign(target=target):
            return [target]
        case If(then=then, otherwise=otherwise):
            return [target for inner in then + otherwise for target in _targets(inner)]
        case While(body=body) | For(body=body):
            return [target for inner in body for target in _targets(inner)]
        case _:
            return []


def _writes(statement: Statement | Put | Take) -> set[str]:
    if isinstance(statement, Put | Take):
        return {statement.channel}
    return {target.variable for target in _targets(statement) if isinstance(target, Load)}


def _assigned(statement: Statement | Put | Take) -> set[str]:
    return {target.name for target in _targets(statement) if isinstance(target, Local)}
