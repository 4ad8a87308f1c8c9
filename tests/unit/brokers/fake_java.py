"""Answers commands as the Java client does, from memory: `python fake_java.py`.

A topic's name says what becomes of a record: `kept` until the next command, `refused`, or acknowledged.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

TIMEOUT = {"error": "org.apache.kafka.common.errors.TimeoutException", "message": "too late"}
FENCED = {"error": "org.apache.kafka.common.errors.ProducerFencedException", "message": "fenced"}


def write(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def say(answer: dict[str, Any]) -> None:
    write(sys.stdout, json.dumps(answer))


def main() -> None:
    kept: list[int] = []
    epoch = 0
    for line in sys.stdin:
        command = json.loads(line)
        number, verb = command["id"], command["do"]
        who = {"id": number, "producer": 7, "epoch": epoch, "must_abort": verb == "commit"}
        if verb == "send" and command["topic"] == "kept":
            kept.append(number)
            continue
        if verb == "send" and command["topic"] == "refused":
            say({**who, "error": "java.lang.IllegalStateException", "message": "no", "queued": False})
        elif verb == "send":
            say({**who, "partition": command["partition"] or 0, "offset": 40 + number})
        elif verb == "commit":
            say({**who, **FENCED})
        elif verb == "babble":
            write(sys.stdout, "what?")
        elif verb == "wrong":
            say({"id": 99})
        elif verb == "die":
            write(sys.stderr, "java.lang.OutOfMemoryError: heap")
            os._exit(3)
        elif verb == "sleep":
            continue
        elif verb == "offsets":
            say({**who, "echo": command})
        else:
            epoch += verb == "abort"
            say({**who, "epoch": epoch})
        for each in kept:
            say({"id": each, "queued": True, **TIMEOUT})
        kept = []


if __name__ == "__main__":
    main()
