"""Connect to a Dask scheduler, and explain why no scheduler answers. Requires the extra `distributed`.

>>> asyncio.run(require_scheduler("tls://127.0.0.1:1", None, "client", 0.2))
Traceback (most recent call last):
OSError: the scheduler requires TLS, and no certificate is given. Set `tls_ca_file`, ...
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias, cast

from distributed.core import rpc
from distributed.security import Security

Role: TypeAlias = Literal["client", "worker"]


async def require_scheduler(address: str, security: Security | None, role: Role, seconds: float) -> None:
    """Wait until a scheduler answers.

    Args:
        address: Address of the scheduler.
        security: Certificates. None uses the certificates in the configuration of Dask.
        role: Role of this process, which selects its certificate.
        seconds: Maximum seconds to wait. A scheduler that refuses ends the wait.

    Raises:
        OSError: If no scheduler answers, or it refuses. The message contains the reason.
    """
    arguments = connection_arguments(address, security, role)
    asked: Any = cast(Any, rpc)(address, connection_args=arguments, timeout=seconds)
    try:
        async with asyncio.timeout(seconds), asked:
            await asked.identity()
    except TimeoutError as error:
        raise OSError(f"no scheduler answers within {seconds:g} s") from error
    except Exception as error:
        raise OSError(_explain(address, error)) from error


def connection_arguments(address: str, security: Security | None, role: Role) -> dict[str, Any]:
    """Return the arguments of a connection to a scheduler.

    Raises:
        OSError: If the certificates cannot be used, or are missing for an address with TLS.
    """
    made: Any = Security
    try:
        chosen: Any = security or made()
        arguments: dict[str, Any] = chosen.get_connection_args(role)
    except OSError as error:  # from a file or from OpenSSL
        raise OSError(f"the certificates cannot be used: {error}") from error
    if address.startswith("tls://") and arguments.get("ssl_context") is None:
        raise OSError(
            f"the scheduler requires TLS, and no certificate is given. Set `tls_ca_file`, `tls_{role}_cert`, and "
            f"`tls_{role}_key`."
        )
    return arguments


def _explain(address: str, error: Exception) -> str:
    words = f"{type(error).__name__}: {error}"
    if "Timed out" in words:
        return f"no scheduler answers: {error}"
    if not isinstance(error, OSError):
        return f"no Dask scheduler answers there, or it refuses this connection: {words}"
    if address.startswith("tls://"):
        return (
            "the certificates do not match: each must be valid now, and signed by an authority in the `tls_ca_file` of "
            "the other process"
        )
    return "the connection was closed. If the scheduler requires TLS, use an address with tls://."
