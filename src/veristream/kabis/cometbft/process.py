"""A node's application as a process: `python -m veristream.kabis.cometbft.process --listen HOST:PORT`.

CometBFT calls it by `proxy_app = "tcp://HOST:PORT"`, with four connections, and ends when one of them does:
application and node start and stop together. So the application also runs the node, if its command is given
behind `--`; else somebody else does. Exit 0 after a clean stop, 2 if what it was told is wrong, 3 if it
cannot go on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cometbft.abci import decode_request, encode_exception, encode_response
from veristream.kabis.cometbft.application import Application, DecidedWrongError
from veristream.kabis.log.disk.files import replace
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.process import run_process

_LOGGER = logging.getLogger(__name__)

MESSAGE_BYTES_MAX = 100 << 20
"""CometBFT's own limit."""
_LENGTH_BYTES_MAX = 5
NODE_STOP_S = 10.0

MakeApplication = Callable[[Callable[[], int]], Application]
"""Makes an application with a clock of milliseconds."""


async def run_application(
    application: Application, listen: Address, ready: Path | None, node: Sequence[str] = ()
) -> None:
    """Serves the node until a signal stops it; raises EnvironmentFailure if it cannot go on."""
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, partial(_settle, stop, None))
    try:
        server = await asyncio.start_server(partial(_serve, application, stop), listen.host, listen.port)
    except OSError as error:
        raise EnvironmentFailure(f"cannot listen at {listen}: {error.strerror}") from error
    address = Address(*server.sockets[0].getsockname()[:2])
    _LOGGER.info("the application listens at %s", address)
    if ready is not None:
        replace(ready, json.dumps({"address": str(address), "pid": os.getpid()}).encode() + b"\n")
    try:
        await (_attend(node, stop) if node else stop)
    finally:
        server.close()


async def _attend(command: Sequence[str], stop: asyncio.Future[None]) -> None:
    """Runs the node until we are to stop, or until it ends."""
    try:
        node = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    except OSError as error:
        raise EnvironmentFailure(f"cannot start {command[0]}: {error.strerror}") from error
    ended = asyncio.ensure_future(node.wait())
    try:
        await asyncio.wait((stop, ended), return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            raise EnvironmentFailure(f"the node ended by itself, with exit code {ended.result()}")
        stop.result()
    finally:
        await _stop_node(node, ended)


async def _stop_node(node: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
    if ended.done():
        return
    node.terminate()
    await asyncio.wait((ended,), timeout=NODE_STOP_S)
    if not ended.done():
        node.kill()
        await ended


async def _serve(
    application: Application,
    stop: asyncio.Future[None],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Answers one connection's requests in their order."""
    try:
        while True:
            request = decode_request(await _receive(reader))
            writer.write(encode_response(application.handle(request)))
            await writer.drain()
    except DecodeError as error:
        _LOGGER.warning("a request that cannot be read: %s", error)
        writer.write(encode_exception(str(error)))
    except DecidedWrongError as error:
        writer.write(encode_exception(f"decided against the rules: {error}"))
        failure = EnvironmentFailure(
            f"{error} was decided against the rules: more than a third of the validators are faulty",
            "this validator goes no further; compare what the others have",
        )
        _settle(stop, failure)
    except (asyncio.IncompleteReadError, OSError):
        _LOGGER.info("a connection of the node ended")
    finally:
        writer.close()


def _settle(stop: asyncio.Future[None], failure: Exception | None) -> None:
    if stop.done():
        return
    if failure is None:
        stop.set_result(None)
    else:
        stop.set_exception(failure)


async def _receive(reader: asyncio.StreamReader) -> bytes:
    """The next message, without its length."""
    length = 0
    for place in range(_LENGTH_BYTES_MAX):
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if length > MESSAGE_BYTES_MAX:
        raise DecodeError(f"a message of {length} bytes")
    return await reader.readexactly(length)


def main(arguments: Sequence[str] | None = None, make_application: MakeApplication = Application) -> int:
    """Runs an application as the command line says; gives the exit status."""
    parser = argparse.ArgumentParser(prog="veristream.kabis.cometbft.process", description=__doc__)
    parser.add_argument("--listen", required=True, help="HOST:PORT, the node's proxy_app")
    parser.add_argument("--ready", type=Path, help="written once it listens")
    parser.add_argument("node", nargs="*", help="the command that runs the node, behind --")
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)

    async def work() -> None:
        try:
            listen = Address.parse(given.listen)
        except ValueError as error:
            raise ModelError(f"--listen: {error}") from error
        application = make_application(lambda: time.time_ns() // 1_000_000)
        await run_application(application, listen, given.ready, given.node)

    return run_process(work)


if __name__ == "__main__":
    sys.exit(main())
