"""Prove, run and audit in one go, for the newcomer: what each of them found, and a page of it all.

*Prove*: the papers' models against the papers' verdicts. *Run*: a cluster of Kabis in which a storage party
and a validator lie. *Audit*: every copy of every event of that cluster, and its ledger, checked on Spark,
which names both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from veristream import library
from veristream.expected import Reproduction
from veristream.kabis.access import Access
from veristream.kabis.audit.findings import NOTES
from veristream.kabis.audit.page import show_audit
from veristream.kabis.audit.report import AuditReport
from veristream.kabis.cluster import Cluster
from veristream.kabis.demonstration import LIARS, Demonstration, demonstrate
from veristream.kabis.folder import ClusterFolder
from veristream.kabis.handshake import Role
from veristream.page import Markup, element, escape, render_page, table, text
from veristream.report.html import show_reproductions
from veristream.search.limits import Report, silent
from veristream.spark import open_session

PROVED = (
    "kafka",
    "kafka_intruder",
    "nsq_shared_channel",
    "rabbitmq_scenario1",
    "rabbitmq_scenario2",
    "kabis_validate_printed",
    "kabis_validate_meant",
    "kabis_tendermint",
    "kabis_tendermint_unlocked",
)
"""The known models that are proved: something of each paper, and what takes seconds, not minutes."""
EVENTS = 20_000
MASTER = "local[2]"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tour:
    """What was found on the way."""

    proved: tuple[Reproduction, ...]
    ran: Demonstration
    audited: AuditReport

    @property
    def is_as_told(self) -> bool:
        """Whether every verdict is the expected one, nothing was lost, and the liars alone are named."""
        proved = all(one.as_expected for one in self.proved)
        return proved and not self.ran.problems and self.named == set(LIARS)

    @property
    def named(self) -> set[str]:
        """Whom the audit accuses."""
        return {each.accused for each in self.audited.accused if each.kind not in NOTES}


def take_tour(
    names: Sequence[str] = PROVED,
    *,
    models: Path | None = None,
    events: int = EVENTS,
    master: str = MASTER,
    report: Report = silent,
    tell: Tell = lambda _: None,
) -> Tour:
    """Proves, runs and audits; the cluster is gone afterwards."""
    tell("prove: the papers' models")
    proved = library.reproduce(names, models=models, report=report)
    tell("run: a cluster with two liars")
    with _cluster() as cluster:
        ran = demonstrate(cluster, events)
        tell("audit: every copy of every event, on Spark")
        audited = _audit(cluster, master, tell)
    return Tour(proved, ran, audited)


@contextmanager
def _cluster() -> Iterator[Cluster]:
    with (
        tempfile.TemporaryDirectory(prefix="veristream-tour-") as folder,
        Cluster(ClusterFolder(Path(folder) / "cluster")) as cluster,
    ):
        yield cluster


def _audit(cluster: Cluster, master: str, tell: Tell) -> AuditReport:
    from veristream.kabis.audit import job, network  # PySpark takes a second to import

    access = Access(cluster.folder)
    identity = access.identity("consumer", Role.CONSUMER)
    session = open_session(master, "veristream tour", elastic=True)
    return job.audit(session, job.Parties(network.Access(access.genesis, identity)), job.Scope(), tell)


def summarise(tour: Tour) -> Iterator[str]:
    """Each verb in a line or two."""
    outcomes = [outcome for one in tour.proved for outcome in one.outcomes]
    agreeing = sum(not outcome.differences for outcome in outcomes)
    violated = sum(outcome.expectation.verdict == "violated" for outcome in outcomes)
    yield (
        f"proved   {agreeing} of {len(outcomes)} verdicts on {len(tour.proved)} models as expected,"
        f" {violated} of them violations with a run that shows it"
    )
    ran = tour.ran
    yield (
        f"ran      {ran.acknowledged:,} events acknowledged, {ran.delivered:,} delivered,"
        f" {'; '.join(ran.problems) or 'none lost, doubled, changed or out of order'}"
    )
    caught = ", ".join(ran.caught) or "nobody"
    yield f"         while {' and '.join(LIARS)} lied; caught on the ledger: {caught}"
    checked = tour.audited.checked
    yield (
        f"audited  {checked.event_copies:,} copies of {checked.events:,} events,"
        f" {checked.signatures:,} signatures; accused: {', '.join(sorted(tour.named)) or 'nobody'}"
    )


def render_tour(tour: Tour) -> str:
    """The page of the tour."""
    return render_page(
        "Veristream: prove, run, audit",
        element("section", text("h2", "Proved"), *show_reproductions(tour.proved)),
        element("section", text("h2", "Run"), *_show_run(tour.ran)),
        element("section", text("h2", "Audited"), *show_audit(tour.audited)),
    )


def _show_run(ran: Demonstration) -> Iterator[Markup]:
    liars = " and ".join(f"{name} ({how}s)" for name, how in LIARS.items())
    yield text("p", f"Four validators and three storage parties on one machine; {liars} lie all the time.")
    receipt = ran.receipt
    place = f"{receipt.topic}-{receipt.partition}, sequence {receipt.sequence}, block {receipt.height}"
    rows = (
        ("events acknowledged", f"{ran.acknowledged:,}"),
        ("delivered to a consumer that validates", f"{ran.delivered:,}"),
        ("lost, doubled, changed or out of order", "; ".join(ran.problems) or "none"),
        ("caught by its own signatures, on the ledger", ", ".join(ran.caught) or "nobody"),
        ("suspected by the consumer", ", ".join(ran.suspected) or "nobody"),
        ("a receipt verified with the genesis alone", f"{place}, by {', '.join(receipt.validators)}"),
        ("seconds", f"{ran.seconds:.1f}"),
    )
    yield table(("what", "found"), [(escape(name), escape(value)) for name, value in rows])
