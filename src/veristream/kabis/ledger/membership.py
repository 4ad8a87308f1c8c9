"""The rules for changes of the members, and who was a member when.

A change names the whole next membership and the height from which it is in force, at least two above the
block that orders it. So the block between is decided by the members that ordered the change, and its header
holds the state with the change: that certified header is how others learn of it (`succession`). One change
is pending at a time, so no set is ever skipped.

Addresses of founding members may differ between files, so no rule compares them.
"""

from __future__ import annotations

from operator import itemgetter

from veristream.kabis.ledger.context import Context
from veristream.kabis.protocol.actions import SetMembers
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.members import (
    MemberRole,
    Members,
    Memberships,
    Party,
    Possession,
    is_address,
    member_possession_bytes,
)
from veristream.kabis.protocol.outcomes import Already, Done, Outcome, Reason, RefusedError, require

CHANGE_LEAST = 2
"""How many heights after the block that orders it a change is in force at the earliest."""
CHANGE_MOST = 1_000
"""The same at the latest: while a change is pending, there is no other."""


def set_members(context: Context, action: SetMembers) -> Outcome:
    """Orders the next members; the caller has checked that an admin did it."""
    state = context.state
    require(not context.fixed_members, Reason.FIXED_MEMBERS)
    require(state.version >= 2, Reason.OLD_VERSION, f"the chain has version {state.version}")
    if state.memberships.get(action.height) == action.members and action.height > context.height:
        return Already()
    pending = [height for height, _ in state.memberships.items() if height > context.height]
    require(not pending, Reason.CHANGE_PENDING, f"the one from height {max(pending, default=0)} on")
    least, most = context.height + CHANGE_LEAST, context.height + CHANGE_MOST
    require(least <= action.height <= most, Reason.OUT_OF_RANGE, f"height {action.height}")
    problem = action.members.find_problem() or _find_bad_address(action.members)
    require(not problem, Reason.BAD_MEMBERS, problem)
    _require_no_topic_moves(context, action)
    _require_possessions(context, action)
    state.memberships.put(action.height, action.members)
    return Done()


def _find_bad_address(members: Members) -> str:
    for party in (*members.validators, *members.storage):
        if party.address and not is_address(party.address):
            return f"the address of {party.name} is not HOST:PORT: {party.address!r}"
    return ""


def _require_no_topic_moves(context: Context, action: SetMembers) -> None:
    """Requires that topics that are not validated stay, because only one party has their events."""
    before = Memberships(context.genesis.members, context.state.memberships.items())
    after = before.changed(action.height, action.members)
    for name, topic in sorted(context.state.topics.items()):
        party = before.party_of(name)
        moves = not topic.validated and after.party_of(name) != party
        require(not moves, Reason.BAD_MEMBERS, f"{party} alone stores {name}, which is not validated")


def _require_possessions(context: Context, action: SetMembers) -> None:
    """Requires exactly the signatures of the keys that are new in their role."""
    proofs = {(proof.role, proof.name): proof for proof in action.possessions}
    for role, party in find_new_keys(context.members, action.members):
        proof = proofs.pop((role, party.name), None)
        require(proof is not None, Reason.BAD_MEMBERS, f"the new key of {party.name} did not sign")
        assert proof is not None
        _verify_possession(context, party, proof)
    require(not proofs, Reason.BAD_MEMBERS, f"no new key: {', '.join(name for _, name in proofs)}")


def _verify_possession(context: Context, party: Party, proof: Possession) -> None:
    message = member_possession_bytes(context.genesis.chain_id, proof.role, party.name)
    try:
        context.verify(party.public, message, proof.signature)
    except SignatureError:
        raise RefusedError(Reason.BAD_SIGNATURE, f"the new key of {party.name}") from None


def find_new_keys(before: Members, after: Members) -> list[tuple[MemberRole, Party]]:
    """Returns the members that have another name, key or role than all before them."""
    return [
        (role, party)
        for role in MemberRole
        for party in after.of(role)
        if (party.name, party.public) not in {(each.name, each.public) for each in before.of(role)}
    ]


def find_storage_key(context: Context, name: str, height: int) -> bytes | None:
    """Returns the key of a storage party at a height, or the last one that it had before; None if none.

    A party that left may still state that it does not have what it gave a receipt for.
    """
    memberships = sorted(context.state.memberships.items(), key=itemgetter(0), reverse=True)
    for members in (*(each for begin, each in memberships if begin <= height), context.genesis.members):
        party = members.find(MemberRole.STORAGE, name)
        if party is not None:
            return party.public
    return None
