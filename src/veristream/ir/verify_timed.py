"""What only timed networks have, and what they cannot have."""

from __future__ import annotations

from collections.abc import Iterator

from veristream.errors import ModelError
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Component,
    Edge,
    FairnessMark,
    LocationKind,
    Network,
    Sorted,
    Symmetry,
)
from veristream.ir.property import (
    Deterministic,
    DivergenceFree,
    Fairness,
    Inevitable,
    NonTerminating,
    PotentiallyAlways,
    Property,
    Refines,
    Temporal,
    Transition,
)
from veristream.source import NOWHERE, Span

_SAY_TIMED = "write `timed` after the network's name"
_UNTIMED_ONLY = {
    Temporal: "a formula of linear temporal logic",
    Refines: "a refinement",
    Deterministic: "determinism",
    DivergenceFree: "freedom from divergence",
    Transition: "a condition of steps",
    NonTerminating: "freedom from termination",
}
_TIMED_CLAIMS = "ask with `always`, `reachable`, `inevitable`, `potentially`, `leadsto` or `deadlockfree`"


def check_timed(network: Network) -> None:
    """Raises ModelError where time has no meaning, or where what there is has none with time."""
    if not network.timed:
        _check_untimed(network)
        return
    alike: tuple[Symmetry | Sorted, ...] = network.symmetries + network.bags
    for part in alike:
        raise ModelError("a timed network has no symmetries and no bags", part.span, "leave them out")
    for channel in network.channels:
        if channel.kind is ChannelKind.BARRIER:
            raise ModelError(
                f"`{channel.name}` is a barrier, and a timed network has none",
                channel.span,
                "use `rendezvous` or `broadcast`",
            )
    urgent = frozenset(channel.name for channel in network.channels if channel.urgent)
    for component in network.components:
        _check_component(component, urgent)
    _check_priorities(network)
    for property_ in network.properties:
        _check_property(property_)


def _check_untimed(network: Network) -> None:
    for what, span in _parts_of_time(network):
        raise ModelError(f"{what}, but the network is not timed", span, _SAY_TIMED)
    for property_ in network.properties:
        claim = property_.claim
        if isinstance(claim, Inevitable | PotentiallyAlways):
            word = "inevitable" if isinstance(claim, Inevitable) else "potentially"
            raise ModelError(
                f"`{word}` speaks of timed networks", property_.span, f"{_SAY_TIMED}, or ask with `ltl`"
            )
        if isinstance(claim, Refines) and claim.specification.timed:
            raise ModelError(
                "a specification is not timed", property_.span, "refinement compares untimed networks"
            )


def _parts_of_time(network: Network) -> Iterator[tuple[str, Span]]:
    """What only a timed network has; urgency elsewhere means nothing and does no harm."""
    for clock in network.clocks:
        yield f"`{clock.name}` is a clock", clock.span
    parts: tuple[Channel | Component, ...] = network.channels + network.components
    for part in parts:
        if part.priority:
            yield f"`{part.name}` has a priority", part.span


def _check_component(component: Component, urgent: frozenset[str]) -> None:
    if component.idle:
        raise ModelError(
            f"`{component.name}` is idle, and a timed network starts no components",
            component.span,
            "let it wait at a location of its own instead",
        )
    for location in component.locations:
        if location.kind is LocationKind.ATOMIC:
            raise ModelError(
                f"`{location.name}` is atomic, which has no meaning in a timed network",
                location.span,
                "make it `committed`",
            )
    for edge in component.edges:
        _check_edge(edge, urgent)


def _check_edge(edge: Edge, urgent: frozenset[str]) -> None:
    if edge.fork or edge.join or edge.kill:
        raise ModelError(
            "a timed network neither starts nor ends components", edge.span, "synchronise over a channel"
        )
    if edge.fairness is not FairnessMark.NONE:
        raise ModelError(
            "the runs of a timed network are not fair", edge.span, "bound its delays by clock invariants"
        )
    if edge.clock_guard and edge.sync is not None and edge.sync.channel in urgent:
        span = edge.clock_guard[0].span
        raise ModelError(
            f"`{edge.sync.channel}` is urgent, so its edges cannot wait for clocks",
            edge.span if span is NOWHERE else span,
            "leave out the clock guard, or make the channel not urgent",
        )


def _check_priorities(network: Network) -> None:
    casts = any(channel.kind is ChannelKind.BROADCAST for channel in network.channels)
    for component in network.components:
        if component.priority and casts:
            raise ModelError(
                f"`{component.name}` has a priority, and there is a broadcast channel",
                component.span,
                "priorities of components are not supported together with broadcast channels",
            )


def _check_property(property_: Property) -> None:
    if property_.fairness is not Fairness.NONE:
        raise ModelError("the runs of a timed network are not fair", property_.span, "leave out `under`")
    what = _UNTIMED_ONLY.get(type(property_.claim))
    if what is not None:
        raise ModelError(f"{what} is not asked of a timed network", property_.span, _TIMED_CLAIMS)
