"""Parts: what a bucket shows of a property, and how the parts of all buckets become one evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from veristream.history.properties import Property
from veristream.history.reasons import Evidence, merge
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import order_of

Fact = tuple[str, int, int]
"""Something that several buckets may see, and that counts once: what, and two numbers."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a bucket shows of a property.

    `evidence` adds up. `facts` do not: they are few, bounded by the processes, groups and streams of the
    manifest, and `settle` counts what follows from all of them together. `by_group` is evidence that counts
    only if all buckets together have what it takes to decide the group. `unseen` has a bit for each
    effective message whose partition nobody learnt, once for each subscription of a queue: it is set if the
    bucket has no receipt of it. -1 sets all.
    """

    evidence: Evidence = field(default_factory=Evidence)
    facts: frozenset[Fact] = frozenset()
    by_group: Mapping[int, Evidence] = field(default_factory=dict)
    unseen: int = -1


def settle(asked: Property, parts: Sequence[Part]) -> Evidence:
    """Returns the evidence of a whole history from the parts of all its buckets."""
    whole = merge([part.evidence for part in parts])
    facts = frozenset[Fact]().union(*(part.facts for part in parts))
    match asked:
        case Property.DELIVERED:
            unseen = -1
            for part in parts:
                unseen &= part.unseen
            lost = unseen.bit_count() if unseen != -1 else 0
            return replace(whole, asked=whole.asked + lost, undecided=whole.undecided + lost)
        case Property.PROCESSED:
            committed, acknowledged, unknown = (
                {group for what, group, _ in facts if what == each}
                for each in ("committed", "acknowledged", "unknown")
            )
            decided = (committed & acknowledged) - unknown
            of_groups = merge(
                [part.by_group[each] for part in parts for each in part.by_group if each in decided]
            )
            of_groups = merge([whole, of_groups])
            return replace(of_groups, asked=len(committed), undecided=len(committed - decided))
        case Property.EXCLUSIVE:
            members: dict[int, set[int]] = {}
            for _, group, process in facts:
                members.setdefault(group, set()).add(process)
            return replace(whole, asked=sum(len(each) > 1 for each in members.values()))
        case Property.READERS:
            first: dict[Anomaly, Witness] = {}
            for witness in (each for part in parts for each in part.evidence.witnesses):
                known = first.get(witness.anomaly)
                if known is None or order_of(witness.events[0]) < order_of(known.events[0]):
                    first[witness.anomaly] = witness
            only = merge([Evidence(witnesses=tuple(first.values()))]).witnesses
            return replace(whole, counts={"leaked": len(facts)} if facts else {}, witnesses=only)
        case _:
            return whole
