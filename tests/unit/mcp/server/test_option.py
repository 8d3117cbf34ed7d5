"""The options of a server: what each is when nothing is said, and which values it cannot have."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from fxai.effects import Cause, Die
from fxai.mcp import CannotListen, Defect
from fxai.mcp.server.server_options import HttpSettings, ToolServerSettings, split_options
from fxai.providers.http import Secret
from tests.kit.every import every

OWN = ("concurrency", "timeout", "approval_timeout", "page_size", "max_body")
HTTP = ("body_timeout", "max_sessions", "idle_timeout", "grace")
DEFAULTS: dict[str, Any] = {
    "name": "fxai",
    "version": "",
    "title": None,
    "description": None,
    "instructions": None,
    "concurrency": 16,
    "waiting": 1_024,
    "timeout": None,
    "approval_timeout": 300,
    "page_size": None,
    "max_body": 4_194_304,
}
HTTP_DEFAULTS: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 0,
    "path": "/mcp",
    "secret": None,
    "unprotected": False,
    "body_timeout": 30,
    "max_sessions": 1_000,
    "idle_timeout": 1_800,
    "stateless": False,
    "json_response": False,
    "grace": 2,
}


def test_each_option_has_the_default_that_is_documented() -> None:
    """A server that is told nothing has these settings, and keeps whatever it is told."""
    own, http = ToolServerSettings.of({}), HttpSettings.of({})

    assert {name: getattr(own, name) for name in DEFAULTS} == DEFAULTS
    assert {name: getattr(http, name) for name in HTTP_DEFAULTS} == HTTP_DEFAULTS
    assert ToolServerSettings.of({"version": "2", "concurrency": 3}) == ToolServerSettings(version="2", concurrency=3)


@every("name", OWN + HTTP)
@every("value", [0, -1, -0.5, math.nan])
def test_a_number_that_must_be_positive_is(name: str, value: Any) -> None:
    """Zero, less, and what is no number are refused, by the option's name and value; the smallest more is not."""
    settings: Any = ToolServerSettings if name in OWN else HttpSettings

    with pytest.raises(ValueError, match=rf"^{name} must be greater than 0, got {value!r}$"):
        settings.of({name: value})
    assert getattr(settings.of({name: 1e-9}), name) == 1e-9


def test_nobody_need_be_let_wait() -> None:
    """`waiting=0` refuses what cannot run at once; less than that is no number of calls."""
    assert ToolServerSettings.of({"waiting": 0}).waiting == 0
    with pytest.raises(ValueError, match=r"^waiting must be 0 or greater, got -1$"):
        ToolServerSettings.of({"waiting": -1})


@every(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_what_other_machines_reach_is_protected(host: str, local: bool) -> None:
    """Only loopback may go without a token and without hosts; elsewhere each that is missing is asked for by name."""
    protected: Any = {"host": host, "token": "t", "allowed_hosts": ("a.example",)}
    settings = HttpSettings.of(protected)
    local_origins = ("http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*")

    assert (settings.is_local, settings.origins) == (local, local_origins if local else ())
    for missing in ("token", "allowed_hosts"):
        less: Any = {name: value for name, value in protected.items() if name != missing}
        if local:
            assert HttpSettings.of(less).is_local
        else:
            with pytest.raises(ValueError, match=missing):
                HttpSettings.of(less)
    bare: Any = {"host": host, "allowed_hosts": (), "unprotected": True}
    assert (HttpSettings.of(bare).secret, HttpSettings.of(bare).hosts) == (None, ())


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_empty_token_protects_nothing(host: str) -> None:
    """It is refused wherever the server listens, said to be unprotected or not."""
    with pytest.raises(ValueError, match="token must not be empty"):
        HttpSettings.of({"host": host, "token": "", "unprotected": True, "allowed_hosts": ("*",)})


def test_hosts_and_origins_are_what_was_said() -> None:
    """Any iterable will do, also one that can be read once; nothing said, or None, are this machine's own."""
    told = HttpSettings.of({"allowed_hosts": iter(["a.example"]), "allowed_origins": iter(["https://b.example"])})
    nothing: Any = {"allowed_hosts": None, "allowed_origins": None}

    assert (told.hosts, told.origins) == (("a.example",), ("https://b.example",))
    assert HttpSettings.of(nothing) == HttpSettings.of({})
    assert HttpSettings.of({}).hosts == ("localhost:*", "127.0.0.1:*", "[::1]:*")
    assert HttpSettings.of({"allowed_origins": ()}).origins == ()


@pytest.mark.parametrize("token", ["right", Secret("right")])
def test_a_token_is_known_to_the_settings_alone(token: Any) -> None:
    """A plain text and a secret are the same token; no repr shows it."""
    settings = HttpSettings.of({"token": token})

    assert (settings.secret, "right" in repr(settings)) == ("right", False)


@pytest.mark.parametrize("path", ["mcp", "", "mcp/"])
def test_a_path_begins_with_a_slash(path: str) -> None:
    """A path that no request can have is refused."""
    with pytest.raises(ValueError, match=f"^path must start with /, got {path!r}$"):
        HttpSettings.of({"path": path})


def test_options_are_parted_by_whose_they_are() -> None:
    """What is said of HTTP goes one way, everything else the other, and nothing that was not said is made up."""
    given: Any = {"name": "a", "port": 0, "waiting": 3, "token": None}

    assert split_options(given) == ({"name": "a", "waiting": 3}, {"port": 0, "token": None})
    assert given == {"name": "a", "port": 0, "waiting": 3, "token": None}


def test_a_bug_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Without `on_defect` the log `fxai.mcp` has the tool and the exception, as an error."""
    bug = RuntimeError("the disk")
    ToolServerSettings.of({}).on_defect(Defect("save", Cause((Die(bug),))))
    (record,) = caplog.records

    assert (record.name, record.levelno) == ("fxai.mcp", logging.ERROR)
    assert record.getMessage() == "bug in a call of the tool 'save'"
    assert record.exc_info is not None
    assert record.exc_info[1] is bug


def test_who_cannot_listen_says_where_and_why() -> None:
    """The failure has one line, with the place, the reason and the remedy."""
    failure = CannotListen("::1", 80, "Permission denied")

    assert failure.message == str(failure)
    assert failure.message.startswith("cannot listen on ::1:80: Permission denied. Choose another port")
