"""`kabis client` and `kabis access`: registers clients, and orders and lists their rights, as the admin."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import typer

from veristream.cli.kabis.table import draw_table
from veristream.cli.kabis.work.acting import act
from veristream.cli.kabis.work.opening import visit_as_admin
from veristream.errors import ModelError
from veristream.kabis.client.administration import Replica
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.actions import (
    Action,
    Grant,
    Operation,
    Quota,
    RegisterKey,
    Resource,
    Revoke,
    Rule,
    SetClosed,
    SetQuota,
    SetRole,
)
from veristream.kabis.protocol.transactions import prove_possession


def add(data: Path, name: str) -> None:
    """Creates and registers a key; completes an interrupted registration."""
    folder = ClusterFolder(data)
    chain_id = folder.genesis().chain_id
    key = folder.add_client(name)

    def decide(ledger: Ledger) -> Action | None:
        known = ledger.key(name, 0)
        if known is not None and known.public == key.public:
            return None
        return RegisterKey(name, 0, key.public, prove_possession(chain_id, name, 0, key))

    act(data, decide)
    typer.echo(f"{name}: key {key.public.hex()[:16]}… in {data / 'keys' / name}")


def read_rule(who: str, operation: str, topic: str | None, group: str | None) -> Rule:
    """Returns the rule that the arguments describe."""
    if (topic is None) == (group is None):
        raise ModelError("a rule is about a topic or a group", hint="give either --topic or --group")
    resource, pattern = (Resource.GROUP, group) if topic is None else (Resource.TOPIC, topic)
    rule = Rule(resource, pattern or "", Operation[operation.upper()], who)
    problem = rule.find_problem()
    if problem:
        raise ModelError(problem, hint="veristream kabis access --help shows examples")
    return rule


def grant(data: Path, rule: Rule) -> None:

    def decide(ledger: Ledger) -> Action | None:
        _require_known(ledger, rule.who)
        return None if _is_in_force(ledger, rule) else Grant(rule)

    act(data, decide)
    typer.echo(f"granted: {rule}")


def revoke(data: Path, rule: Rule) -> None:

    def decide(ledger: Ledger) -> Action:
        if not _is_in_force(ledger, rule):
            raise ModelError(
                f"there is no rule {rule}", hint="veristream kabis access list shows those in force"
            )
        return Revoke(rule)

    act(data, decide)
    typer.echo(f"revoked: {rule}")


def set_role(data: Path, name: str, role: str, *, held: bool) -> None:

    def decide(ledger: Ledger) -> Action | None:
        _require_known(ledger, name)
        span = ledger.roles().get((name, role))
        holds = span is not None and span.ended_height is None
        return None if holds == held else SetRole(name, role, held)

    act(data, decide)
    typer.echo(f"{name} has the role {role}" if held else f"{name} no longer has the role {role}")


def set_closed(data: Path, *, closed: bool) -> None:
    act(data, lambda ledger: None if ledger.is_closed == closed else SetClosed(closed))
    typer.echo(f"the ledger is {'closed' if closed else 'open'}")


def limit(data: Path, groups: int | None, topics: int | None, transactions: int | None) -> None:
    """Changes the quotas that are given, and shows all."""
    given = {"groups": groups, "topics": topics, "transactions": transactions}
    wanted = {name: value for name, value in given.items() if value is not None}
    if not wanted:
        raise ModelError("there is nothing to limit", hint="give --groups, --topics or --transactions")
    quota = Quota(0, 0, 0)

    def decide(ledger: Ledger) -> Action | None:
        nonlocal quota
        quota = replace(ledger.quota, **wanted)
        return None if quota == ledger.quota else SetQuota(quota)

    act(data, decide)
    shown = [f"{name} {value or 'without limit'}" for name, value in asdict(quota).items()]
    typer.echo(f"for each client: {', '.join(shown)}")


def show_access(data: Path, *, as_json: bool) -> None:
    access = Access(ClusterFolder(data)).require_up()

    async def work(replica: Replica) -> Ledger:
        return replica.ledger

    ledger = visit_as_admin(access, work)
    rules = [rule for rule, span in ledger.rules().items() if span.ended_height is None]
    roles = [each for each, span in ledger.roles().items() if span.ended_height is None]
    rows = [
        (rule.who, rule.operation.name.lower(), rule.resource.name.lower(), rule.pattern) for rule in rules
    ]
    if as_json:
        keys = ("who", "operation", "resource", "pattern")
        listed = {
            "closed": ledger.is_closed,
            "quota": asdict(ledger.quota),
            "rules": [dict(zip(keys, row, strict=True)) for row in rows],
            "roles": [{"client": name, "role": role} for name, role in roles],
        }
        typer.echo(json.dumps(listed, indent=2))
        return
    typer.echo(f"the ledger is {'closed' if ledger.is_closed else 'open'}")
    if rows:
        typer.echo(draw_table(("who", "may", "what", "name"), rows))
    if roles:
        typer.echo(draw_table(("client", "role"), roles))


def _is_in_force(ledger: Ledger, rule: Rule) -> bool:
    span = ledger.rules().get(rule)
    return span is not None and span.ended_height is None


def _require_known(ledger: Ledger, who: str) -> None:
    """Raises ModelError if `who` reads like a client that is not registered, as a misspelt name does."""
    if who != "*" and ":" not in who and ledger.account(who) is None:
        raise ModelError(
            f"there is no client {who}", hint=f"veristream kabis client add {who} registers one"
        )
