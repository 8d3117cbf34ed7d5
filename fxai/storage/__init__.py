"""Level 3. Stores of histories, used IDs, and journals: in this process, in private files, or in a database.

The modules `history` (conversations by ID), `once` (IDs that can be used once), `journal` (entries that never change),
and `result_store` (large results by handle) have three implementations each. They use `private_file` and `database`.
Each record is a JSON object with a digest, so that a reader notices damage. The module `work_queue` contains jobs for
other processes in a DBOS database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from fxai.lazy import import_later

if TYPE_CHECKING:
    from fxai.storage.result_store import ResultStore

__all__ = ["ResultStore", "is_intact", "read_record", "seal", "seal_text"]

_A = TypeVar("_A")

# fxai imports this module when a program first uses the name, because it imports this package.
_LATER = {"result_store": "ResultStore"}

if not TYPE_CHECKING:  # because a checker would accept any name
    __getattr__ = import_later(__name__, _LATER)


def seal(record: msgspec.Struct) -> bytes:
    """Return the JSON text of a record with its digest. If the record has a field `digest`, it must be None."""
    return seal_text(msgspec.json.encode(record))


def seal_text(record: bytes) -> bytes:
    """Return a JSON object with the added last member `digest`, so that a reader notices each change.

    >>> seal_text(b'{"a":1}')
    b'{"a":1,"digest":"..."}'
    """
    return b'%s,"digest":"%s"}' % (record[:-1], _digest(record))


def is_intact(text: bytes) -> bool:
    """Return True if a record with a digest is unchanged.

    >>> is_intact(seal_text(b'{"a":1}')), is_intact(seal_text(b'{"a":1}').replace(b"1", b"2", 1))
    (True, False)
    """
    record, _, end = text.strip().rpartition(b',"digest":"')
    return end == b'%s"}' % _digest(record + b"}")


def read_record(text: bytes, kind: type[_A]) -> _A:
    """Return the record in a JSON text. Raise a `ValueError` with the reason if the text is not a record."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _digest(record: bytes) -> bytes:
    from hashlib import blake2b  # only stores need it

    return blake2b(record, digest_size=8).hexdigest().encode()
