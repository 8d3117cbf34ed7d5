"""Floor 3. Storage: histories, uses and journals, in this process, in private files or in SQLite.

Three ports have three forms each: `history` (conversations by id), `once` (ids that are used once) and `journal`
(entries that are appended and never changed). They stand on `private_file` and `database`. What they write are JSON
objects with a digest, by which damage is noticed. Beside them, `work_queue` has jobs that other processes run, in a
database of DBOS.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

__all__ = ["is_intact", "read_record", "seal", "seal_text"]

_A = TypeVar("_A")


def seal(record: msgspec.Struct) -> bytes:
    """The JSON text of a record, as `seal_text` makes it; a member `digest` of the record's own is to be None."""
    return seal_text(msgspec.json.encode(record))


def seal_text(record: bytes) -> bytes:
    """A JSON object with a last member `digest`, by which any change of it is noticed.

    >>> seal_text(b'{"a":1}')
    b'{"a":1,"digest":"..."}'
    """
    return b'%s,"digest":"%s"}' % (record[:-1], _digest(record))


def is_intact(text: bytes) -> bool:
    """Whether a sealed record is as it was written.

    >>> is_intact(seal_text(b'{"a":1}')), is_intact(seal_text(b'{"a":1}').replace(b"1", b"2", 1))
    (True, False)
    """
    record, _, end = text.strip().rpartition(b',"digest":"')
    return end == b'%s"}' % _digest(record + b"}")


def read_record(text: bytes, kind: type[_A]) -> _A:
    """The record of a JSON text; raises a `ValueError` that says why where it is none."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _digest(record: bytes) -> bytes:
    from hashlib import blake2b  # only where there is a store

    return blake2b(record, digest_size=8).hexdigest().encode()
