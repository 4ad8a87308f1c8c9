"""`veristream kabis member`: list and change the validators and storage parties of a chain."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

member = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class RoleName(StrEnum):
    """What a member does, as it is written."""

    VALIDATOR = "validator"
    STORAGE = "storage"


NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of parties.")]
RoleOption = Annotated[
    RoleName | None,
    typer.Option(
        "--role", help="What the party does, if its name is neither validator-... nor storage-..."
    ),
]
PublicOption = Annotated[
    list[str] | None,
    typer.Option("--public", metavar="HEX", help="Public key that was made elsewhere; one for each name."),
]
PossessionOption = Annotated[
    list[str] | None,
    typer.Option("--possession", metavar="HEX", help="Proof that the party has the key; one for each."),
]
AddressOption = Annotated[
    list[str] | None,
    typer.Option("--address", metavar="HOST:PORT", help="Where all others reach it; one for each."),
]
MarginOption = Annotated[
    int,
    typer.Option(
        "--in", metavar="BLOCKS", min=2, max=1000, help="How many blocks ahead the change is in force."
    ),
]
MARGIN_BLOCKS = 30


@member.callback()
def about() -> None:
    """List and change the members of a chain: its validators and storage parties.

    The admin orders each change as one action. It is in force from a block a little later on, for everybody
    at once, and one change is pending at a time. A chain has 3F + 1 validators and at least 2F + 1 storage
    parties, of which F of each may lie or fail; so to tolerate one more, add three validators at once.

    \b
    veristream kabis member list
    veristream kabis member replace validator-2 validator-5
    veristream kabis member rotate storage-1                a new key
    veristream kabis member add storage-4
    veristream kabis member add validator-5 validator-6 validator-7 storage-4 storage-5
    veristream kabis member remove storage-4

    On the machine of `kabis up`, a command makes the keys and has the new parties started. For a party of
    another machine, its operator makes the key there, and gives the admin what this prints:

    \b
    veristream kabis member key /srv/kabis/validator-5 --address 10.0.0.5:4001
    """


@member.command("list")
def show(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List the members in force, a change that is ordered, and who left."""
    with kabis_failures():
        from veristream.cli.kabis.work import member as work

        work.show(data, as_json=as_json)


@member.command()
def replace(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Name of the member that leaves.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the party that takes its place.")],
    data: DataOption = DATA,
    public: PublicOption = None,
    possession: PossessionOption = None,
    address: AddressOption = None,
    margin: MarginOption = MARGIN_BLOCKS,
) -> None:
    """Replace a member by a new party of the same role; the folder of the old one is kept."""
    with kabis_failures():
        from veristream.cli.kabis.work import member as work

        offers = work.read_offers([new], public, possession, address)
        work.change(data, work.Replacing(old, new), offers, margin)


@member.command()
def add(
    names: NamesArgument,
    data: DataOption = DATA,
    role: RoleOption = None,
    public: PublicOption = None,
    possession: PossessionOption = None,
    address: AddressOption = None,
    margin: MarginOption = MARGIN_BLOCKS,
) -> None:
    """Add parties, all in one change.

    Validators are added by threes: 4 tolerate one faulty one, 7 tolerate two, 10 tolerate three. They need
    3, 5 and 7 storage parties, so add those that are missing in the same command.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import member as work

        offers = work.read_offers(names, public, possession, address)
        work.change(data, work.Adding(tuple(names), role), offers, margin)


@member.command()
def remove(names: NamesArgument, data: DataOption = DATA, margin: MarginOption = MARGIN_BLOCKS) -> None:
    """Remove members, all in one change; their folders are kept. Validators are removed by threes."""
    with kabis_failures():
        from veristream.cli.kabis.work import member as work

        work.change(data, work.Removing(tuple(names)), {}, margin)


@member.command()
def rotate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the member.")],
    data: DataOption = DATA,
    public: PublicOption = None,
    possession: PossessionOption = None,
    margin: MarginOption = MARGIN_BLOCKS,
) -> None:
    """Replace the key of a member: from the block of the change on, it uses the new one."""
    with kabis_failures():
        from veristream.cli.kabis.work import member as work

        offers = work.read_offers([name], public, possession, None)
        work.change(data, work.Rotating(name), offers, margin)


@member.command()
def key(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The party's own folder, DIR/NAME.")],
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="Where all others will reach the party."),
    ] = None,
    genesis: Annotated[
        Path | None,
        typer.Option("--genesis", metavar="FILE", help="By default genesis.json beside the folder."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="By default that of the folder.")
    ] = None,
    role: RoleOption = None,
    following: Annotated[
        bool, typer.Option("--next", help="A key that will replace the one that the party has.")
    ] = False,
) -> None:
    """Make a party's key on its own machine, and print what the admin needs to make it a member.

    The secret key never leaves the machine. A key that is there already is kept.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import member as work

        work.make_key(folder, work.KeyWanted(address, genesis, name, role, following))
