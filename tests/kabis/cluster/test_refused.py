"""What parties tell of those who hit limits."""

from __future__ import annotations

from veristream.cli.kabis.work.status import render
from veristream.kabis.cluster.refused import Offender, list_offenders
from veristream.kabis.cluster.status import ClusterStatus
from veristream.kabis.wire.refusals import Refusal


def test_counts_of_all_parties_are_added_up() -> None:
    mallory, eve = "producer mallory", "address 10.0.0.7"
    told = [
        ("v1", (Refusal(mallory, "connections", 3), Refusal(eve, "bad handshake", 9))),
        ("v2", ()),
        ("s1", (Refusal(mallory, "connections", 2),)),
    ]
    assert list_offenders(told) == (
        Offender(eve, "bad handshake", 9, ("v1",)),
        Offender(mallory, "connections", 5, ("v1", "s1")),
    )


def test_the_status_names_them_and_a_lying_party_draws_nothing_on_the_terminal() -> None:
    told = [("v1", (Refusal("producer m\x1b[2J", "connections", 1),))]
    status = ClusterStatus("chain", 1, (), (), (), (), "", list_offenders(told))
    assert "limit: producer m?[2J: connections, once, at v1" in render(status).splitlines()
