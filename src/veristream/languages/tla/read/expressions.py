"""From the concrete tree to expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

import tree_sitter

from veristream.errors import ModelError
from veristream.languages.tla.read.symbols import symbol_name
from veristream.languages.tla.read.tree import Tree, named, part, parts
from veristream.languages.tla.syntax import (
    Apply,
    Boolean,
    Bound,
    Case,
    Choose,
    Definition,
    Except,
    Expression,
    Fair,
    Filter,
    Function,
    FunctionSet,
    If,
    Image,
    Instance,
    Junction,
    Lambda,
    Let,
    Number,
    Operator,
    Parameter,
    Part,
    Previous,
    Prime,
    Product,
    Quantifier,
    Record,
    RecordSet,
    Recursive,
    SetOf,
    Square,
    Text,
    Tuple,
    Unsupported,
    Update,
    Use,
)

Cst = tree_sitter.Node
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\f": "\f"}
_SETS: Final = {
    "boolean_set": "BOOLEAN", "string_set": "STRING",
    "nat_number_set": "Nat", "int_number_set": "Int", "real_number_set": "Real",
}  # fmt: skip


class Reader:
    """Reads the expressions of one text."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def expression(self, node: Cst) -> Expression:
        read = _READ.get(node.type)
        if read is None:
            return Unsupported(node.type.replace("_", " "), span=self.tree.span(node))
        return read(self, node)

    def all(self, nodes: list[Cst]) -> tuple[Expression, ...]:
        return tuple(map(self.expression, nodes))

    # Names and operators

    def _identifier(self, node: Cst) -> Expression:
        return Use(self.tree.text(node), span=self.tree.span(node))

    def _set_name(self, node: Cst) -> Expression:
        return Use(_SETS[node.type], span=self.tree.span(node))

    def _call(self, node: Cst) -> Expression:
        name = self.tree.text(part(node, "name"))
        return Use(name, self._arguments(node), span=self.tree.span(node))

    def _arguments(self, node: Cst) -> tuple[Expression, ...]:
        return self.all(parts(node, "parameter"))

    def _symbol_as_name(self, node: Cst) -> Expression:
        """An operator without its arguments: itself an argument, such as `+` in `Fold(+, 0, s)`."""
        return Use(self._symbol(node), span=self.tree.span(node))

    def _symbol(self, node: Cst) -> str:
        if node.type in ("infix_op_symbol", "prefix_op_symbol", "postfix_op_symbol"):
            (node,) = named(node)
        return symbol_name(node.type)

    def _nonfix(self, node: Cst) -> Expression:
        symbol, *arguments = named(node)
        return Use(self._symbol(symbol), self.all(arguments), span=self.tree.span(node))

    def _prefixed(self, node: Cst) -> Expression:
        prefix = tuple(self._components(part(node, "prefix")))
        used = self.expression(part(node, "op"))
        assert isinstance(used, Use)
        return Use(used.name, used.arguments, prefix, span=self.tree.span(node))

    def _components(self, prefix: Cst) -> Iterator[Use]:
        for component in named(prefix):
            (inner,) = named(component)
            used = self.expression(inner)
            assert isinstance(used, Use)
            yield used

    def _part(self, node: Cst) -> Expression:
        prefix, *steps = named(node)
        *before, used = self._components(prefix)
        path: list[int] = []
        for step in steps:
            text = self.tree.text(step)
            if text.isdigit():
                path.append(int(text))
            elif text != ":":
                return Unsupported(f"the selector {text}", span=self.tree.span(step))
        whole = Use(used.name, used.arguments, tuple(before), span=used.span)
        return Part(whole, tuple(path), span=self.tree.span(node))

    def _label(self, node: Cst) -> Expression:
        return self.expression(named(node)[-1])

    def _infix(self, node: Cst) -> Expression:
        symbol = self._symbol(part(node, "symbol"))
        span = self.tree.span(node)
        if symbol in ("/\\", "\\/"):
            return self._junction(node, symbol)
        if symbol == "\\X":
            return Product(self.all(self._factors(node)), span=span)
        return Use(symbol, self.all([part(node, "lhs"), part(node, "rhs")]), span=span)

    def _junction(self, node: Cst, symbol: str) -> Expression:
        op: Literal["/\\", "\\/"] = "/\\" if symbol == "/\\" else "\\/"
        items: list[Cst] = []

        def collect(one: Cst) -> None:
            if one.type == "bound_infix_op" and self._symbol(part(one, "symbol")) == symbol:
                collect(part(one, "lhs"))
                collect(part(one, "rhs"))
            else:
                items.append(one)

        collect(node)
        return Junction(op, self.all(items), span=self.tree.span(node))

    def _factors(self, node: Cst) -> list[Cst]:
        left = part(node, "lhs")
        is_product = left.type == "bound_infix_op" and self._symbol(part(left, "symbol")) == "\\X"
        return [*(self._factors(left) if is_product else [left]), part(node, "rhs")]

    def _prefix(self, node: Cst) -> Expression:
        symbol = self._symbol(part(node, "symbol"))
        operand = self.expression(part(node, "rhs"))
        return Use(symbol, (operand,), span=self.tree.span(node))

    def _postfix(self, node: Cst) -> Expression:
        symbol = self._symbol(part(node, "symbol"))
        operand = self.expression(part(node, "lhs"))
        span = self.tree.span(node)
        return Prime(operand, span=span) if symbol == "'" else Use(symbol, (operand,), span=span)

    def _list(self, node: Cst) -> Expression:
        op: Literal["/\\", "\\/"] = "/\\" if node.type == "conj_list" else "\\/"
        items = [named(item)[-1] for item in named(node)]
        return Junction(op, self.all(items), span=self.tree.span(node))

    def _parentheses(self, node: Cst) -> Expression:
        (inner,) = named(node)
        return self.expression(inner)

    # Values

    def _number(self, node: Cst) -> Expression:
        digits, base = self.tree.text(node), 10
        if node.type != "nat_number":
            base = {"binary_number": 2, "octal_number": 8, "hex_number": 16}[node.type]
            digits = digits[2:]
        return Number(int(digits, base), span=self.tree.span(node))

    def _string(self, node: Cst) -> Expression:
        inner, text, at = self.tree.text(node)[1:-1], "", 0
        while at < len(inner):
            pair = inner[at : at + 2]
            is_escape = inner[at] == "\\" and len(pair) == 2
            text += _ESCAPES.get(pair, pair[1]) if is_escape else inner[at]
            at += 2 if is_escape else 1
        return Text(text, span=self.tree.span(node))

    def _boolean(self, node: Cst) -> Expression:
        return Boolean(self.tree.text(node) == "TRUE", span=self.tree.span(node))

    def _set(self, node: Cst) -> Expression:
        return SetOf(self.all(named(node)), span=self.tree.span(node))

    def _filter(self, node: Cst) -> Expression:
        (bound,) = self.bounds(parts(node, "generator"))
        return Filter(bound, self.expression(part(node, "filter")), span=self.tree.span(node))

    def _image(self, node: Cst) -> Expression:
        bounds = self.bounds(parts(node, "generator"))
        return Image(self.expression(part(node, "map")), bounds, span=self.tree.span(node))

    def _tuple(self, node: Cst) -> Expression:
        items = [one for one in named(node) if not one.type.endswith("angle_bracket")]
        return Tuple(self.all(items), span=self.tree.span(node))

    def _fields(self, node: Cst) -> tuple[tuple[str, Expression], ...]:
        children = [one for one in named(node) if one.type != "all_map_to"]
        names, values = children[::2], children[1::2]
        return tuple(
            (self.tree.text(name), self.expression(value))
            for name, value in zip(names, values, strict=True)
        )

    def _record(self, node: Cst) -> Expression:
        return Record(self._fields(node), span=self.tree.span(node))

    def _record_set(self, node: Cst) -> Expression:
        return RecordSet(self._fields(node), span=self.tree.span(node))

    def _field(self, node: Cst) -> Expression:
        base, name = named(node)
        field = Text(self.tree.text(name), span=self.tree.span(name))
        return Apply(self.expression(base), (field,), span=self.tree.span(node))

    def _apply(self, node: Cst) -> Expression:
        function, *arguments = named(node)
        return Apply(self.expression(function), self.all(arguments), span=self.tree.span(node))

    def _function(self, node: Cst) -> Expression:
        *bounds, value = [one for one in named(node) if one.type != "all_map_to"]
        return Function(self.bounds(bounds), self.expression(value), span=self.tree.span(node))

    def _function_set(self, node: Cst) -> Expression:
        domain, range_ = [one for one in named(node) if one.type != "maps_to"]
        return FunctionSet(self.expression(domain), self.expression(range_), span=self.tree.span(node))

    def _except(self, node: Cst) -> Expression:
        base, *updates = named(node)
        return Except(self.expression(base), tuple(map(self._update, updates)), span=self.tree.span(node))

    def _update(self, node: Cst) -> Update:
        path: list[tuple[Expression, ...]] = []
        (specifier,) = parts(node, "update_specifier")
        for level in named(specifier):
            if level.type == "except_update_record_field":
                (name,) = named(level)
                path.append((Text(self.tree.text(name), span=self.tree.span(name)),))
            else:
                path.append(self.all(named(level)))
        return Update(tuple(path), self.expression(part(node, "new_val")), span=self.tree.span(node))

    def _previous(self, node: Cst) -> Expression:
        return Previous(span=self.tree.span(node))

    # Binders and control

    def bounds(self, nodes: list[Cst]) -> tuple[Bound, ...]:
        found: list[Bound] = []
        for node in nodes:
            intro = parts(node, "intro")
            of_tuple = intro[0].type == "tuple_of_identifiers"
            if of_tuple:
                intro = [one for one in named(intro[0]) if one.type == "identifier"]
            names = tuple(map(self.tree.text, intro))
            set_ = self.expression(part(node, "set"))
            found.append(Bound(names, of_tuple, set_, span=self.tree.span(node)))
        return tuple(found)

    def _quantifier(self, node: Cst) -> Expression:
        kind = part(node, "quantifier")
        if kind.type not in ("forall", "exists"):
            hint = "take the variable into the specification, and hide nothing"
            return Unsupported("a quantifier over variables", hint, span=self.tree.span(kind))
        op: Literal["\\A", "\\E"] = "\\A" if kind.type == "forall" else "\\E"
        if node.type == "unbounded_quantification":
            names = tuple(map(self.tree.text, parts(node, "intro")))
            bounds: tuple[Bound, ...] = (Bound(names, False, None, span=self.tree.span(node)),)
        else:
            bounds = self.bounds(parts(node, "bound"))
        return Quantifier(op, bounds, self.expression(part(node, "expression")), span=self.tree.span(node))

    def _choose(self, node: Cst) -> Expression:
        intro = parts(node, "intro")
        of_tuple = intro[0].type == "tuple_of_identifiers"
        if of_tuple:
            intro = [one for one in named(intro[0]) if one.type == "identifier"]
        sets = parts(node, "set")
        set_ = self.expression(sets[0]) if sets else None
        bound = Bound(tuple(map(self.tree.text, intro)), of_tuple, set_, span=self.tree.span(node))
        return Choose(bound, self.expression(part(node, "expression")), span=self.tree.span(node))

    def _if(self, node: Cst) -> Expression:
        return If(*self.all([part(node, one) for one in ("if", "then", "else")]), span=self.tree.span(node))

    def _case(self, node: Cst) -> Expression:
        arms: list[tuple[Expression, Expression]] = []
        other = None
        for arm in named(node):
            if arm.type == "case_arm":
                condition, _, value = named(arm)
                arms.append((self.expression(condition), self.expression(value)))
            elif arm.type == "other_arm":
                other = self.expression(named(arm)[-1])
        return Case(tuple(arms), other, span=self.tree.span(node))

    def _let(self, node: Cst) -> Expression:
        definitions = tuple(map(self.definition, parts(node, "definitions")))
        return Let(definitions, self.expression(part(node, "expression")), span=self.tree.span(node))

    def _lambda(self, node: Cst) -> Expression:
        *names, body = [one for one in named(node) if one.type != "lambda"]
        return Lambda(tuple(map(self.tree.text, names)), self.expression(body), span=self.tree.span(node))

    # Actions and runs

    def _square(self, node: Cst) -> Expression:
        skipped = ("langle_bracket", "rangle_bracket_sub")
        action, subscript = [one for one in named(node) if one.type not in skipped]
        is_angle = node.type == "step_expr_no_stutter"
        return Square(
            self.expression(action), self.expression(subscript), is_angle, span=self.tree.span(node)
        )

    def _fair(self, node: Cst) -> Expression:
        subscript, action = named(node)
        strong = self.tree.text(node).startswith("SF")
        return Fair(strong, self.expression(subscript), self.expression(action), span=self.tree.span(node))

    # Definitions

    def definition(self, node: Cst, local: bool = False) -> Definition:
        span = self.tree.span(node)
        match node.type:
            case "operator_definition":
                (name,) = parts(node, "name")
                is_symbol = name.type.endswith("_symbol")
                named_ = self._symbol(name) if is_symbol else self.tree.text(name)
                parameters = tuple(map(self.parameter, parts(node, "parameter")))
                body = self.expression(part(node, "definition"))
                return Operator(named_, parameters, body, local, span=span)
            case "function_definition":
                name, *rest = [one for one in named(node) if one.type != "def_eq"]
                *bounds, value = rest
                called = self.tree.text(name)
                function = Function(self.bounds(bounds), self.expression(value), called, span=span)
                return Operator(called, (), function, local, span=span)
            case "module_definition":
                parameters = tuple(map(self.parameter, parts(node, "parameter")))
                called = self.tree.text(part(node, "name"))
                return self.instance(part(node, "definition"), called, parameters, local)
            case "instance":
                return self.instance(node, None, (), local)
            case "recursive_declaration":
                return Recursive(tuple(self.parameter(one).name for one in named(node)), span=span)
            case _:
                raise ModelError(f"{node.type.replace('_', ' ')} is not supported", span)

    def instance(
        self, node: Cst, name: str | None, parameters: tuple[Parameter, ...], local: bool
    ) -> Instance:
        module, *substitutions = named(node)
        found: list[tuple[str, Expression]] = []
        for one in substitutions:
            target, _, value = named(one)
            is_symbol = target.type.endswith("_symbol")
            called = self._symbol(target) if is_symbol else self.tree.text(target)
            found.append((called, self.expression(value)))
        module_name, span = self.tree.text(module), self.tree.span(node)
        return Instance(name, parameters, module_name, tuple(found), local, span=span)

    def parameter(self, node: Cst) -> Parameter:
        span = self.tree.span(node)
        if node.type != "operator_declaration":
            return Parameter(self.tree.text(node), span=span)
        (name,) = parts(node, "name")
        is_symbol = name.type.endswith("_symbol")
        places = [one for one in named(node) if one.type == "placeholder"]
        return Parameter(self._symbol(name) if is_symbol else self.tree.text(name), len(places), span=span)


_READ: Final[Mapping[str, Callable[[Reader, Cst], Expression]]] = {
    **dict.fromkeys(("identifier_ref", "identifier"), Reader._identifier),
    **dict.fromkeys(_SETS, Reader._set_name),
    **dict.fromkeys(("nat_number", "binary_number", "octal_number", "hex_number"), Reader._number),
    **dict.fromkeys(("conj_list", "disj_list"), Reader._list),
    **dict.fromkeys(("bounded_quantification", "unbounded_quantification"), Reader._quantifier),
    **dict.fromkeys(("step_expr_or_stutter", "step_expr_no_stutter"), Reader._square),
    **dict.fromkeys(("infix_op_symbol", "prefix_op_symbol", "postfix_op_symbol"), Reader._symbol_as_name),
    "bound_op": Reader._call,
    "bound_nonfix_op": Reader._nonfix,
    "prefixed_op": Reader._prefixed,
    "bound_infix_op": Reader._infix,
    "bound_prefix_op": Reader._prefix,
    "bound_postfix_op": Reader._postfix,
    "parentheses": Reader._parentheses,
    "string": Reader._string,
    "boolean": Reader._boolean,
    "finite_set_literal": Reader._set,
    "set_filter": Reader._filter,
    "set_map": Reader._image,
    "tuple_literal": Reader._tuple,
    "record_literal": Reader._record,
    "set_of_records": Reader._record_set,
    "record_value": Reader._field,
    "function_evaluation": Reader._apply,
    "function_literal": Reader._function,
    "set_of_functions": Reader._function_set,
    "except": Reader._except,
    "prev_func_val": Reader._previous,
    "choose": Reader._choose,
    "if_then_else": Reader._if,
    "case": Reader._case,
    "let_in": Reader._let,
    "lambda": Reader._lambda,
    "fairness": Reader._fair,
    "subexpression": Reader._part,
    "label": Reader._label,
}
