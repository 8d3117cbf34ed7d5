"""Secrets: texts that nothing shows, such as the key of a provider.

>>> key = Secret("sk-1234")
>>> f"{key} {key!r}", key == Secret("sk-1234")
('Secret(…) Secret(…)', True)
>>> key.reveal()
'sk-1234'
"""

from __future__ import annotations

import os
from hmac import compare_digest
from typing import Never, Self, final

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.errors import AiError, AuthenticationError
from fxai.providers.http.transport import Transport

__all__ = ["Secret"]


@final
class Secret:
    """A text that is in no repr, no error, no log and no pickle; `reveal` gives the text, for sending it.

    It compares and hashes by its text, and does not change.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @staticmethod
    def from_env(name: str, *, module: str = "Secret") -> Effect[Secret, AiError]:
        """The secret in the environment variable `name`, read when the effect runs; space around it is left out.

        Under a `Transport` that needs no keys, a variable that is missing is a secret that opens nothing.

        Args:
            name: The variable.
            module: Who the error says needs it, such as "openai".

        Fails with:
            AiError: `AuthenticationError("MissingKey")`, which names the variable: it is not set, or blank.
        """

        def read(transport: Transport) -> Effect[Secret, AiError]:
            text = os.environ.get(name, "").strip()
            if text or not transport.needs_keys:
                return fx.succeed(Secret(text or "no-key-is-needed"))
            said = f"the environment variable {name} is {'blank' if name in os.environ else 'not set'}"
            return fx.fail(AiError(module, "from_env", AuthenticationError("MissingKey", said)))

        return fx.reference(Transport).flat_map(read)

    def reveal(self) -> str:
        """The text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(…)"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Never:
        raise TypeError("a secret is never pickled: read it again where it is needed, with `Secret.from_env`")
