"""Endpoints and servers as values: their names, places and secrets."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from fxai import mcp
from fxai.mcp.settings import Address, Concealed, HeaderError, ServerProgram
from fxai.providers.http import Secret
from tests.kit.every import every


@every(
    ("command", "name"),
    [
        (("uvx", "mcp-server-git", "--repository", "."), "mcp-server-git"),
        (("npx", "-y", "@modelcontextprotocol/server-memory"), "server-memory"),
        (("/usr/bin/python3.12", "-m", "mcp_server_time"), "mcp_server_time"),
        (("node", "/srv/dist/index.js"), "index.js"),
        (("docker", "run", "-i", "mcp/fetch"), "fetch"),
        (("python", "-c"), "python"),
        (("node", "", "/", "/srv/a.js"), "a.js"),
    ],
)
def test_a_program_is_called_by_what_it_runs(command: tuple[str, ...], name: str) -> None:
    """The name of a server that has none is the first word that is no runner and no option."""
    assert ServerProgram(command[0], command[1:]).name == name
    assert mcp.stdio(*command).name == name
    assert mcp.stdio(*command, name="mine").name == "mine"


def test_a_place_shows_no_secrets() -> None:
    """The place of an address has no user, password or query; that of a program is what one would type."""
    assert Address("https://u:p@example.org:8443/mcp?key=1").location == "https://example.org:8443/mcp"
    assert Address("https://u:p@example.org:8443/mcp?key=1").name == "example.org"
    reached = Address("https://u:p@example.org/mcp?key=1").attributes
    assert (reached["server.address"], reached["server.port"]) == ("example.org", 443)
    assert "server.address" not in Address("https://example.org:99999/mcp").attributes
    assert not {"u", "p", "key", "1"} & {str(value) for value in reached.values()}
    assert ServerProgram("run me", ("a b",)).location == "'run me' 'a b'"


def test_concealed_texts_compare_by_text_and_are_never_pickled() -> None:
    """Equal texts are equal, whether given plain or as a secret; a repr has names alone; pickling is refused."""
    plain, secret = Concealed({"K": "v"}), Concealed({"K": Secret("v")})

    assert plain == secret != Concealed({"K": "w"})
    assert hash(plain) == hash(secret)
    assert repr(secret) == "Concealed(K)"
    with pytest.raises(TypeError, match="you cannot pickle them"):
        pickle.dumps(plain)


def test_a_server_used_otherwise_is_another_value() -> None:
    """Prefix, only and without give new values of the same kind; prefixes add up, `only` narrows, `without` adds."""
    server = mcp.stdio("uvx", "x")
    narrowed = server.only("a", "b", "a").only("b", "c").without("d").without("e").prefix("y_").prefix("x_")

    assert server.settings.only is None
    assert narrowed.settings.only == ("b",)
    assert narrowed.settings.without == ("d", "e")
    assert narrowed.settings.prefix == "x_y_"
    assert copy.copy(narrowed) == narrowed != server
    assert pickle.loads(pickle.dumps(narrowed)) == narrowed


@pytest.mark.parametrize("option", [{"timeout": -1}, {"call_timeout": 0}, {"mode": "1999"}])
def test_an_option_that_cannot_be_is_refused_at_once(option: dict[str, Any]) -> None:
    """A wrong value is an error where the server is described, which names the option and what it may be."""
    (name,) = option

    with pytest.raises(ValueError, match=f"{name} must be .*, got"):
        mcp.stdio("uvx", **option)


def test_no_repr_shows_what_opens_an_address() -> None:
    """Names of headers and the bare place are shown; texts, user, password and query are not."""
    headers = Concealed({"Authorization": "Bearer t"})

    assert (headers.reveal(), Concealed({}).reveal()) == ({"Authorization": "Bearer t"}, {})
    assert repr(Address("https://u:p@h/x?k=1", headers)) == "Address('https://h/x', Concealed(Authorization))"


@pytest.mark.parametrize("value", [8080, None, b"abc", ["abc"], {"k": "v"}])
def test_what_is_no_text_is_refused_where_it_is_given(value: Any) -> None:
    """A header, a variable and a token: the error names which, and its type, and shows nothing of it."""
    refused = f"value of '{{}}' must be a string or a secret with `reveal`, got {type(value).__name__}"

    with pytest.raises(ValueError, match=refused.format("X-Key")):
        mcp.http("https://example.org", headers={"X-Team": "a", "X-Key": value})
    with pytest.raises(ValueError, match=refused.format("PORT")):
        mcp.stdio("uvx", env={"PORT": value})
    if value is not None:
        with pytest.raises(ValueError, match=refused.format("token")):
            mcp.http("https://example.org", token=value)


def test_a_name_that_is_no_text_is_refused() -> None:
    """It is shown: a name is no secret."""
    headers: Any = {7: "x"}

    with pytest.raises(ValueError, match="name must be a string, got 7"):
        mcp.http("https://example.org", headers=headers)


def test_a_secret_that_reveals_no_text_is_no_header() -> None:
    """It is told when the header would be sent, by its type alone."""

    class Odd:
        def reveal(self) -> Any:
            return b"s3cret"

    with pytest.raises(HeaderError, match="secret of the header 'X-Key' must return a string, got bytes") as caught:
        _ = Address("https://example.org", Concealed({"X-Key": Odd()})).fields

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["X-Key", "!#$%&'*+.^_`|~9"])
@pytest.mark.parametrize("value", ["", "k", "a b\tc", "!~"])
def test_headers_are_sent_as_they_are_given(name: str, value: str) -> None:
    """Whatever HTTP allows is a header, plain or a secret."""
    given = Address("https://h/x", Concealed({name: value, "Other": Secret("t")}))

    assert given.fields == {name: value, "Other": "t"}


@every("name", ["", "X Key", "X:Key", "X-K\xe9y", "X-Key\n"])
def test_a_header_of_a_name_that_http_does_not_allow_is_refused(name: str) -> None:
    """The error has the name, and nothing of the value."""
    with pytest.raises(HeaderError) as raised:
        _ = Address("https://h/x", Concealed({"Other": "t", name: "s3cret"})).fields

    assert str(raised.value) == f"invalid header name {name!r}"


@every("value", [" s3cret", "s3cret ", "s3cret\n", "s3\rcret", "s3cret\0", "s3cr\xe9t", "\t"])
def test_a_header_of_a_value_that_http_does_not_allow_is_refused(value: str) -> None:
    """The error names the header, and shows nothing of the value, which may be secret."""
    with pytest.raises(HeaderError, match=r"'X-Key' contains a character .* line break") as raised:
        _ = Address("https://h/x", Concealed({"Other": "t", "X-Key": Secret(value)})).fields

    assert "s3" not in str(raised.value)
