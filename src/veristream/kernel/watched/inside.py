"""What the code of a network's steps must report itself, since the steps do not show it afterwards.

The arguments of a label are known from the state before the step, unless they depend on a selected value or
call a function: of several steps of one action it is not known which values were selected.
"""

from __future__ import annotations

from veristream.ir.actions import Action, list_actions
from veristream.ir.expr import Call, Const, Expr, Local
from veristream.ir.network import Bind, Network, Receive, Send
from veristream.ir.property import Occurs, Silent
from veristream.ir.walk import mentions, walk
from veristream.kernel.watch import ActionTest, Inside, Watch


def inside_of(network: Network, watch: Watch) -> Inside:
    """Returns what of the watch has to be part of the relation."""
    demanding = [one for one in watch.actions if isinstance(one, Occurs) and one.arguments is not None]
    if not watch.argument_count and not demanding:
        return Inside()
    hidden = [action for action in list_actions(network) if not is_derivable(network, action)]
    tests = tuple(test for test in demanding if any(decide(test, action) is None for action in hidden))
    return Inside(tests, watch.argument_count if hidden else 0)


def decide(test: ActionTest, action: Action) -> bool | None:
    """Returns whether the test holds of every step of the action, or of none; None if that depends."""
    match test:
        case Silent():
            return not action.visible
        case Occurs(name=name, arguments=wanted):
            given = action.label.arguments
            if name != action.label.name or (wanted is not None and len(wanted) != len(given)):
                return False
            pairs = [(w, g) for w, g in zip(wanted or (), given, strict=False) if w is not None]
            if any(isinstance(g, Const) and g.value != w for w, g in pairs):
                return False
            return True if all(isinstance(g, Const) for _, g in pairs) else None
        case _:
            return None


def is_derivable(network: Network, action: Action) -> bool:
    """Returns whether the state before a step of the action determines the arguments of its label."""
    arguments = action.label.arguments
    receive, sent = received(network, action)
    patterns = () if receive is None else receive.patterns
    bound = {one.name: at for at, one in enumerate(patterns) if isinstance(one, Bind)}
    used = {node.name for node in walk(arguments) if isinstance(node, Local)}
    if mentions(arguments, Call) or not used <= set(bound):
        return False
    if receive is None or not used:
        return True
    sources = receive.indices if sent is None else tuple(sent[bound[name]] for name in used)
    return not mentions(sources, Local | Call)


def received(network: Network, action: Action) -> tuple[Receive | None, tuple[Expr, ...] | None]:
    """Returns how the edge with the action's label receives, and what its partner sends; without a partner,
    it receives the oldest message of a buffer."""
    leader = network.components[action.leader].edges[action.edge]
    if not action.label_of_follower:
        return (leader.sync if isinstance(leader.sync, Receive) else None), None
    follower = network.components[action.follower].edges[action.follower_edge]
    assert isinstance(follower.sync, Receive) and isinstance(leader.sync, Send)
    return follower.sync, leader.sync.values
