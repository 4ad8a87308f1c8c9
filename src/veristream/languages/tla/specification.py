"""A specification as it is checked: its modules and configuration, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from veristream.errors import ModelError
from veristream.ir.property import Formula
from veristream.languages.tla.code.actions import ActionCompiler, Mode
from veristream.languages.tla.levels import Level
from veristream.languages.tla.read.config import (
    Assigned,
    Config,
    ModelName,
    Named,
    Replaced,
    Values,
)
from veristream.languages.tla.read.config import Value as Written
from veristream.languages.tla.read.parse import read_module
from veristream.languages.tla.runs import RunCompiler, Step, join
from veristream.languages.tla.scope import Binding, ByName, Constant, Defined, Linker, Scope
from veristream.languages.tla.syntax import Expression, Junction, Module, Square, Use
from veristream.languages.tla.values.community import MODULES
from veristream.languages.tla.values.modules import STANDARD
from veristream.languages.tla.values.values import Value, make_set, model_value
from veristream.source import Source, Span, read_source

Action = Callable[..., None]
Condition = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Check:
    """Something that is checked or computed in states or steps, with its name."""

    name: str
    compute: Condition


@dataclass(frozen=True, slots=True)
class Runs:
    """A formula about runs, what it is checked on, and the conditions of steps in both, by name."""

    name: str
    formula: Formula
    assumption: Formula | None
    propositions: Mapping[str, Step]


@dataclass(frozen=True, slots=True)
class Specification:
    """What is explored and checked."""

    name: str
    variables: tuple[str, ...]
    init: Action | None
    next: Action | None
    named_next: Callable[[], Action]
    invariants: tuple[Check, ...]
    constraints: tuple[Check, ...]
    action_constraints: tuple[Check, ...]
    assumptions: tuple[Check, ...]
    view: Check | None
    symmetry: tuple[Check, ...]
    initially: tuple[Check, ...]
    of_steps: tuple[Check, ...]
    runs: tuple[Runs, ...]
    refused: Mapping[str, ModelError]
    check_deadlock: bool
    compiler: ActionCompiler


class Modules:
    """Finds modules beside the one that is checked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Module | None] = {}

    def load(self, name: str, span: Span) -> Module | None:
        """The module of a file beside the specification, or None for a standard module."""
        if name not in self._known:
            path = self._folder / f"{name}.tla"
            if name not in MODULES and not path.is_file():
                hint = f"put {name}.tla beside the module that extends it"
                raise ModelError(f"there is no module {name}", span, hint)
            own = path.is_file() and name not in STANDARD
            self._known[name] = read_module(read_source(path)) if own else None
        return self._known[name]


def value_of(written: Written) -> Value:
    """The value that a configuration writes."""
    match written:
        case ModelName(name):
            return model_value(name)
        case Values(items):
            return make_set(map(value_of, items))
        case _:
            return written


def load_specification(
    source: Source, config: Config, folder: Path, constants: Mapping[str, int]
) -> Specification:
    """Compiles the specification in a text; `constants` override the configuration's. Raises ModelError."""
    module = read_module(source)
    values: dict[str, Binding] = {}
    replaced: dict[tuple[str | None, str], str] = {}
    for one in config.constants:
        match one:
            case Assigned(name, value):
                values[name] = Constant(value_of(value))
            case Replaced(name, other, within):
                replaced[within, name] = other
    values |= {name: Constant(value) for name, value in constants.items()}
    modules = Modules(folder)
    linker = Linker(modules.load, values, replaced)
    root = linker.root(module)
    for name in constants:
        if root.find(name) is None:
            hint = "check the spelling of -D, or declare it: CONSTANT " + name
            raise ModelError(f"{module.name} has no constant {name}", module.span, hint)
    for name, binding in values.items():
        if isinstance(root.names.get(name), Defined):
            root.names[name] = binding
    return _Compiled(ActionCompiler(linker), root, config, module.name).specification()


@dataclass(slots=True)
class _Said:
    """What a PROPERTY says, by what it is about."""

    named: Named
    initially: list[Check] = field(default_factory=list)
    always: list[Check] = field(default_factory=list)
    of_steps: list[Check] = field(default_factory=list)
    runs: list[tuple[Expression, Scope]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A configuration and the scope of the module that it is about, from which a specification is made."""

    compiler: ActionCompiler
    root: Scope
    config: Config
    name: str

    def specification(self) -> Specification:
        init, next_ = self._behaviour()
        properties = [self._property(one) for one in self.config.properties]
        runs = {one.named.name: self._runs(one) for one in properties if one.runs}
        config = self.config
        compiler = self.compiler
        for one, scope in compiler.linker.assumptions:
            if compiler.levels.level(one.condition, scope) > Level.CONSTANT:
                hint = "it is about constants; write an INVARIANT for what holds in all states"
                raise ModelError("ASSUME does not know variables", one.condition.span, hint)
        assumptions = tuple(
            Check(one.name or "ASSUME", compiler.function(one.condition, scope))
            for one, scope in compiler.linker.assumptions
        )
        return Specification(
            self.name,
            tuple(one.name for one in compiler.linker.variables),
            None if init is None else compiler.action(*init, Mode.INIT),
            None if next_ is None else compiler.action(*next_, Mode.NEXT),
            lambda: compiler.named_action(*next_) if next_ is not None else _nothing,
            (
                *self._checks(config.invariants, "INVARIANT"),
                *(check for one in properties for check in one.always),
            ),
            self._checks(config.constraints, "CONSTRAINT"),
            self._checks(config.action_constraints, "ACTION_CONSTRAINT", Level.ACTION),
            assumptions,
            None if config.view is None else self._check(config.view, "VIEW"),
            self._checks(config.symmetry, "SYMMETRY", Level.CONSTANT),
            tuple(check for one in properties for check in one.initially),
            tuple(check for one in properties for check in one.of_steps),
            tuple(one for one in runs.values() if isinstance(one, Runs)),
            {name: one for name, one in runs.items() if isinstance(one, ModelError)},
            config.check_deadlock,
            compiler,
        )

    def _property(self, named: Named) -> _Said:
        """What a PROPERTY says of initial states, of all states, of steps, and of runs."""
        found = _Said(named)
        for part, scope in self._parts(Use(named.name, span=named.span), self.root):
            level = self.compiler.levels.level(part, scope)
            match part:
                case Use("[]", (Square(angle=False) as step,)):
                    found.of_steps.append(Check(named.name, self.compiler.function(step, scope)))
                case Use("[]", (always,)) if self.compiler.levels.level(always, scope) <= Level.STATE:
                    found.always.append(Check(named.name, self.compiler.function(always, scope)))
                case _ if level <= Level.STATE:
                    found.initially.append(Check(named.name, self.compiler.function(part, scope)))
                case _:
                    found.runs.append((part, scope))
        return found

    def _runs(self, said: _Said) -> Runs | ModelError:
        """What a PROPERTY says of runs, on the specification's fairness; or why it cannot be checked."""
        if self.config.symmetry or self.config.view is not None:
            hint = "remove SYMMETRY and VIEW to check it"
            message = "a property of runs is not preserved by symmetry, nor by a view"
            return ModelError(message, said.named.span, hint)
        compiler = RunCompiler(self.compiler)
        try:
            formulas = [compiler.formula(*one) for one in said.runs]
            assumed = [compiler.formula(*one) for one in self._fairness()]
        except ModelError as error:
            return error
        assumption = join("&&", assumed) if assumed else None
        return Runs(said.named.name, join("&&", formulas), assumption, compiler.propositions)

    def _fairness(self) -> list[tuple[Expression, Scope]]:
        """The conjuncts of the specification that are about whole runs."""
        named = self.config.specification
        if named is None:
            return []
        return [
            (part, scope)
            for part, scope in self._parts(Use(named.name, span=named.span), self.root)
            if self.compiler.levels.level(part, scope) is Level.TEMPORAL and not _is_step(part)
        ]

    def _checks(
        self, names: Sequence[Named], keyword: str, level: Level = Level.STATE
    ) -> tuple[Check, ...]:
        return tuple(self._check(one, keyword, level) for one in names)

    def _check(self, named: Named, keyword: str, level: Level = Level.STATE) -> Check:
        use = Use(named.name, span=named.span)
        self._at_most(use, level, keyword)
        return Check(named.name, self.compiler.function(use, self.root))

    def _at_most(self, use: Use, level: Level, keyword: str) -> None:
        """Raises ModelError for a definition that says more than the keyword takes."""
        if self.compiler.levels.level(use, self.root) > level:
            about = "a state" if level is Level.STATE else "a step"
            raise ModelError(f"{keyword} takes a condition of {about}, which {use.name} is not", use.span)

    def _behaviour(self) -> tuple[tuple[Expression, Scope] | None, tuple[Expression, Scope] | None]:
        config = self.config
        if config.specification is None:
            init = None if config.init is None else Use(config.init.name, span=config.init.span)
            next_ = None if config.next is None else Use(config.next.name, span=config.next.span)
            if init is not None:
                self._at_most(init, Level.STATE, "INIT")
            return (
                None if init is None else (init, self.root),
                None if next_ is None else (next_, self.root),
            )
        parts = list(self._parts(Use(config.specification.name, span=config.specification.span), self.root))
        inits: list[tuple[Expression, Scope]] = []
        next_found: tuple[Expression, Scope] | None = None
        for part, scope in parts:
            level = self.compiler.levels.level(part, scope)
            match part:
                case Use("[]", (Square(action, _, False),)) if next_found is None:
                    next_found = action, scope
                case _ if _is_step(part):
                    hint = "join their actions: `[][A /\\ B]_vars`"
                    raise ModelError("there are two formulas `[][A]_v` for the steps", part.span, hint)
                case _ if level <= Level.STATE:
                    inits.append((part, scope))
                case _ if level is Level.ACTION:
                    hint = "write `[][A]_vars` for steps; a condition of initial states has no primes"
                    raise ModelError("this conjunct is about one step", part.span, hint)
        if not inits:
            name = config.specification.name
            hint = "write `Spec == Init /\\ [][Next]_vars`"
            raise ModelError(f"{name} has no initial condition", config.specification.span, hint)
        if len(inits) == 1:
            return inits[0], next_found
        joined = Junction("/\\", tuple(Use(f"\0{at}") for at in range(len(inits))))
        names: dict[str, Binding] = {f"\0{at}": ByName(*one) for at, one in enumerate(inits)}
        return (joined, self.root.inside(names)), next_found

    def _parts(self, node: Expression, scope: Scope) -> Iterator[tuple[Expression, Scope]]:
        """The conjuncts of a formula about runs."""
        match node:
            case Junction("/\\", items):
                for one in items:
                    yield from self._parts(one, scope)
            case Use(arguments=()) if self.compiler.levels.level(node, scope) is Level.TEMPORAL:
                match self.compiler.linker.resolve(node, scope):
                    case Defined(operator, at):
                        yield from self._parts(operator.body, at)
                    case ByName(expression, at):
                        yield from self._parts(expression, at)
            case _:
                yield node, scope


def _is_step(node: Expression) -> bool:
    """Whether it is `[][A]_v`."""
    match node:
        case Use("[]", (Square(angle=False),)):
            return True
        case _:
            return False


def _nothing(*arguments: object) -> None:
    """An action that no step takes."""
