"""Token counting over HTTP: a server is asked, until it is known that it counts none; then there is an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.errors import AiError, reason_of_status
from fxai.messages.part import WarningPart
from fxai.messages.reason import ModelUnavailableError
from fxai.models.model_request import ModelRequest
from fxai.models.token_count import TokenCount, estimate_request, read_count
from fxai.providers.http.client import Answer, Client
from fxai.providers.http.transport import Secret


@final
class TokenCounter:
    """Counts the tokens of requests to one server.

    Args:
        client: What sends the requests.
        module: What errors name as their origin.
        why: The warning of an estimate: that this server counts none.
    """

    def __init__(self, client: Client, module: str, why: str) -> None:
        self._client = client
        self._module = module
        self._why = why
        self._counts = True  # False once the server is known to count no tokens

    def count(
        self,
        request: ModelRequest,
        path: str,
        encode: Effect[bytes, AiError],
        warnings: tuple[WarningPart, ...],
        headers: Mapping[str, str | Secret] = {},
    ) -> Effect[TokenCount, AiError]:
        """The tokens that a request takes, as the server counts them; else an estimate with a warning.

        Args:
            request: What is counted.
            path: Where the server counts, behind the path of the client's address.
            encode: Gives the body that asks for the count.
            warnings: What of the request is not in it.
            headers: Beside the client's.

        Fails with:
            AiError: As `encode`; the server cannot be reached, or has no such model.
        """

        def read(answer: Answer) -> Effect[TokenCount, AiError]:
            tokens = None if answer.is_missing else read_count(answer.body)
            if tokens is not None:
                return fx.succeed(TokenCount(tokens, "provider", warnings))
            reason = reason_of_status(answer.status, answer.body, {}) if answer.is_missing else None
            if isinstance(reason, ModelUnavailableError):
                return fx.fail(AiError(self._module, "count", reason))
            self._counts = False
            return fx.succeed(estimate_request(request, self._why))

        def ask() -> Effect[TokenCount, AiError]:
            if not self._counts:
                return fx.succeed(estimate_request(request, self._why))
            options: Any = {"method": "count", "headers": headers, "accept": "*/*", "may_be_missing": True}
            return encode.flat_map(lambda body: self._client.post(path, body, **options)).flat_map(read)

        return fx.suspend(ask)
