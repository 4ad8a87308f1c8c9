"""Which actions may be on a cycle of states: those after which every component can return."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.ir.actions import Action
from veristream.ir.network import Component, Network


def returning_actions(network: Network, actions: Sequence[Action]) -> int:
    """The actions after which each component that certainly moves can come back to where it was, as a bit
    set. A cycle of states returns every component, so that it has no other actions."""
    returning = [_returning_edges(network, component) for component in network.components]
    found = 0
    for number, action in enumerate(actions):
        returns = action.edge in returning[action.leader]
        if action.follower >= 0:
            returns &= action.follower_edge in returning[action.follower]
        if returns:
            found |= 1 << number
    return found


def _returning_edges(network: Network, component: Component) -> frozenset[int]:
    """The edges of the component from whose target its source can be reached."""
    edges = component.edges
    if component.name in _restarted(network):
        return frozenset(range(len(edges)))
    after: dict[str, set[str]] = {place.name: set() for place in component.locations}
    for edge in edges:
        after[edge.source].add(edge.target)
    reached = {place: _reachable(after, place) for place in after}
    return frozenset(k for k, edge in enumerate(edges) if edge.source in reached[edge.target])


def _restarted(network: Network) -> frozenset[str]:
    """The components that others start or stop."""
    return frozenset(
        name
        for component in network.components
        for edge in component.edges
        for name in (*edge.join, *edge.kill, *(fork.component for fork in edge.fork))
    )


def _reachable(after: dict[str, set[str]], start: str) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = after[waiting.pop()] - found
        found |= new
        waiting += new
    return found
