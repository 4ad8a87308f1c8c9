"""A node's application as a process: `python -m veristream.kabis.cometbft.process --listen HOST:PORT`.

CometBFT connects to it four times (`proxy_app = "tcp://HOST:PORT"`) and exits when a connection ends, so
application and node start and stop together. The application therefore also runs the node, if its command
follows `--`. Exits with 0 after a clean stop, 2 if the arguments are wrong, 3 if it cannot continue.
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
"""CometBFT's limit."""
_LENGTH_BYTES_MAX = 5
NODE_STOP_S = 10.0

MakeApplication = Callable[[Callable[[], int]], Application]
"""Creates an application with a clock in milliseconds."""


async def run_application(
    application: Application, listen: Address, ready: Path | None, node: Sequence[str] = ()
) -> None:
    """Serves the node until a signal arrives; raises EnvironmentFailure if it cannot continue."""
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
    """Runs the node until `stop`; raises EnvironmentFailure if it ends by itself."""
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
    """Answers the requests of one connection in order."""
    try:
        while True:
            request = decode_request(await _receive(reader))
            writer.write(encode_response(application.handle(request)))
            await writer.drain()
    except DecodeError as error:
        _LOGGER.warning("malformed request: %s", error)
        writer.write(encode_exception(str(error)))
    except DecidedWrongError as error:
        writer.write(encode_exception(f"an invalid block was decided: {error}"))
        failure = EnvironmentFailure(
            f"{error} is invalid but was decided: more than a third of the validators are faulty",
            "this validator has stopped; compare its chain with those of the others",
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
    """Reads the next message, without its length."""
    length = 0
    for place in range(_LENGTH_BYTES_MAX):
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if length > MESSAGE_BYTES_MAX:
        raise DecodeError(f"message of {length} bytes is too long")
    return await reader.readexactly(length)


def main(arguments: Sequence[str] | None = None, make_application: MakeApplication = Application) -> int:
    """Runs an application; returns the exit status."""
    parser = argparse.ArgumentParser(prog="veristream.kabis.cometbft.process", description=__doc__)
    parser.add_argument("--listen", required=True, help="HOST:PORT, the node's proxy_app")
    parser.add_argument("--ready", type=Path, help="file to write when it listens")
    parser.add_argument("node", nargs="*", help="command that runs the node, after --")
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
