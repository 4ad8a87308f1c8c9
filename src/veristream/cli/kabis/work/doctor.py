"""`kabis doctor`: findings as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from veristream.cli.failure import Exit
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.operations.cluster_check import check_cluster
from veristream.kabis.operations.findings import Finding, Severity
from veristream.kabis.operations.folder_check import check_folder


def show(data: Path, *, as_json: bool) -> None:
    """Prints what is wrong; exits with 1 if there is an error among it."""
    cluster = Cluster(ClusterFolder(data))
    findings = [*check_folder(cluster), *check_cluster(cluster)]
    runs = bool(cluster.find())
    if as_json:
        typer.echo(json.dumps({"runs": runs, "findings": [asdict(each) for each in findings]}, indent=2))
    else:
        typer.echo(render(findings, runs=runs))
    if any(each.severity is Severity.ERROR for each in findings):
        raise typer.Exit(Exit.VIOLATED)


def render(findings: Sequence[Finding], *, runs: bool) -> str:
    """The findings for people, errors first."""
    ordered = sorted(findings, key=lambda each: each.severity)
    lines = [f"{each.severity}: {each.what}\n  at: {each.where}\n  do: {each.do}" for each in ordered]
    if not findings:
        lines.append("nothing is wrong")
    if not runs:
        lines.append("the cluster is down, so only its folder was checked")
    return "\n".join(lines)
