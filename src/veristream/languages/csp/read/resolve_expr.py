"""Resolves expressions: looks up names, expands macros and indexed conditions; part of `resolve`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import TypeVar, cast

from lark import Token, Tree

from veristream.errors import suggest
from veristream.ir.text.read_tree import Branch, Node, child, children, maybe, token
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.read.constant import apply_binary, apply_unary, evaluate
from veristream.languages.csp.read.library import TYPES, Method, macro_name, methods_of
from veristream.languages.csp.read.names import Array, Define, Scope, check_fresh, unknown
from veristream.source import Span

_STRENGTH = {
    "||": 1,
    "&&": 2,
    "xor": 3,
    **dict.fromkeys(("&", "|", "^"), 4),
    **dict.fromkeys(("==", "!="), 5),
    **dict.fromkeys(("<", "<=", ">", ">="), 6),
    **dict.fromkeys(("+", "-"), 7),
    **dict.fromkeys(("*", "/", "%"), 8),
}
_QUERIES: dict[str, csp.QueryOp] = {
    "ccount": "count",
    "cempty": "empty",
    "cfull": "full",
    "csize": "size",
    "cpeek": "peek",
}
_INSTANCES_MAX = 100_000
NodeT = TypeVar("NodeT")


def resolve_expr(scope: Scope, node: Node) -> csp.Expr:
    """Returns the expression of a parse tree, with constant subexpressions folded."""
    match node.data:
        case "number":
            return csp.Number(_number(token(node, 0)), span=scope.span(node))
        case "name":
            return _name(scope, node, str(token(node, 0)))
        case "element_of":
            return _element(scope, node)
        case "paren":
            return resolve_expr(scope, child(node, 0))
        case "indexed":
            return _indexed(scope, node)
        case "invoke":
            return _invoke(scope, node)
        case "method":
            return _method(scope, node)
        case "call":
            name = token(node, 0)
            hint = f"write a macro, `#define {name}(x) ...;`, and `call({name}, ...)`"
            raise scope.error(node, f"`{name}(...)` is not an expression: CSP# has no functions", hint)
        case "record":
            hint = "pass it to a process, or send it"
            raise scope.error(node, "an array is not a number", hint)
        case _:
            assert node.data == "expr", node.data
            return _row(scope, node)


def resolve_constant(scope: Scope, node: Node, what: str) -> int:
    """Returns the value of a constant expression; raises ModelError, naming `what`, if it is not one."""
    value = evaluate(resolve_expr(scope, node), scope.names.variables)
    if value is None:
        raise scope.error(
            node, f"{what} must be a constant", "use numbers and constants of `#define` or `enum`"
        )
    return value


def resolve_indices(scope: Scope, node: Node) -> tuple[csp.Index, ...]:
    """Returns the indices before an `@`; raises ModelError if one hides another name."""
    found: list[csp.Index] = []
    for index in children(node):
        name = token(index, 0)
        check_fresh(scope, name, str(name), "index")
        if any(str(name) == other.name for other in found):
            raise scope.error(name, f"duplicate index `{name}`", "rename one of them")
        found.append(csp.Index(str(name), _domain(scope, child(index, 1))))
    return tuple(found)


def expand_value(scope: Scope, define: Define, arguments: tuple[csp.Expr, ...], span: Span) -> csp.Expr:
    """Expands a definition with arguments into an expression; raises ModelError if it is a program."""
    inner = enter(scope, define, arguments, span)
    found = value_body(define.body)
    if found is None:
        message = f"`{define.name}` is a program, not a value"
        raise inner.error(define.body, message, "a value is one expression: `#define f(x) x + 1;`")
    value = resolve_expr(inner, found)
    return replace(value, span=span) if isinstance(value, csp.Number) else value


def enter(scope: Scope, define: Define, arguments: tuple[csp.Expr, ...], span: Span) -> Scope:
    """Returns the scope of a definition's body; raises ModelError if the definition is circular."""
    if define.name in scope.expanding:
        here = Scope(scope.names, define.source)
        raise here.error(
            define.body,
            f"`{define.name}` is defined in terms of itself",
            "a definition may only use earlier ones",
        )
    return Scope(
        scope.names,
        define.source,
        dict(zip(define.parameters, arguments, strict=True)),
        taken=scope.taken,
        expanding=(*scope.expanding, define.name),
    )


def value_body(body: Node) -> Node | None:
    """Returns the expression that a definition consists of, or None if the body is a program."""
    parts = children(body)
    if body.data == "block":
        return value_body(parts[0]) if len(parts) == 1 else None
    if body.data == "last":
        return value_body(parts[0])
    return parts[0] if body.data == "statement" and len(parts) == 1 else None


def find_macro(scope: Scope, node: Node) -> tuple[Define, tuple[csp.Expr, ...]]:
    """Returns the macro and the arguments of `call(m, ...)`; raises ModelError if there is none."""
    name = token(node, 1)
    arguments = children(node)
    macros = scope.names.macros
    define = macros.get((str(name), len(arguments)))
    if define is None and not arguments:
        define = scope.names.defines.get(str(name))
    if define is not None:
        return define, tuple(resolve_expr(scope, argument) for argument in arguments)
    counts = sorted(count for known, count in macros if known == name)
    if counts:
        wanted = " or ".join(str(count) for count in counts)
        raise scope.error(node, f"the macro `{name}` takes {wanted} arguments, not {len(arguments)}")
    known = [*_QUERIES, *(known for known, _ in macros)]
    hint = suggest(str(name), known, f"C# libraries are not supported: write `#define {name}(x) ...;`")
    raise scope.error(name, f"there is no macro `{name}`", hint)


def find_method(scope: Scope, node: Node) -> tuple[Method, str, str, tuple[csp.Expr, ...]]:
    """Returns the method of `l.Add(1)`, the names of the object and the method, and the arguments."""
    name, word = str(token(node, 0)).split(".")
    type_ = scope.names.objects.get(name)
    if type_ is None:
        hint = suggest(name, scope.names.objects, f"declare it: `var<{TYPES[0]}> {name};`")
        raise scope.error(node, f"`{name}` is no object of the library", hint)
    method = methods_of(type_).get(word)
    if method is None:
        known = methods_of(type_)
        hint = suggest(word, known, f"its methods are {', '.join(known)}")
        raise scope.error(node, f"the member {word} of {type_} is not supported", hint)
    given = children(child(node, 1))
    if len(given) != len(method.parameters):
        wanted = len(method.parameters)
        message = f"{type_}.{word} takes {wanted} argument{'' if wanted == 1 else 's'}, not {len(given)}"
        raise scope.error(node, message)
    return method, name, word, tuple(resolve_expr(scope, part) for part in given)


def method_macro(scope: Scope, name: str, word: str, count: int, *, program: bool = False) -> Define:
    """Returns the macro of an object's method, which has so many parameters."""
    names, macro = scope.names, macro_name(name, word, program=program)
    return names.macros[macro, count] if count else names.defines[macro]


def _method(scope: Scope, node: Node) -> csp.Expr:
    """Resolves the value of a method that changes nothing."""
    method, name, word, arguments = find_method(scope, node)
    if method.program:
        hint = f"call it in a program: `{{{name}.{word}(...);}}`"
        if method.value:
            hint = f"assign it in a program: `{{x = {name}.{word}(...);}}`"
        raise scope.error(node, f"{word} changes `{name}`, so it is no part of an expression", hint)
    return value_of_method(scope, node, name, word, arguments)


def value_of_method(
    scope: Scope, node: Node, name: str, word: str, arguments: tuple[csp.Expr, ...]
) -> csp.Expr:
    """Returns what a method of an object returns, at the place of the call."""
    define = method_macro(scope, name, word, len(arguments))
    return at_place(expand_value(scope, define, arguments, scope.span(node)), scope.span(node))


def at_place(node: NodeT, span: Span) -> NodeT:
    """Returns a part of the syntax with one place for all its parts."""
    if isinstance(node, tuple):
        return cast("NodeT", tuple(at_place(part, span) for part in node))
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {
        one.name: at_place(getattr(node, one.name), span) for one in fields(node) if one.name != "span"
    }
    return cast("NodeT", replace(node, **parts, span=span))


def indices_of(scope: Scope, node: Node) -> tuple[csp.Expr, ...]:
    """Resolves the indices of `a[i][j]`."""
    return tuple(resolve_expr(scope, part) for part in children(node))


def combine(op: csp.BinaryOp, left: csp.Expr, right: csp.Expr, span: Span) -> csp.Expr:
    """Applies an operator to two operands, folding it if both are numbers."""
    if isinstance(left, csp.Number) and isinstance(right, csp.Number):
        value = apply_binary(op, left.value, right.value)
        if value is not None:
            return csp.Number(value, span=span)
    return csp.Binary(op, left, right, span=span)


def _number(written: Token) -> int:
    match written.type:
        case "TRUE":
            return 1
        case "FALSE":
            return 0
        case _:
            return int(written)


def _name(scope: Scope, node: Node, name: str) -> csp.Expr:
    names, span = scope.names, scope.span(node)
    if name in scope.arrays:
        raise scope.error(node, f"`{name}` is an array", f"read an element: `{name}[0]`")
    if name in scope.local:
        return csp.Bound(scope.local[name], span=span)
    if name in scope.bound:
        value = scope.bound[name]
        if isinstance(value, Array):
            raise scope.error(node, f"`{name}` is an array", f"read an element: `{name}[0]`")
        return csp.Bound(value.name, span=span) if isinstance(value, csp.Bound) else value
    if name in names.constants:
        return csp.Number(names.constants[name].value, span=span)
    if name in names.defines:
        return expand_value(scope, names.defines[name], (), span)
    if name in names.variables:
        if names.variables[name].shape:
            raise scope.error(node, f"`{name}` is an array", f"read an element: `{name}[0]`")
        return csp.Global(name, span=span)
    raise unknown(scope, node, name)


def _element(scope: Scope, node: Node) -> csp.Expr:
    name = str(token(node, 0))
    if name in scope.arrays:
        message = f"elements of the local array `{name}` cannot be read"
        raise scope.error(node, message, f"make it a global array: `hvar {name}[...];`")
    known = scope.bound.get(name)
    if isinstance(known, Array) and name not in scope.local:
        return _bound_element(scope, node, name, known)
    return global_element(scope, node)


def _bound_element(scope: Scope, node: Node, name: str, array: Array) -> csp.Expr:
    """Resolves `x[i]` of an array that is a parameter or was received."""
    indices, shape = indices_of(scope, node), array.shape
    if len(indices) not in {1, len(shape)}:
        raise scope.error(node, f"`{name}` takes {len(shape)} indices, not {len(indices)}")
    flat = indices[0]
    for index, size in zip(indices[1:], shape[1:], strict=False):
        row = combine("*", flat, csp.Number(size, span=index.span), index.span)
        flat = combine("+", row, index, index.span)
    if not isinstance(flat, csp.Number):
        return csp.Pick(array.elements, flat, span=scope.span(node))
    if not 0 <= flat.value < len(array.elements):
        message = f"index {flat.value} is outside 0..{len(array.elements) - 1} of `{name}`"
        raise scope.error(node, message, "the first element has index 0")
    return array.elements[flat.value]


def resolve_array(scope: Scope, node: Node) -> Array | None:
    """Returns the array that an argument or a field denotes, or None if it is a single value."""
    if node.data == "record":
        if count_elements(scope, node) > _INSTANCES_MAX:
            raise scope.error(node, "this array is too large", f"the maximum is {_INSTANCES_MAX}")
        elements = tuple(each for part in children(node) for each in _elements(scope, part))
        return Array(elements, (len(elements),))
    if node.data != "name":
        return None
    name = str(token(node, 0))
    known = scope.bound.get(name)
    if name in scope.local or isinstance(known, Array):
        return known if isinstance(known, Array) and name not in scope.local else None
    variable = scope.names.variables.get(name)
    if known is not None or variable is None or not variable.shape:
        return None
    span = scope.span(node)
    places = range(len(variable.initial))
    return Array(tuple(csp.Global(name, (csp.Number(at),), span=span) for at in places), variable.shape)


def count_elements(scope: Scope, node: Node) -> int:
    """Returns the number of elements of `[1(2), 3..6, x]`."""
    count = 0
    for part in map(as_repeated, children(node)):
        if part.data == "repeated":
            count += resolve_constant(scope, child(part, 1), "a number of elements")
        elif part.data == "counted":
            first, last = (resolve_constant(scope, one, "the end of a range") for one in children(part))
            count += abs(last - first) + 1
        else:
            count += 1
    return count


def as_repeated(node: Node) -> Node:
    """Rewrites `[N(3)]`, which was parsed as a call of N, to the value N repeated three times."""
    written = maybe(node, 0)
    if node.data == "element" and isinstance(written, Tree) and written.data == "call":
        count = children(child(written, 1))
        if len(count) == 1:
            return Tree(
                "repeated", [Tree("name", [written.children[0]], written.meta), count[0]], node.meta
            )
    return node


def _elements(scope: Scope, node: Node) -> list[csp.Expr]:
    """Returns the values of a part of `[1(2), 3..6, x]`."""
    node = as_repeated(node)
    if node.data == "repeated":
        count = resolve_constant(scope, child(node, 1), "a number of elements")
        return [resolve_expr(scope, child(node, 0))] * count
    if node.data == "counted":
        first, last = (resolve_constant(scope, part, "the end of a range") for part in children(node))
        step = 1 if last >= first else -1
        return [csp.Number(value, span=scope.span(node)) for value in range(first, last + step, step)]
    return [resolve_expr(scope, child(node, 0))]


def global_element(scope: Scope, node: Node) -> csp.Global:
    """Resolves `a[i]` or `a[i][j]` of a global array; a single index addresses the flattened array."""
    name = str(token(node, 0))
    if name in scope.bound or name in scope.local or name in scope.names.constants:
        raise scope.error(node, f"`{name}` is a single value, not an array", "declare a global array")
    if name not in scope.names.variables:
        raise unknown(scope, token(node, 0), name)
    indices, shape = indices_of(scope, node), scope.names.variables[name].shape
    if not shape:
        raise scope.error(node, f"`{name}` is not an array", f"declare it as one: `var {name}[3];`")
    if len(indices) not in {1, len(shape)}:
        raise scope.error(node, f"`{name}` takes {len(shape)} indices, not {len(indices)}")
    return csp.Global(name, indices, span=scope.span(node))


def _row(scope: Scope, node: Node) -> csp.Expr:
    """Groups a flat row of operands and operators by precedence; all operators associate to the left."""
    operands: list[csp.Expr] = []
    operators: list[csp.BinaryOp] = []
    starts: list[int] = []
    prefixes: list[Token] = []
    end, wants_operand = scope.span(node).end, True

    def reduce(strength: int) -> None:
        while operators and _STRENGTH[operators[-1]] >= strength:
            right, left = operands.pop(), operands.pop()
            starts.pop()
            operands.append(combine(operators.pop(), left, right, Span(scope.source, starts[-1], end)))

    for part in node.children:
        if isinstance(part, Token) and wants_operand:
            prefixes.append(part)
        elif isinstance(part, Token):
            reduce(_STRENGTH[part])
            operators.append(cast(csp.BinaryOp, str(part)))
            wants_operand = True
        else:
            end = scope.span(part).end
            starts.append(scope.span(prefixes[0] if prefixes else part).start)
            operands.append(_prefixed(scope, prefixes, part))
            prefixes, wants_operand = [], False
    reduce(0)
    return operands[0]


def _prefixed(scope: Scope, prefixes: list[Token], node: Node) -> csp.Expr:
    operand, end = resolve_expr(scope, node), scope.span(node).end
    for prefix in reversed(prefixes):
        if prefix == "+":
            continue
        op, span = cast(csp.UnaryOp, str(prefix)), Span(scope.source, scope.span(prefix).start, end)
        if isinstance(operand, csp.Number):
            operand = csp.Number(apply_unary(op, operand.value), span=span)
        else:
            operand = csp.Unary(op, operand, span=span)
    return operand


def _indexed(scope: Scope, node: Node) -> csp.Expr:
    """Expands `&& i:{0..2}@c` into the conjunction over all values."""
    op = cast(csp.BinaryOp, str(token(node, 0)))
    indices = resolve_indices(scope, child(node, 1))
    values = [_values(scope, child(node, 1), index.domain) for index in indices]
    result: csp.Expr | None = None
    for chosen in product(*values):
        bound = {index.name: csp.Number(value) for index, value in zip(indices, chosen, strict=True)}
        case = resolve_expr(replace(scope, bound={**scope.bound, **bound}), child(node, 2))
        result = case if result is None else combine(op, result, case, scope.span(node))
    return csp.Number(int(op == "&&"), span=scope.span(node)) if result is None else result


def _values(scope: Scope, node: Node, domain: csp.Domain) -> list[int]:
    bounds = [part for part in (domain.low, domain.high, *domain.values) if part is not None]
    known = [part.value for part in bounds if isinstance(part, csp.Number)]
    if len(known) < len(bounds):
        hint = "use numbers and constants; if the range varies, write the condition out by hand"
        raise scope.error(node, "the range of an indexed condition must be constant", hint)
    if domain.values:
        return known
    if known[1] - known[0] >= _INSTANCES_MAX:
        raise scope.error(node, "the range of an indexed condition is too large")
    return list(range(known[0], known[1] + 1))


def _domain(scope: Scope, node: Node) -> csp.Domain:
    parts = tuple(resolve_expr(scope, part) for part in children(node))
    for part, written in zip(parts, children(node), strict=True):
        if uses_globals(part):
            hint = "use constants, parameters and received values"
            raise scope.error(written, "the values of an index cannot depend on variables", hint)
    span = scope.span(node)
    if node.data == "values":
        return csp.Domain(values=parts, span=span)
    low, high = parts
    if isinstance(low, csp.Number) and isinstance(high, csp.Number) and low.value > high.value:
        raise scope.error(
            node, f"the range {low.value}..{high.value} is empty", "write the lower bound first"
        )
    return csp.Domain(low, high, span=span)


def uses_globals(expr: csp.Expr) -> bool:
    """Whether the value depends on variables or channels."""
    match expr:
        case csp.Global() | csp.Query():
            return True
        case csp.Unary(_, operand):
            return uses_globals(operand)
        case csp.Binary(_, left, right):
            return uses_globals(left) or uses_globals(right)
        case csp.Pick(values, index):
            return any(map(uses_globals, (index, *values)))
        case _:
            return False


def _invoke(scope: Scope, node: Node) -> csp.Expr:
    name = str(token(node, 1))
    if name in _QUERIES and (name, len(children(node))) not in scope.names.macros:
        return _query(scope, node, _QUERIES[name])
    define, arguments = find_macro(scope, node)
    return expand_value(scope, define, arguments, scope.span(node))


def _query(scope: Scope, node: Node, op: csp.QueryOp) -> csp.Expr:
    arguments = children(node)
    if len(arguments) != 1 or arguments[0].data not in {"name", "element_of"}:
        raise scope.error(
            node, f"`{token(node, 1)}` takes one channel", f"write `call({token(node, 1)}, c)`"
        )
    name, indices = resolve_channel(scope, token(arguments[0], 0), arguments[0])
    return csp.Query(op, name, indices, span=scope.span(node))


def resolve_channel(scope: Scope, name: Token, place: Branch) -> tuple[str, tuple[csp.Expr, ...]]:
    """Returns a declared channel and its indices; `place` is the whole of `c` or `c[i]`."""
    channel = scope.names.channels.get(str(name))
    if channel is None:
        hint = suggest(str(name), list(scope.names.channels), f"declare it: `channel {name} 0;`")
        raise scope.error(name, f"there is no channel `{name}`", hint)
    has_indices = isinstance(place, Tree) and place.data == "element_of"
    indices = indices_of(scope, cast(Node, place)) if has_indices else ()
    if len(indices) != len(channel.shape):
        written = "".join("[i]" for _ in channel.shape)
        message = f"the channel `{name}` takes {len(channel.shape)} indices, not {len(indices)}"
        raise scope.error(place, message, f"write `{name}{written}`")
    return str(name), indices
