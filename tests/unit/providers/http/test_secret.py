"""Secrets: shown nowhere, equal by their text, read from the environment."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable

import httpx2
import msgspec
import pytest
from typing_extensions import override

from fxai.effects import Layer, fx
from fxai.messages import AuthenticationError
from fxai.providers.http import Secret, Transport

KEY = "sk-proj-0123456789"


def test_a_secret_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """No way of writing a value shows it."""
    secret = Secret(KEY)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("app").info("the key is %s, %r", secret, secret)
    shown = [repr(secret), str(secret), f"{secret}", f"{[secret]}", f"{ {'key': secret} }", caplog.text]

    assert all("Secret(…)" in text and KEY not in text for text in shown)


def test_a_secret_is_in_no_data() -> None:
    """Neither pickle nor JSON takes it, and what they say does not show it."""
    for write in (pickle.dumps, msgspec.json.encode, json.dumps, msgspec.to_builtins):
        with pytest.raises(TypeError) as raised:
            write(Secret(KEY))

        assert KEY not in "".join(traceback.format_exception(raised.value))


def test_a_secret_is_a_value() -> None:
    """Equal texts are equal secrets of one hash, copies are the same, and a text is not a secret."""
    secret = Secret(KEY)

    assert {secret, Secret(KEY)} == {secret}
    assert secret not in (Secret("other"), KEY)
    assert secret.__eq__(KEY) is NotImplemented  # so that the other side of a comparison is asked
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    assert secret.reveal() == KEY


def test_a_secret_cannot_be_given_attributes() -> None:
    """Nothing can be hung on a secret."""
    secret = Secret(KEY)

    with pytest.raises(AttributeError):
        setattr(secret, "note", 1)  # noqa: B010


def test_the_environment_gives_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is read when the effect runs, without the space around it."""
    read = Secret.from_env("ACME_API_KEY")
    monkeypatch.setenv("ACME_API_KEY", f" {KEY}\n")

    assert fx.run(read) == Secret(KEY)


def test_where_nobody_wants_to_see_a_key_none_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every answer comes from a file, a key that is there is used, and one that is missing is no fault."""

    class Recorded(Transport):
        @property
        @override
        def needs_keys(self) -> bool:
            return False

        @override
        def over(self, live: Callable[[], httpx2.AsyncBaseTransport]) -> httpx2.AsyncBaseTransport:
            return live()

    read = Secret.from_env("ACME_API_KEY").provide(Layer.succeed(Transport, Recorded()))
    monkeypatch.setenv("ACME_API_KEY", KEY)
    found = fx.run(read)
    monkeypatch.delenv("ACME_API_KEY")
    missing = fx.run(read)

    assert found == Secret(KEY)
    assert missing.reveal()


@pytest.mark.parametrize(("given", "said"), [(None, "not set"), ("", "blank"), (" \n", "blank")])
def test_a_variable_without_a_key_is_named(monkeypatch: pytest.MonkeyPatch, given: str | None, said: str) -> None:
    """Without the variable, the failure names it and who needs it."""
    monkeypatch.delenv("ACME_API_KEY", raising=False)
    if given is not None:
        monkeypatch.setenv("ACME_API_KEY", given)

    failure = fx.run_result(Secret.from_env("ACME_API_KEY", module="acme")).failure()

    assert failure.module == "acme"
    assert failure.reason == AuthenticationError("MissingKey", f"environment variable ACME_API_KEY is {said}")
