"""Checks of what only timed networks can contain, and what they cannot."""

from __future__ import annotations

from collections.abc import Iterator

from veristream.errors import ModelError
from veristream.ir import network as net
from veristream.ir import property as prop
from veristream.source import NOWHERE, Span

_SAY_TIMED = "write `timed` after the network's name"
_UNTIMED_ONLY = {
    prop.Temporal: "linear temporal logic",
    prop.Refines: "refinement",
    prop.Deterministic: "determinism checks",
    prop.DivergenceFree: "divergence checks",
    prop.Transition: "transition properties",
    prop.NonTerminating: "termination checks",
}
_TIMED_CLAIMS = "use `always`, `reachable`, `inevitable`, `potentially`, `leadsto` or `deadlockfree`"


def check_timed(network: net.Network) -> None:
    """Raises ModelError for timed constructs in an untimed network, or unsupported ones in a timed one."""
    if not network.timed:
        _check_untimed(network)
        return
    alike: tuple[net.Symmetry | net.Sorted, ...] = network.symmetries + network.bags
    for part in alike:
        raise ModelError("a timed network cannot have symmetries or bags", part.span, "remove it")
    for channel in network.channels:
        if channel.kind is net.ChannelKind.BARRIER:
            raise ModelError(
                f"`{channel.name}` is a barrier, which a timed network cannot have",
                channel.span,
                "use `rendezvous` or `broadcast`",
            )
    urgent = frozenset(channel.name for channel in network.channels if channel.urgent)
    for component in network.components:
        _check_component(component, urgent)
    _check_priorities(network)
    for property_ in network.properties:
        _check_property(property_)


def _check_untimed(network: net.Network) -> None:
    for what, span in _parts_of_time(network):
        raise ModelError(f"{what}, but the network is not timed", span, _SAY_TIMED)
    for property_ in network.properties:
        claim = property_.claim
        if isinstance(claim, prop.Inevitable | prop.PotentiallyAlways):
            word = "inevitable" if isinstance(claim, prop.Inevitable) else "potentially"
            raise ModelError(
                f"`{word}` applies only to timed networks", property_.span, f"{_SAY_TIMED}, or use `ltl`"
            )
        if isinstance(claim, prop.Refines) and claim.specification.timed:
            raise ModelError(
                "a specification cannot be timed", property_.span, "refinement compares untimed networks"
            )


def _parts_of_time(network: net.Network) -> Iterator[tuple[str, Span]]:
    """Yields the constructs that require a timed network; urgency is harmless elsewhere."""
    for clock in network.clocks:
        yield f"`{clock.name}` is a clock", clock.span
    parts: tuple[net.Channel | net.Component, ...] = network.channels + network.components
    for part in parts:
        if part.priority:
            yield f"`{part.name}` has a priority", part.span


def _check_component(component: net.Component, urgent: frozenset[str]) -> None:
    if component.idle:
        raise ModelError(
            f"`{component.name}` is idle, but a timed network cannot start components",
            component.span,
            "let it wait at an extra location instead",
        )
    for location in component.locations:
        if location.kind is net.LocationKind.ATOMIC:
            raise ModelError(
                f"`{location.name}` is atomic, which a timed network does not support",
                location.span,
                "make it `committed`",
            )
    for edge in component.edges:
        _check_edge(edge, urgent)


def _check_edge(edge: net.Edge, urgent: frozenset[str]) -> None:
    if edge.fork or edge.join or edge.kill:
        raise ModelError(
            "a timed network cannot start or end components", edge.span, "synchronise over a channel"
        )
    if edge.fairness is not net.FairnessMark.NONE:
        raise ModelError(
            "timed networks do not support fairness", edge.span, "bound its delays by clock invariants"
        )
    if edge.clock_guard and edge.sync is not None and edge.sync.channel in urgent:
        span = edge.clock_guard[0].span
        raise ModelError(
            f"`{edge.sync.channel}` is urgent, so its edges cannot have clock guards",
            edge.span if span is NOWHERE else span,
            "remove the clock guard, or remove `urgent` from the channel",
        )


def _check_priorities(network: net.Network) -> None:
    casts = any(channel.kind is net.ChannelKind.BROADCAST for channel in network.channels)
    for component in network.components:
        if component.priority and casts:
            raise ModelError(
                f"`{component.name}` has a priority, but the network has a broadcast channel",
                component.span,
                "component priorities cannot be combined with broadcast channels",
            )


def _check_property(property_: prop.Property) -> None:
    if property_.fairness is not prop.Fairness.NONE:
        raise ModelError("timed networks do not support fairness", property_.span, "remove `under`")
    what = _UNTIMED_ONLY.get(type(property_.claim))
    if what is not None:
        raise ModelError(f"timed networks do not support {what}", property_.span, _TIMED_CLAIMS)
