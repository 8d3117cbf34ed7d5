"""Annotations: what is known of a tool beside its name and types, by typed keys.

>>> from fxai import Tool
>>> from fxai.annotations import Annotation, Readonly, Title
>>> Team = Annotation("team", default="nobody")
>>> forecast = Tool.make("forecast", annotations={Readonly: True, Title: "Forecast"}).annotate(Team, "sky")
>>> forecast.get(Readonly), forecast.get(Title), forecast.get(Team)
(True, 'Forecast', 'sky')
"""

from __future__ import annotations

from fxai.tools.annotation import (
    AllowedCallers,
    Annotation,
    Annotations,
    CacheControl,
    CacheTime,
    Caller,
    DeferLoading,
    Destructive,
    EagerInputStreaming,
    ExplicitNull,
    FindsTools,
    Idempotent,
    JsonText,
    MaxResultTokens,
    Meta,
    Namespace,
    OpenWorld,
    OutputSchema,
    Readonly,
    Resumable,
    Strict,
    Title,
    ToolNamespace,
)

__all__ = [
    "AllowedCallers",
    "Annotation",
    "Annotations",
    "CacheControl",
    "CacheTime",
    "Caller",
    "DeferLoading",
    "Destructive",
    "EagerInputStreaming",
    "ExplicitNull",
    "FindsTools",
    "Idempotent",
    "JsonText",
    "MaxResultTokens",
    "Meta",
    "Namespace",
    "OpenWorld",
    "OutputSchema",
    "Readonly",
    "Resumable",
    "Strict",
    "Title",
    "ToolNamespace",
]
