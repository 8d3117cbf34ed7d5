"""Files at the providers over HTTP: forms as the official SDKs send them, answers by their types."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import DeletedFile, FileMetadata
from anthropic.types.file_upload_params import FileUploadParams
from openai.types import FileDeleted, FileObject
from openai.types.file_create_params import FileCreateParams

from fxai.effects import fx
from fxai.messages import AiError, FilePart, FileUrl, InvalidRequestError, Prompt, RateLimitError, UserMessage
from fxai.models import FileIndex, FileStore, ModelRequest, UploadedFile
from fxai.providers import anthropic, openai
from tests.kit.every import every
from tests.kit.http_peer import Peer, Seen, answer, peer
from tests.kit.sdkcheck import faults

pytestmark = pytest.mark.slow

PDF = FilePart("application/pdf", b"%PDF-1.7 \r\n--\0", 'r"é.pdf')
WHEN = datetime(2026, 11, 25, tzinfo=UTC)
PROVIDERS = ("openai", "anthropic")


def _warned(provider: str, number: int = 1, **more: Any) -> bytes:
    """What a provider says of a file, by its SDK's type."""
    if provider == "openai":
        about: Any = {"bytes": 13, "created_at": int(WHEN.timestamp()), "status": "processed", "purpose": "user_data"}
        return FileObject(id=f"file-{number}", filename="r.pdf", object="file", **about, **more).to_json().encode()
    said: Any = {"size_bytes": 13, "created_at": WHEN, "mime_type": "application/pdf", "downloadable": False}
    return FileMetadata(id=f"file_{number}", filename="r.pdf", type="file", **said, **more).to_json().encode()


def _gone(provider: str) -> bytes:
    """That a file was deleted."""
    if provider == "openai":
        return FileDeleted(id="file-1", deleted=True, object="file").to_json().encode()
    return DeletedFile(id="file_1", type="file_deleted").to_json().encode()


def _page(provider: str, *files: bytes, more: bool) -> bytes:
    data = [json.loads(file) for file in files]
    if provider == "openai":
        return json.dumps({"object": "list", "data": data, "has_more": more, "last_id": data[-1]["id"]}).encode()
    return json.dumps({"data": data, "next_page": "page_2" if more else None}).encode()


def _layer(provider: str, served: Peer, **more: Any) -> Any:
    make: Any = openai.files_layer if provider == "openai" else anthropic.files_layer
    return make(base_url=served.url, api_key="sk-1", retry=None, **more)


def _form(seen: Seen) -> dict[str, Any]:
    """The fields of a form; the file as its name, its type and its bytes."""
    head = f"content-type: {seen.headers['content-type']}\r\n\r\n".encode()
    fields: dict[str, Any] = {}
    for part in message_from_bytes(head + seen.body).walk():
        name: Any = part.get_param("name", header="content-disposition")
        payload: Any = part.get_payload(decode=True)
        if name == "file":
            fields[name] = part.get_filename(), part.get_content_type(), payload
        elif name:
            fields[name] = payload.decode()
    return fields


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_is_sent_as_a_form(provider: str) -> None:
    """Its bytes as they are, its name and its type; what comes back is the file, with the name that was given."""
    with peer([answer(200, _warned(provider))]) as served:
        sent = fx.run(FileStore.upload(PDF).provide(_layer(provider, served)))
    seen = served.seen[0]
    form = _form(seen)

    assert seen.line.split()[:2] == ["POST", "/files" if provider == "openai" else "/v1/files"]
    assert form["file"][1:] == ("application/pdf", PDF.data)
    assert (sent.size, sent.created, sent.media_type, sent.name) == (13, WHEN, "application/pdf", PDF.file_name)
    assert isinstance(sent.part.data, FileUrl)


def test_the_fields_of_a_form_are_those_of_the_sdks() -> None:
    """The purpose and the time of its end, at OpenAI in brackets as its SDK writes them."""
    forms: dict[str, Any] = {}
    for provider in PROVIDERS:
        more: Any = {"purpose": "vision"} if provider == "openai" else {}
        with peer([answer(200, _warned(provider))]) as served:
            fx.run(FileStore.upload(PDF, expires_in=7200).provide(_layer(provider, served, **more)))
        forms[provider] = {**_form(served.seen[0]), "file": b"bytes"}
    ours, theirs = forms["openai"], forms["anthropic"]
    ends = {"anchor": ours.pop("expires_after[anchor]"), "seconds": int(ours.pop("expires_after[seconds]"))}

    assert faults(FileCreateParams, {**ours, "expires_after": ends}) == []
    assert faults(FileUploadParams, {**theirs, "expires_in_seconds": int(theirs["expires_in_seconds"])}) == []
    assert (ours["purpose"], ends["seconds"], theirs["expires_in_seconds"]) == ("vision", 7200, "7200")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_is_named_in_a_prompt_by_its_id(provider: str) -> None:
    """The part of an uploaded file is what both providers have a place for."""
    with peer([answer(200, _warned(provider))]) as served:
        sent = fx.run(FileStore.upload(PDF).provide(_layer(provider, served)))
    asked = ModelRequest(Prompt.make(UserMessage.make("What does it say?", sent.part)))
    if provider == "openai":
        part = openai.prepare_request(asked, model="gpt-5.5").fields["input"][0]["content"][1]
        assert part == {"type": "input_file", "file_id": "file-1"}
        return
    block = anthropic.prepare_request(asked, model="claude-sonnet-5").body["messages"][0]["content"][1]

    assert block["source"] == {"type": "file", "file_id": "file_1"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_files_are_listed_page_by_page(provider: str) -> None:
    """The next page is asked for when it is read, by what the one before it says."""
    first = _page(provider, _warned(provider), _warned(provider, 2), more=True)
    last = _page(provider, _warned(provider, 3), more=False)
    with peer([answer(200, first)], [answer(200, last)]) as served:
        two = fx.run(FileStore.files().take(2).collect().provide(_layer(provider, served)))
        read = len(served.seen)
    with peer([answer(200, first)], [answer(200, last)]) as served:
        every = fx.run(FileStore.files().collect().provide(_layer(provider, served)))
    queries = [seen.line.split()[1].partition("?")[2] for seen in served.seen]

    assert (len(two), read) == (2, 1)
    assert [file.id[-1] for file in every] == ["1", "2", "3"]
    assert queries[0].startswith("limit=1000")
    assert ("after=file-2" if provider == "openai" else "page=page_2") in queries[1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_gives_the_same_page_again_ends_the_list(provider: str) -> None:
    """By a failure, and no list without end."""
    page = answer(200, _page(provider, _warned(provider), more=True))
    with peer(*[[page]] * 5) as served:
        files: Any = fx.run_result(FileStore.files().collect().provide(_layer(provider, served))).failure()

    assert "names itself as the next page" in files.message
    assert len(served.seen) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_is_found_read_and_deleted(provider: str) -> None:
    """By its id, which is quoted in the address; what is not there is None, False, or a failure that says so."""
    missing = answer(404, b'{"error": {"message": "No such File object"}}')
    details = {"openai": {"status": "processed", "purpose": "user_data"}, "anthropic": {"downloadable": False}}
    scripts = [[answer(200, _warned(provider))], [answer(200, b"\0data", kind="application/octet-stream")]]
    with peer(*scripts, [answer(200, _gone(provider))], [missing]) as served:
        here = _layer(provider, served)

        @fx.gen
        def use() -> Any:
            found = yield from FileStore.get("file/1")
            content = yield from FileStore.content("file/1")
            deleted = yield from FileStore.delete("file/1")
            after = yield from FileStore.get("file/1")
            again = yield from FileStore.delete("file/1")
            lost = yield from FileStore.content("file/1").exit()
            return found, content, deleted, after, again, lost

        found, content, deleted, after, again, lost = fx.run(use().provide(here))

    assert isinstance(found, UploadedFile)
    assert found.details == details[provider]
    assert (content, deleted, after, again) == (b"\0data", True, None, False)
    assert isinstance(lost.cause.failures[0].reason, InvalidRequestError)
    assert served.seen[2].line.split()[:2] == ["DELETE", served.seen[0].line.split()[1]]
    assert served.seen[0].line.split()[1].endswith("/files/file%2F1")


@every("provider", PROVIDERS)
@every("name", ["", ".", ".."])
def test_an_id_that_leads_to_a_folder_is_no_file(provider: str, name: str) -> None:
    """Nothing is asked for: the address would be that of all the files, or of what is above them."""
    with peer() as served:
        here = _layer(provider, served)
        asked = fx.all_(FileStore.get(name), FileStore.delete(name), FileStore.content(name).exit())
        found, deleted, content = fx.run(asked.provide(here))

    assert (found, deleted, served.seen) == (None, False, [])
    assert isinstance(content.cause.failures[0].reason, InvalidRequestError)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_goes_wrong_is_typed(provider: str) -> None:
    """A refusal of the provider, and an answer that says nothing of a file."""
    reasons: list[Any] = []
    for told in (answer(429, b"{}"), answer(200, b'{"ok": true}'), answer(200, b"[1")):
        with peer([told]) as served:
            ended: Any = fx.run_result(FileStore.upload(PDF).provide(_layer(provider, served))).failure()
        assert isinstance(ended, AiError)
        assert ended.method == "upload"
        reasons.append(ended.reason)

    assert isinstance(reasons[0], RateLimitError)
    assert [type(reason).__name__ for reason in reasons[1:]] == ["InvalidOutputError"] * 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_name_cannot_write_into_the_form(provider: str) -> None:
    """Quotation marks and line ends in it stay in it; a media type with a line end is refused, and nothing is sent."""
    name = 'a"; x="\r\nEvil: 1\r\n\r\n.pdf'
    with peer([answer(200, _warned(provider))]) as served:
        here = _layer(provider, served)
        fx.run(FileStore.upload(FilePart("application/pdf", b"%PDF", name)).provide(here))
        wrong = FilePart("text/plain\r\nEvil: 1", b"x", "a.txt")
        failure: Any = fx.run_result(FileStore.upload(wrong).provide(here)).failure()

    assert b"\r\nEvil" not in served.seen[0].body
    assert failure.reason.kind == "EncodeError"
    assert len(served.seen) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_file_is_sent_once(provider: str, tmp_path: Path) -> None:
    """Side by side, in another layer that shares the index, and anew where the provider has it no more."""
    index, other = FileIndex(tmp_path / "files.json"), _with_bytes(PDF, b"other")
    known, missing = [answer(200, _warned(provider))], [answer(404, b"{}")]
    with peer(
        known, known, [answer(200, _warned(provider, 2))], known, missing, [answer(200, _warned(provider, 3))]
    ) as served:
        twice = fx.all_(FileStore.upload(PDF, once=True), FileStore.upload(PDF, once=True))
        first, second = fx.run(twice.provide(_layer(provider, served, index=index)))
        third = fx.run(FileStore.upload(other, once=True).provide(_layer(provider, served, index=index)))
        again = FileIndex(tmp_path / "files.json")
        fourth = fx.run(FileStore.upload(PDF, once=True).provide(_layer(provider, served, index=again)))
        fifth = fx.run(FileStore.upload(PDF, once=True).provide(_layer(provider, served, index=again)))
    verbs = [seen.line.split()[0] for seen in served.seen]

    assert first == second == fourth
    assert [file.id[-1] for file in (first, third, fifth)] == ["1", "2", "3"]
    assert verbs == ["POST", "GET", "POST", "GET", "GET", "POST"]
    assert (tmp_path / "files.json").stat().st_mode & 0o077 == 0


def _with_bytes(file: FilePart, data: bytes) -> FilePart:
    """The file with other bytes."""
    return FilePart(file.media_type, data, file.file_name)
