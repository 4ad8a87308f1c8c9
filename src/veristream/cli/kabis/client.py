"""`veristream kabis client` and `veristream kabis access`: register clients, and say what they may do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

client = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
access = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@client.callback()
def about() -> None:
    """Register clients. Each has its own key; `producer` and `consumer` exist from the start."""


@client.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the client.")],
    data: DataOption = DATA,
) -> None:
    """Create a key for a client and register it as the admin.

    Producers that run at the same time need different names: `kabis produce TOPIC --as NAME`.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.add(data, name)


class Operation(StrEnum):
    """The rights, as they are written."""

    READ = "read"
    WRITE = "write"
    ADMINISTER = "administer"


QUOTA_MAX = (1 << 32) - 1
WhoArgument = Annotated[
    str, typer.Argument(metavar="WHO", help="Name of a client, role:NAME, or '*' for everybody.")
]
OperationArgument = Annotated[Operation, typer.Argument(metavar="read|write|administer")]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="A topic, a prefix such as 'orders*', or '*'.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="NAME", help="A consumer group, a prefix, or '*'.")
]


@access.callback()
def about_access() -> None:
    """Grant and revoke rights on topics and groups, as the admin.

    On an open ledger, everybody may read and write topics and join groups for which no rule was ever made.
    On a closed one, nobody may without a rule. Admins always may. A change takes effect with the next
    block, for every party.

    \b
    veristream kabis access grant alice write --topic 'orders*'
    veristream kabis access role bob auditors
    veristream kabis access grant role:auditors read --topic '*'
    veristream kabis access grant role:auditors read --group audits
    veristream kabis access close
    """


@access.command()
def grant(
    who: WhoArgument,
    operation: OperationArgument,
    topic: TopicOption = None,
    group: GroupOption = None,
    data: DataOption = DATA,
) -> None:
    """Grant a right. A consumer in a group needs read on the group and on each topic."""
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.grant(data, work.read_rule(who, operation, topic, group))


@access.command()
def revoke(
    who: WhoArgument,
    operation: OperationArgument,
    topic: TopicOption = None,
    group: GroupOption = None,
    data: DataOption = DATA,
) -> None:
    """Revoke a right that was granted with the same words; nobody else gains one by that."""
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.revoke(data, work.read_rule(who, operation, topic, group))


@access.command()
def role(
    name: Annotated[str, typer.Argument(metavar="CLIENT", help="Name of the client.")],
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Name of the role.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the role back.")] = False,
    data: DataOption = DATA,
) -> None:
    """Give a client a role, or take it back."""
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.set_role(data, name, role, held=not remove)


@access.command()
def limit(
    groups: Annotated[
        int | None,
        typer.Option("--groups", metavar="N", min=0, max=QUOTA_MAX, help="Groups that a client creates."),
    ] = None,
    topics: Annotated[
        int | None,
        typer.Option(
            "--topics", metavar="N", min=0, max=QUOTA_MAX, help="Topics that a member of a group reads."
        ),
    ] = None,
    transactions: Annotated[
        int | None,
        typer.Option(
            "--transactions", metavar="N", min=0, max=QUOTA_MAX, help="Transactions of a client in a block."
        ),
    ] = None,
    data: DataOption = DATA,
) -> None:
    """Limit what each client may have on the ledger; 0 is no limit. Admins have no limit in a block.

    \b
    veristream kabis access limit --groups 10 --topics 50 --transactions 200
    """
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.limit(data, groups, topics, transactions)


@access.command("list")
def show(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List the rules and roles in force."""
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.show_access(data, as_json=as_json)


@access.command("close")
def close(data: DataOption = DATA) -> None:
    """Close the ledger: nobody but admins may do what no rule allows."""
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.set_closed(data, closed=True)


@access.command("open")
def reopen(data: DataOption = DATA) -> None:
    """Open the ledger: everybody may use topics and groups for which no rule was ever made."""
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.set_closed(data, closed=False)
