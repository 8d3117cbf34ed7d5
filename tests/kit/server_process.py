"""Servers in processes of their own, on loopback: started, asked where they listen, ended by their process id."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

__all__ = ["asked", "serving"]

_PATIENCE = 60.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")


@contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Generator[str]:
    """The address of a server that says in its output where on loopback it listens.

    Raises:
        RuntimeError: it ended, or said nothing in a minute; with what it said.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield _address(process, log)
        finally:
            _end(process)


def _address(process: subprocess.Popen[bytes], log: Any) -> str:
    end = time.monotonic() + _PATIENCE
    said = ""
    while time.monotonic() < end and process.poll() is None:
        said = os.pread(log.fileno(), 1 << 20, 0).decode("utf-8", "replace")
        found = _ADDRESS.search(said)
        if found is not None:
            return found.group()
        time.sleep(0.05)
    raise RuntimeError(f"the server does not listen (exit code {process.poll()}); it said: {said}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def asked(url: str, path: str, body: Any = None, **headers: str) -> Any:
    """What a server answers, as JSON: to a GET, or to a POST of this body."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=_PATIENCE)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(
            "GET" if body is None else "POST", path, sent, {"content-type": "application/json", **headers}
        )
        answer = connection.getresponse().read()
        return json.loads(answer) if answer else None
    finally:
        connection.close()
