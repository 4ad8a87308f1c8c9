"""Lowers UPPAAL models to Networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from veristream.errors import ModelError
from veristream.ir import network as net
from veristream.ir.property import Property, Rejected
from veristream.ir.verify import verify
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.builtin import builtin_scope
from veristream.languages.timed.lower.claims import Answerable, lower_queries, reject, too_deep
from veristream.languages.timed.lower.declare import declare_all
from veristream.languages.timed.lower.edges import after_broadcasts, lower_process
from veristream.languages.timed.lower.instances import Definition, Instance, Instances
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.programs.parameters import narrow_parameters
from veristream.languages.timed.lower.programs.precompute import call_value
from veristream.languages.timed.lower.programs.statements import lower_functions
from veristream.languages.timed.lower.scope import Family, Process, Scope
from veristream.languages.timed.read.parse import read_system
from veristream.source import Source


def read_models(
    source: Source, constants: Mapping[str, int], queries: Source | None = None
) -> tuple[net.Network, ...]:
    """Reads, lowers and verifies the Network of a file; `constants` overrides declared constants.

    With `queries`, it has those of that file instead of its own.

    Raises ModelError if the model is wrong; a query that is wrong is rejected.
    """
    system = read_system(source, constants, queries)
    bare, lowered = lower(system, Path(source.name).stem or "system")
    network = _asking(bare, lowered)
    try:
        verify(network)
    except (ModelError, RecursionError):
        verify(_asking(bare, ()))
        network = _asking(
            bare, [_verified(bare, *pair) for pair in zip(system.queries, lowered, strict=True)]
        )
    return (network,)


def lower(system: syntax.System, name: str) -> tuple[net.Network, list[Answerable]]:
    """Returns the Network without its properties, and its queries."""
    model, outer = Model(), builtin_scope(call_value).inner()
    declare_all(system.declarations, outer, model, model.variables)
    line = outer.inner()
    declare_all(system.system_declarations, line, model, model.variables)
    instances = _instances(system, model, line)
    lowered = [(one, *lower_process(one, model, outer)) for one in instances]
    _check_priorities(system, model)
    components = (*(component for _, component, _ in lowered), *after_broadcasts(model))
    lower_functions(model)
    network = net.Network(
        name,
        variables=tuple(model.variables),
        channels=tuple(replace(one, priority=model.priorities.get(one.name, 0)) for one in model.channels),
        clocks=tuple(model.clocks),
        functions=tuple(model.functions.values()),
        components=components,
        timed=True,
        remark=_remark(system),
        span=system.span,
    )
    queries = line.inner()
    _declare_processes([(one, process) for one, _, process in lowered], queries)
    return network, lower_queries(system.queries, model, queries)


def _asking(bare: net.Network, queries: Sequence[Answerable]) -> net.Network:
    """Returns the Network with the queries."""
    properties: list[Property] = []
    rejected: list[Rejected] = []
    functions: dict[str, net.Function] = {}
    for one in queries:
        if isinstance(one, Rejected):
            rejected.append(replace(one, position=len(properties) + len(rejected)))
        else:
            properties += one.properties
            functions.update(one.functions)
    every = (*bare.functions, *functions.values())
    network = replace(bare, functions=every, properties=tuple(properties), rejected=tuple(rejected))
    return narrow_parameters(network)


def _verified(bare: net.Network, query: syntax.Query, lowered: Answerable) -> Answerable:
    """Returns the query, rejected if the Network cannot have it."""
    if isinstance(lowered, Rejected):
        return lowered
    try:
        verify(_asking(bare, [lowered]))
    except ModelError as error:
        return reject(query, error, lowered.properties[0].name)
    except RecursionError:
        return reject(query, too_deep(query), lowered.properties[0].name)
    return lowered


def _remark(system: syntax.System) -> str:
    """Returns a remark about skipped queries, which a report must show beside the verdicts."""
    count = len(system.skipped)
    if not count:
        return ""
    return f"{count} unsupported quer{'y' if count == 1 else 'ies'} skipped (statistical, game or hybrid)"


def _instances(system: syntax.System, model: Model, scope: Scope) -> list[Instance]:
    definitions: dict[str, Definition] = {}
    named: list[Definition] = [*system.templates, *system.instantiations]
    for one in named:
        if one.name in definitions:
            raise ModelError(f"`{one.name}` is declared twice", one.span, "rename one of them")
        definitions[one.name] = one
    if not any(system.processes):
        raise ModelError("the system has no process", system.span, "write `system Name;` at the end")
    found = Instances(definitions, model, scope)
    instances: list[Instance] = []
    for priority, group in enumerate(system.processes):
        for process in group:
            if any(one.line_name == process.name for one in instances):
                raise ModelError(
                    f"`{process.name}` appears twice on the system line", process.span, "remove one"
                )
            instances += found.of(process, priority)
    return instances


def _check_priorities(system: syntax.System, model: Model) -> None:
    """Raises ModelError for process priorities with broadcasts.

    The receivers of a broadcast, and with them its priority, may depend on clocks.
    """
    if len(system.processes) < 2:
        return
    for channel in model.channels:
        if channel.kind is net.ChannelKind.BROADCAST:
            raise ModelError(
                "process priorities are not supported together with broadcast channels",
                channel.span,
                "separate the processes of the system line with commas",
            )


def _declare_processes(processes: list[tuple[Instance, Process]], scope: Scope) -> None:
    families: dict[str, dict[tuple[int, ...], Process]] = {}
    for instance, process in processes:
        if instance.values is None:
            scope.declare(instance.line_name, process, instance.span)
        else:
            families.setdefault(instance.line_name, {})[instance.values] = process
    for name, members in families.items():
        scope.names[name] = Family(name, members)
