"""A guided tour for newcomers: prove, run and audit, with one report.

*Prove* checks models from papers and compares the verdicts. *Run* starts a Kabis cluster in which a storage
party and a validator lie. *Audit* checks the ledger and every copy of every event on Spark, and names both
liars. Where a Kafka is on this machine already, *replay* makes a counterexample happen on it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

from veristream import library
from veristream.brokers.kafka import is_at_hand
from veristream.expected import Reproduction, find_known
from veristream.kabis.audit.findings import NOTES
from veristream.kabis.audit.page import show_audit
from veristream.kabis.audit.report import AuditReport
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.demonstration import LIARS, Demonstration, demonstrate
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.wire.handshake import Role
from veristream.known import find_models
from veristream.page import Markup, element, escape, render_page, table, text
from veristream.replay.listed import Compared, find_replays, run_listed
from veristream.replay.outcome import explain, outcome
from veristream.replay.report.html import show_listed
from veristream.report.html import show_reproductions
from veristream.report.words import tell_count
from veristream.search.limits import count_cores
from veristream.spark import open_session
from veristream.verdict import Violated

PROVED = (
    ("kafka", "kafka_intruder"),
    ("rabbitmq_scenario1", "rabbitmq_scenario2"),
    ("nsq_shared_channel",),
    ("kabis_validate_printed", "kabis_validate_meant", "kabis_tendermint", "kabis_tendermint_unlocked"),
)
"""The known models to check, by paper: some from each, chosen to take seconds rather than minutes. The
first two groups use different search loops, so the first two processes do not compile the same one."""
PROVERS_MAX = 2
"""Most of the time goes into compiling kernels, which uses one core per model."""
REPLAYED = "hanging-v0"
"""The replay of the tour."""
EVENTS = 20_000
MASTER = "local[2]"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Tour:
    """What each part of the tour found."""

    proved: tuple[Reproduction, ...]
    ran: Demonstration
    audited: AuditReport
    replayed: Compared | None = None

    @property
    def is_as_told(self) -> bool:
        """Whether all verdicts are as expected, nothing was lost, and the audit named exactly the liars.

        What was replayed, if anything was, has to be as expected, too.
        """
        proved = all(one.as_expected for one in self.proved)
        replayed = self.replayed is None or not self.replayed.differences
        return proved and not self.ran.problems and self.named == set(LIARS) and replayed

    @property
    def named(self) -> set[str]:
        """The parties that the audit accuses."""
        return {each.accused for each in self.audited.accused if each.kind not in NOTES}


def take_tour(
    papers: Sequence[Sequence[str]] = PROVED,
    *,
    models: Path | None = None,
    events: int = EVENTS,
    master: str = MASTER,
    tell: Tell = lambda _: None,
) -> Tour:
    """Proves, runs and audits; removes the cluster afterwards."""
    models = models or find_models()
    tell("prove: checking models from papers")
    proved = prove(papers, models, tell)
    tell("run: starting a cluster with two liars")
    with _cluster() as cluster:
        ran = demonstrate(cluster, events)
        tell("audit: checking every copy of every event on Spark")
        audited = _audit(cluster, master, tell)
    return Tour(proved, ran, audited, _replay(models, tell))


def prove(papers: Sequence[Sequence[str]], models: Path, tell: Tell) -> tuple[Reproduction, ...]:
    """Checks the models of all papers, one process per paper, to use all cores."""
    find_known(models, [*chain(*papers)])  # report a wrong folder before doing any work
    provers = min(PROVERS_MAX, count_cores())
    with ProcessPoolExecutor(provers, mp_context=get_context("spawn")) as pool:
        proving = [pool.submit(library.reproduce, names, models=models) for names in papers]
        try:
            _tell_each(proving, tell)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(chain.from_iterable(each.result() for each in proving))


def _tell_each(proving: Sequence[Future[tuple[Reproduction, ...]]], tell: Tell) -> None:
    """Reports each model as soon as it is checked; raises what a worker process raised."""
    for done in as_completed(proving):
        for one in done.result():
            agreeing = sum(not outcome.differences for outcome in one.outcomes)
            tell(f"  {one.model.name}: {agreeing} of {len(one.outcomes)} verdicts as expected")


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
    return job.audit(
        session, job.Parties(network.PartyAccess(access.genesis, identity)), job.AuditScope(), tell
    )


def _replay(models: Path, tell: Tell) -> Compared | None:
    """Makes a counterexample happen on a real Kafka, if that and its client are on this machine."""
    if find_spec("confluent_kafka") is None or not is_at_hand():
        return None
    tell("replay: steering a real Kafka through a counterexample")
    listed = [one for one in find_replays(models) if one.name == REPLAYED]
    with tempfile.TemporaryDirectory(prefix="veristream-tour-") as folder:
        return next(run_listed(listed, Path(folder), lambda one: lambda step: None), None)


def summarise(tour: Tour) -> Iterator[tuple[str, str]]:
    """Yields each part of the tour with one line about what it found."""
    ran, checked = tour.ran, tour.audited.checked
    problems = "; ".join(ran.problems) or "none lost, duplicated, altered or out of order"
    copies = f"{checked.event_copies:,} copies of {checked.events:,} events"
    yield "proved", _tell_proved(tour.proved)
    yield "ran", f"{ran.acknowledged:,} events acknowledged, {ran.delivered:,} delivered, {problems}"
    yield "lied", f"{' and '.join(LIARS)}; caught on the ledger: {_names(ran.caught)}"
    yield "audited", f"{copies}, {checked.signatures:,} signatures; accused: {_names(sorted(tour.named))}"
    if tour.replayed is not None:
        yield "replayed", _tell_replayed(tour.replayed)


def _tell_replayed(compared: Compared) -> str:
    finding = compared.replayed.finding
    return f"{compared.listed.property} on a real Kafka: {outcome(finding)}, {explain(finding)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _tell_proved(proved: Sequence[Reproduction]) -> str:
    outcomes = [outcome for one in proved for outcome in one.outcomes]
    agreeing = sum(not outcome.differences for outcome in outcomes)
    violated = [one.result.verdict for one in outcomes if isinstance(one.result.verdict, Violated)]
    shown = sum(verdict.trace is not None for verdict in violated)
    return (
        f"{agreeing} of {tell_count(len(outcomes), 'verdict')} on {tell_count(len(proved), 'model')} as"
        f" expected; {tell_count(len(violated), 'violation')}, {shown} with a trace"
    )


def render_tour(tour: Tour) -> str:
    """Renders the report of the tour."""
    sections = (
        ("Proved", (*_introduce(), *show_reproductions(tour.proved))),
        ("Run", _show_run(tour.ran)),
        ("Audited", show_audit(tour.audited)),
        *([("Replayed", show_listed([tour.replayed]))] if tour.replayed is not None else []),
    )
    links = [element("a", escape(title), href=f"#{title.lower()}") for title, _ in sections]
    return render_page(
        "Veristream: prove, run, audit",
        element("nav", *links),
        *(element("p", text("strong", verb), escape(f" {told}")) for verb, told in summarise(tour)),
        *(element("section", text("h2", title), *parts, id=title.lower()) for title, parts in sections),
    )


def _introduce() -> Iterator[Markup]:
    yield text("p", "Our verdicts beside the published ones, with charts of the traces that show them.")
    yield element(
        "p",
        escape("These models take seconds; "),
        text("code", "veristream reproduce"),
        escape(" checks every model that comes with Veristream."),
    )


def _show_run(ran: Demonstration) -> Iterator[Markup]:
    liars = " and ".join(f"{name} ({how}s)" for name, how in LIARS.items())
    yield text("p", f"Four validators and three storage parties on one machine; {liars} lie throughout.")
    receipt = ran.receipt
    place = f"{receipt.topic}-{receipt.partition}, sequence {receipt.sequence}, block {receipt.height}"
    rows = (
        ("events acknowledged", f"{ran.acknowledged:,}"),
        ("delivered to a validating consumer", f"{ran.delivered:,}"),
        ("lost, duplicated, altered or out of order", "; ".join(ran.problems) or "none"),
        ("caught on the ledger by their own signatures", _names(ran.caught)),
        ("suspected by the consumer", _names(ran.suspected)),
        ("a receipt, verified with only the genesis", f"{place}, by {', '.join(receipt.validators)}"),
        ("seconds", f"{ran.seconds:.1f}"),
    )
    yield table(("what", "found"), [(escape(name), escape(value)) for name, value in rows])
