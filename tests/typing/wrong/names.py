"""Misspelt names of the faces, which load some of their names when they are used."""

from __future__ import annotations

import fxai
from fxai import Agnet  # wrong: Agent
from fxai.effects import Efect  # wrong: Effect
from fxai.hosting import server_app  # wrong: serve_app
from fxai.models import Chats  # wrong: Chat
from fxai.testing import cassete  # wrong: cassette
from fxai.tools import Toolkits  # wrong: Toolkit
from fxai.ui import chats_app  # wrong: chat_app

print(fxai.Toolkits)  # wrong: Toolkit

__all__ = ["Agnet", "Chats", "Efect", "Toolkits", "cassete", "chats_app", "server_app"]
