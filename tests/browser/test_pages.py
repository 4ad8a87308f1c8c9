"""Checks every page that Veristream writes in Chromium: narrow and wide, light and dark."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.browser.chromium import Tab
from tests.browser.look import VIEWS, look_at
from tests.kabis.audit.test_page import make_report
from tests.missing import is_missing
from tests.unit.history.report.sample import AUDIT as HISTORY
from tests.unit.report.test_chart import run_of
from tests.unit.trials.intruders.sample import surprising, well
from tests.unit.trials.sample import all_tried
from veristream.brokers.kafka import is_at_hand
from veristream.errors import EnvironmentFailure
from veristream.history.audited import Audit
from veristream.history.manifest import Manifest
from veristream.history.report.html import render_audit
from veristream.kabis.audit.page import to_html
from veristream.kabis.audit.report import AuditReport
from veristream.report.html import render_results
from veristream.spark import find_java
from veristream.trials.html import render_trials
from veristream.verdict import Effort, Result, Violated

pytestmark = pytest.mark.peers

ROOT = Path(__file__).resolve().parents[2]
LONG_NAME = "a-producer-whose-name-goes-on-" * 4


def mistakes_in(tab: Tab, page: Path) -> list[str]:
    """Returns the defects of a page in all views."""
    return [f"{view}: {told}" for view in VIEWS for told in look_at(tab, page, view)]


def write(*arguments: str, page: Path) -> str:
    """Runs a command and returns the page that it writes; its exit code must be that of a verdict."""
    command = [sys.executable, "-m", "veristream.cli", *arguments, "--html", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode in (0, 1), done.stderr
    return page.read_text(encoding="utf-8")


def test_the_page_of_check(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "check.html"
    written = write("check", "models/kabis/validate.py", page=page)
    assert written.count("<svg") == written.count("<summary>") == 3
    assert mistakes_in(tab, page) == []


def test_the_page_of_reproduce(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "known.html"
    written = write("reproduce", "kabis_tendermint_unlocked", "rabbitmq_scenario2", page=page)
    assert written.count("<svg") == written.count("<summary>") == 4
    assert mistakes_in(tab, page) == []


def test_the_page_of_a_long_run(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "long.html"
    result = Result("never", "always", Violated("", run_of(12_345)), Effort(1, 1, 1, 0.1, 1.0))
    page.write_text(render_results("long.net", [result]), encoding="utf-8")
    assert mistakes_in(tab, page) == []


def with_name(producer: str) -> AuditReport:
    report = make_report()
    return replace(report, streams=tuple(replace(line, producer=producer) for line in report.streams))


@pytest.mark.parametrize(
    "report",
    [
        make_report(),
        make_report([]),
        replace(make_report([]), streams=(), parties=(), timeline=()),
        with_name(LONG_NAME),
    ],
    ids=["faults", "no fault", "nothing at all", "a long name"],
)  # fmt: skip
def test_the_page_of_an_audit(tab: Tab, tmp_path: Path, report: AuditReport) -> None:
    page = tmp_path / "audit.html"
    page.write_text(to_html(report), encoding="utf-8")
    assert mistakes_in(tab, page) == []


def with_long_names() -> Audit:
    manifest = HISTORY.manifest
    processes = tuple(replace(one, name=LONG_NAME) for one in manifest.processes)
    streams = tuple(replace(one, name=LONG_NAME) for one in manifest.streams)
    return replace(HISTORY, manifest=replace(manifest, processes=processes, streams=streams))


@pytest.mark.parametrize(
    "audit",
    [
        HISTORY,
        replace(HISTORY, judgements=HISTORY.judgements[1:2]),
        replace(HISTORY, judgements=(), timeline=None, manifest=Manifest("", (), ())),
        with_long_names(),
    ],
    ids=["violations", "no violation", "nothing at all", "long names"],
)  # fmt: skip
def test_the_page_of_a_history(tab: Tab, tmp_path: Path, audit: Audit) -> None:
    page = tmp_path / "history.html"
    page.write_text(render_audit(audit), encoding="utf-8")
    assert mistakes_in(tab, page) == []


def test_the_page_of_trials(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "trials.html"
    page.write_text(render_trials(all_tried(), [well(), surprising()]), encoding="utf-8")
    assert mistakes_in(tab, page) == []


def test_the_page_of_the_tour(tab: Tab, tmp_path: Path) -> None:
    try:
        find_java()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    page, replays = tmp_path / "report.html", is_at_hand()
    written = write("tour", "--events", "800", page=page)
    toured, _, replayed = written.partition("Replays of counterexamples")
    assert toured.count("<svg") == toured.count("<summary>") + 3
    assert toured.count('<svg viewBox="0 0 400') == 3, "the audit's plots"
    assert bool(replayed) == replays
    assert replayed.count("<svg") == max(0, replayed.count("<summary>") - 1), "of all but the steps"
    assert mistakes_in(tab, page) == []
