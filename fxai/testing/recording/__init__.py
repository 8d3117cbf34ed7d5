"""Recording: what a program and its providers said over HTTP, kept in a file and answered from it without a network.

`cassette` is a layer: under it every provider's client records or replays, unchanged. Keys never reach the file.

>>> cassette("tests/cassettes/weather.json").__class__.__name__
'LayerOf'
"""

from __future__ import annotations

from fxai.testing.recording.cassette import Mode, cassette, record, replay
from fxai.testing.recording.failure import CassetteError

__all__ = ["CassetteError", "Mode", "cassette", "record", "replay"]
