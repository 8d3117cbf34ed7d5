"""Schedulers of Dask: whether one answers at an address, and in words why not. Needs the extra `distributed`.

>>> asyncio.run(require_scheduler("tls://127.0.0.1:1", None, "client", 0.2))
Traceback (most recent call last):
OSError: it wants TLS, and no certificate is given: it takes `tls_ca_file`, `tls_client_cert` and `tls_client_key`
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias, cast

from distributed.core import rpc
from distributed.security import Security

Role: TypeAlias = Literal["client", "worker"]


async def require_scheduler(address: str, security: Security | None, role: Role, seconds: float) -> None:
    """Returns when a scheduler has answered.

    Args:
        address: where it is.
        security: the certificates; None: those of Dask's configuration, if it has any.
        role: whose certificate it is shown.
        seconds: how long it is waited for. One that refuses is not waited for.

    Raises:
        OSError: none answers, or it refuses; the message says why.
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
    """What a connection to a scheduler is made with.

    Raises:
        OSError: the certificates cannot be used, or there are none and it wants them.
    """
    made: Any = Security
    try:
        chosen: Any = security or made()
        arguments: dict[str, Any] = chosen.get_connection_args(role)
    except OSError as error:  # of files, or of OpenSSL
        raise OSError(f"the certificates cannot be used: {error}") from error
    if address.startswith("tls://") and arguments.get("ssl_context") is None:
        raise OSError(
            f"it wants TLS, and no certificate is given: it takes `tls_ca_file`, `tls_{role}_cert` and `tls_{role}_key`"
        )
    return arguments


def _explain(address: str, error: Exception) -> str:
    words = f"{type(error).__name__}: {error}"
    if "Timed out" in words:
        return f"no scheduler answers: {error}"
    if not isinstance(error, OSError):
        return f"what answers there is no scheduler, or takes no such connection: {words}"
    if address.startswith("tls://"):
        return "the certificates do not fit: each must be in force, and of an authority in the other's `tls_ca_file`"
    return "it closes the connection: does it want TLS (tls://…)?"
