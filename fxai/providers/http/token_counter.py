"""Token counting over HTTP. Use it for servers that may have no endpoint for counts; fxai then estimates the count."""

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
from fxai.providers.http.client import Client, HttpResponse
from fxai.providers.http.transport import Secret


@final
class TokenCounter:
    """A counter of tokens that calls one server. After the server's first refusal, it estimates all counts.

    Args:
        client: The client that sends the requests.
        module: The name of the origin in errors.
        why: The warning of an estimate. It states that the server does not count tokens.
    """

    def __init__(self, client: Client, module: str, why: str) -> None:
        self._client = client
        self._module = module
        self._why = why
        self._counts = True  # False after the server refused to count

    def count(
        self,
        request: ModelRequest,
        path: str,
        encode: Effect[bytes, AiError],
        warnings: tuple[WarningPart, ...],
        headers: Mapping[str, str | Secret] = {},
    ) -> Effect[TokenCount, AiError]:
        """Return the number of tokens of a request. If the server cannot count them, estimate them and add a warning.

        Args:
            request: The request to count.
            path: The path of the server's endpoint, relative to the client's address.
            encode: An effect that returns the body of the count request.
            warnings: Warnings for parts of the request that the body omits.
            headers: Additional headers.

        Fails with:
            AiError: If `encode` fails, if the client cannot reach the server, or if the model is unknown.
        """

        def read(answer: HttpResponse) -> Effect[TokenCount, AiError]:
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
