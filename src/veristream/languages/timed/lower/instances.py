"""The processes of the system line: templates with their parameters bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.constant import (
    bounded,
    check_range,
    evaluate,
    find_fixed,
    numbers,
    resolve_type,
)
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.programs.expressions import Reader
from veristream.languages.timed.lower.scope import Fixed, LocalNames, Ref, Scope, unknown
from veristream.languages.timed.lower.types import Range, Type, describe, same_layout
from veristream.source import Span

Definition = syntax.Template | syntax.Instantiation
Bound = Mapping[str, Fixed | Ref]
"""What the parameters stand for."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A process: its name, its template, what the parameters stand for, and its rank on the line.

    `values` are those of the free parameters, None where it has none.
    """

    name: str
    line_name: str
    values: tuple[int, ...] | None
    template: syntax.Template
    bound: Bound
    priority: int
    span: Span


@dataclass(frozen=True, slots=True)
class Instances:
    """Finds the processes; arguments are read in the scope of the system line."""

    definitions: Mapping[str, Definition]
    model: Model
    scope: Scope

    def of(self, process: syntax.ProcessName, priority: int) -> Iterator[Instance]:
        """One process, or one for each choice of the free parameters."""
        definition = self._find(process.name, process.span)
        for values in self._choices(definition.parameters, {}, process):
            template, bound = self._follow(definition, values, ())
            chosen = tuple(one.value for one in values.values())
            written = f"({', '.join(map(str, chosen))})" if chosen else ""
            yield Instance(
                process.name + written,
                process.name,
                chosen or None,
                template,
                bound,
                priority,
                process.span,
            )

    def _find(self, name: str, span: Span) -> Definition:
        if name not in self.definitions:
            known = ", ".join(self.definitions) or "none"
            raise unknown("template", name, self.definitions, span, f"there are: {known}")
        return self.definitions[name]

    def _choices(
        self,
        parameters: tuple[syntax.Parameter, ...],
        before: dict[str, Fixed],
        process: syntax.ProcessName,
    ) -> Iterator[dict[str, Fixed]]:
        """All values of the parameters, the last one changing fastest."""
        if not parameters:
            yield before
            return
        first, *rest = parameters
        if first.reference or first.shape:
            raise ModelError(
                f"`{process.name}` needs an argument for `{first.name}`",
                process.span,
                f"write `Name = {process.name}(...);` and name that on the system line",
            )
        type_ = bounded(first.type, self._with(before))
        for value in numbers(type_):
            yield from self._choices(tuple(rest), {**before, first.name: Fixed(value, type_)}, process)

    def _with(self, bound: Mapping[str, Fixed | Ref]) -> Scope:
        return Scope(self.scope, "", dict(bound))

    def _follow(
        self, definition: Definition, bound: Bound, seen: tuple[str, ...]
    ) -> tuple[syntax.Template, Bound]:
        """The template behind a chain of partial instantiations."""
        if isinstance(definition, syntax.Template):
            return definition, bound
        if definition.name in seen:
            raise ModelError(
                f"`{definition.name}` is made of itself", definition.span, "name a template after `=`"
            )
        target = self._find(definition.template, definition.span)
        if len(definition.arguments) != len(target.parameters):
            names = ", ".join(one.name for one in target.parameters)
            raise ModelError(
                f"`{target.name}` takes {len(target.parameters)} argument(s), "
                f"not {len(definition.arguments)}",
                definition.span,
                f"write `{target.name}({names})`",
            )
        scope = self._with(bound)
        passed: dict[str, Fixed | Ref] = {}
        for parameter, argument in zip(target.parameters, definition.arguments, strict=True):
            type_ = resolve_type(parameter.type, parameter.shape, self._with(passed))
            passed[parameter.name] = self._argument(parameter, type_, argument, scope)
        return self._follow(target, passed, (*seen, definition.name))

    def _argument(
        self, parameter: syntax.Parameter, type_: Type, argument: syntax.Expression, scope: Scope
    ) -> Fixed | Ref:
        if not parameter.reference and isinstance(type_, Range):
            value = evaluate(argument, scope)
            return Fixed(check_range(value, type_, argument.span), type_)
        if parameter.reference:
            place = Reader(self.model, scope, LocalNames()).place(argument)
            if isinstance(place, Ref) and not all(isinstance(one, ir.Const) for one in place.indices):
                raise ModelError("this index is not a constant", argument.span, "use a number")
        else:
            place = find_fixed(argument, scope)
        if not same_layout(place.type, type_):
            raise ModelError(
                f"`{parameter.name}` is {describe(type_)}, and this is {describe(place.type)}"
                if describe(type_) != describe(place.type)
                else f"`{parameter.name}` is {describe(type_)} of another form",
                argument.span,
                "pass what the parameter's type says",
            )
        return place
