"""The page in a browser: conversations as users have them, with the mouse, with the keyboard, and by ear."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="the browser is driven by selenium")

from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.keys import Keys

from tests.integration.ui.page_chat import HEAVY
from tests.kit.browser import Browser, Missing, browsing
from tests.kit.node import installed
from tests.kit.server_process import asked, serving

HERE = Path(__file__).parent
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of an application with the page."""
    with serving([sys.executable, str(HERE / "page_chat.py")]) as address:
        yield address


@pytest.fixture(scope="module")
def shared(url: str) -> Iterator[Browser]:
    """A browser for all tests, or a reason to skip."""
    try:
        with browsing(url) as browser:
            yield browser
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def page(shared: Browser, url: str) -> Iterator[Browser]:
    """The page with a new conversation; in the end the console has said nothing, and no other host was asked."""
    shared.show_as()
    shared.open()
    yield shared
    assert [line for line in shared.complaints() if "status of 4" not in line] == []
    assert shared.hosts() <= {url.removeprefix("http://")}


def _answers(page: Browser) -> list[str]:
    return [str(one.text) for one in page.all(".message.assistant .body")]


# -- conversations


def test_a_conversation_is_held_and_found_again(page: Browser) -> None:
    """Texts, tables and results are shown; after a reload all of it is there, and it is found by its title."""
    page.say("think of a guide")
    page.say("forecast for Paris")
    page.click(".call[data-tool=getForecast] > summary")

    assert "Effects are values" in _answers(page)[0]
    assert len(page.all(".markdown table td")) == 2
    assert page.text(".markdown pre") == "answer = fx.run(program.provide(layer))"
    assert [one.text for one in page.all(".call table tbody tr")] == ["Monday 21", "Tuesday 18"]

    page.driver.refresh()
    page.until("the conversation", lambda: len(_answers(page)) == 2)
    assert page.text("#title") == "think of a guide"
    page.click("#new")
    page.one("#search").send_keys("guide")
    page.click("#conversations a")
    page.until("the conversation", lambda: len(_answers(page)) == 2)


def test_the_empty_page_offers_a_start(page: Browser) -> None:
    """A low window shows its start. A suggestion is sent with a click, and the offer is gone."""
    page.show_as(width=390, height=300)
    page.open()
    assert page.run("return document.getElementById('scroller').scrollTop") == 0
    page.show_as()
    assert "What can I do for you?" in page.text("#empty")
    page.click(".suggestions button")
    page.wait_for_answer("hello there")
    assert not page.one("#empty").is_displayed()


def test_code_has_colors_and_keeps_its_text(page: Browser) -> None:
    """Comments, strings, numbers, and keywords have a color each; the text stays exact."""
    page.say("code, please")

    assert page.text(".markdown pre") == 'def f(x):  # a comment\n    return "text", 12'
    colored = {
        kind: [one.text for one in page.all(f".hl-{kind}")] for kind in ("keyword", "comment", "string", "number")
    }
    assert colored == {
        "keyword": ["def", "return"],
        "comment": ["# a comment"],
        "string": ['"text"'],
        "number": ["12"],
    }


def test_reasoning_is_folded(page: Browser) -> None:
    """The page shows that the model thought, and the thoughts on request."""
    page.say("think of a guide")
    assert not page.one(".reasoning > div").is_displayed()
    page.click(".reasoning > summary")
    assert page.text(".reasoning > div") == "The user wants a guide."


def test_a_typed_failure_is_shown_in_words(page: Browser) -> None:
    """The kind of the failure is a sentence, and its fields are a list."""
    page.say("train, please")
    page.until("the call", lambda: page.all(".call .error-text"))
    assert page.text(".call .error-text") == "No such train."
    assert "Rome" in page.text(".call dl:last-of-type")


def test_a_conversation_is_renamed_and_deleted(page: Browser) -> None:
    """Its new title is in the list; when it is deleted, the list has it no more."""
    page.say("hello there")
    page.click("#rename")
    page.one("#ask-input").send_keys(Keys.CONTROL, "a")
    page.one("#ask-input").send_keys("Of greetings", Keys.ENTER)
    page.until("the title", lambda: page.text("#title") == "Of greetings")
    assert "Of greetings" in page.text("#conversations")
    page.click("#delete")
    page.click("#delete-dialog button[value=delete]")
    page.until("the list", lambda: "Of greetings" not in page.text("#conversations"))
    assert page.text("#title") == "New conversation"


@pytest.mark.parametrize("kind", HEAVY)
def test_a_text_that_is_hard_to_read_leaves_the_page_usable(page: Browser, kind: str) -> None:
    """It is shown, as it was written where it is too much, also after a reload, and the conversation goes on."""
    page.say(f"heavy {kind}")
    page.driver.refresh()
    page.until("the answer", lambda: "The end." in _answers(page)[0])
    page.say("hello there")
    assert len(_answers(page)) == 2


def test_a_table_with_very_many_columns_shows_some(page: Browser) -> None:
    """The page states how many it leaves out, and shows all data as JSON that can be unfolded."""
    page.say("wide")
    page.click(".call[data-tool=getForecast] > summary")

    assert len(page.all(".call table thead th")) == 50
    assert "59950 more columns" in page.text(".call")
    assert len(page.all(".call details.json")) == 1


@pytest.mark.parametrize(
    ("button", "state", "words"), [("Allow", "output-available", "Done"), ("Deny", "output-denied", "Denied")]
)
def test_a_call_waits_for_a_button(page: Browser, button: str, state: str, words: str) -> None:
    """The call has its parameters, and is run or not as the button says; the answer goes on."""
    page.say("delete the report")
    assert "/tmp/report.txt" in page.text(".call")
    page.one(".answer input").send_keys("I have looked at it")
    page.click(f"button[aria-label='{button} Delete file (deleteFile)']")
    page.until("the end", lambda: "Thank you" in _answers(page)[0])
    page.until("what became of it", lambda: page.all(f".call[data-state={state}]"))
    assert words in page.text(".call > summary")


def test_all_that_is_approved_is_seen(page: Browser) -> None:
    """Before the button, every parameter is shown as the terminal shows it, unfolded and with escapes."""
    page.say("sweep the house")
    page.until("the button", lambda: page.all("button[aria-label='Allow Sweep (sweep)']"))

    shown = page.text(".call .exact")
    wanted = ("friend0", "ATTACKER", "SECRET-TRANSFER", "\\u202egpj", "5,000 times")
    assert [word for word in wanted if word not in shown] == []
    assert "\u202e" not in page.text("main")


def test_an_approval_that_was_left_open_is_given_later(page: Browser) -> None:
    """The call keeps its buttons while the conversation goes on, and runs when one is pressed."""
    page.say("delete the report")
    page.until("the button", lambda: page.all("button[aria-label='Allow Delete file (deleteFile)']"))
    page.say("hello there")
    page.until("the second answer", lambda: len(_answers(page)) == 2)
    page.until("the button again", lambda: page.all("button[aria-label='Allow Delete file (deleteFile)']"))
    page.click("button[aria-label='Allow Delete file (deleteFile)']")
    page.until("the result", lambda: page.all(".call[data-state=output-available]"))
    page.until("the end", lambda: page.text("#send") == "Send")

    assert not page.all("button[aria-label='Allow Delete file (deleteFile)']")
    assert "Delete file" in _answers(page)[1]
    assert "Done" in _answers(page)[1]


def test_two_calls_wait_for_two_answers(page: Browser) -> None:
    """Nothing is sent before both are answered; each is treated as it was answered."""
    page.say("delete-both of them")
    page.click(".call:first-of-type button[aria-label^=Allow]")
    page.until(
        "the status", lambda: "1 more call needs your answer" in str(page.one("#status").get_attribute("textContent"))
    )
    page.click("button[aria-label^=Deny]")
    page.until("the end", lambda: "Thank you" in _answers(page)[0])
    assert [one.get_attribute("data-state") for one in page.all(".call")] == ["output-available", "output-denied"]


def test_a_call_that_the_page_answers(page: Browser) -> None:
    """What the user writes is the result of the call."""
    page.say("locate me")
    page.one("form.answer textarea").send_keys("Paris")
    page.click("form.answer button")
    page.until("the end", lambda: "Thank you" in _answers(page)[0])
    page.click(".call > summary")
    assert "Paris" in page.text(".call")


def test_a_question_in_the_middle_of_an_answer(page: Browser) -> None:
    """A form asks for what the handler asked; the answer goes on with what was filled in."""
    page.say("book a flight", waits=False)
    page.one(".question input[name=name]").send_keys("Ann")
    page.one(".question input[name=seats]").send_keys("2")
    page.click(".question input[name=window]")
    page.click(".question button[type=submit]")
    page.wait_for_answer("book a flight")
    page.click(".call[data-tool=bookFlight] > summary")
    text = page.run("return document.querySelector('.call').textContent")
    assert '{"name":"Ann","seats":2,"window":true}' in text
    assert "Answered." in page.text(".question")


def test_failures_are_told_and_can_be_tried_again(page: Browser) -> None:
    """A failed call says why; a failed answer keeps what it said, and a button asks for another one."""
    page.say("atlantis, please")
    assert "there is no such city" in page.text(".call")
    page.say("break once")
    assert "Let me" in _answers(page)[-1]
    assert "An error occurred." in page.text("#failure")
    page.click("#failure button")
    page.until("the other answer", lambda: "You said: break once" in _answers(page)[-1])
    assert not page.one("#failure").is_displayed()


def test_preliminary_results_are_shown_as_they_come(page: Browser) -> None:
    """They are marked until the last one is there."""
    page.say("work on it", waits=False)
    page.until("a result so far", lambda: "so far" in page.text(".call") and "60" in page.text(".call"))
    page.wait_for_answer("work on it")
    assert "Done" in page.text(".call > summary")


def test_a_picture_is_shown(page: Browser) -> None:
    """It is part of the result."""
    page.say("paint it")
    assert page.run("return document.querySelector('.call img').naturalWidth") == 1


def test_what_a_model_writes_is_no_markup(page: Browser) -> None:
    """No script runs, nothing of another host is fetched, and only addresses of the web are links."""
    page.say("hostile, please")
    links = [one.get_attribute("href") for one in page.all(".message.assistant a")]
    assert page.driver.title == "Travel desk"
    assert page.all(".message.assistant img, .message.assistant script") == []
    assert links == ["https://example.com/spy.png", "https://example.com/"]
    assert "<script>" in _answers(page)[0]


def test_an_answer_is_stopped(page: Browser, url: str) -> None:
    """What was written stays, on the server too, and the next message is answered."""
    page.say("count, please", waits=False)
    page.until("a few numbers", lambda: " 5" in page.text(".message.assistant"))
    page.press(Keys.ESCAPE)
    page.until("the end", lambda: page.text("#send") == "Send")
    assert "stopped" in page.text("#failure")
    assert " 59" not in _answers(page)[0]
    page.say("hello again")
    assert "You said: hello again" in _answers(page)[1]
    (talk,) = [one for one in asked(url, "/api/chat")["conversations"] if one["title"] == "count, please"][:1]
    assert talk["running"] is False


@pytest.mark.parametrize("way", ["enter", "steer", "queue"])
def test_a_message_reaches_the_answer_that_is_being_written(page: Browser, way: str) -> None:
    """The answer reads it, it stands where it was read, and the page says until then that it is unread."""
    page.say("count, please", waits=False)
    page.until("a few numbers", lambda: " 5" in page.text(".message.assistant"))
    assert not page.one("#to-run").is_displayed()
    page.one("#input").send_keys("and hello")
    assert page.one("#to-run").is_displayed()
    if way == "enter":
        page.press(Keys.ENTER)
    else:
        page.click(f"#{way}")
    page.until("the note", lambda: page.one("#unread").is_displayed())
    assert page.run("return document.activeElement.id") == "input"
    page.until("the end", lambda: page.text("#send") == "Send")
    assert not page.one("#unread").is_displayed()
    shown = page.text("#messages")
    assert " 59" in shown
    assert shown.index(" 59") < shown.index("and hello") < shown.index("I read your message.")
    assert shown.count("and hello") == 1
    page.driver.refresh()
    page.until("the same", lambda: "I read your message." in page.text("#messages"))
    assert page.text("#messages").count("and hello") == 1


def test_a_message_that_the_answer_did_not_read_is_given_back(page: Browser) -> None:
    """A stopped answer reads nothing more, so the text is in the box again."""
    page.say("count, please", waits=False)
    page.until("a few numbers", lambda: " 5" in page.text(".message.assistant"))
    page.one("#input").send_keys("and hello", Keys.ENTER)
    page.until("the note", lambda: page.one("#unread").is_displayed())
    page.press(Keys.ESCAPE)
    page.until("the end", lambda: page.text("#send") == "Send")
    assert page.one("#input").get_attribute("value") == "and hello"
    assert not page.one("#unread").is_displayed()


def test_a_reload_in_the_middle_and_a_second_window_read_on(page: Browser) -> None:
    """Both have the whole answer from its beginning, when it has ended, and while it is written."""
    page.say("count, please", waits=False)
    page.until("a few numbers", lambda: " 5" in page.text(".message.assistant"))
    page.driver.refresh()
    page.until("it goes on", lambda: " 8" in page.text(".message.assistant") and page.text("#send") == "Stop")
    address, first = page.driver.current_url, page.driver.current_window_handle
    page.driver.switch_to.new_window("window")
    page.driver.get(address)
    page.until("the second window", lambda: "0 1 2 3" in page.text(".message.assistant"))
    page.until("the end", lambda: " 59" in page.text(".message.assistant"))
    page.driver.close()
    page.driver.switch_to.window(first)
    page.until("the end", lambda: " 59" in page.text(".message.assistant"))
    assert len(_answers(page)) == 1


def test_messages_are_edited_and_versions_are_kept(page: Browser) -> None:
    """An edited message has its own answer, beside the one before; both can be gone to."""
    page.say("first thought")
    page.one("#input").send_keys(Keys.ARROW_UP)
    page.until("the text", lambda: page.one("#input").get_attribute("value") == "first thought")
    page.one("#input").send_keys(Keys.CONTROL, "a")
    page.say("second thought")
    page.until("the versions", lambda: page.text(".branches") == "‹\n2/2\n›")
    assert _answers(page) == ["You said: second thought"]
    page.click(".branches button:first-child")
    page.until("the version before", lambda: _answers(page) == ["You said: first thought"])
    page.until("the button", lambda: [one for one in page.all(".foot button") if one.text == "Answer again"])[0].click()
    page.until("a third version", lambda: "3/3" in page.text(".branches"))


def test_files_are_sent(page: Browser, tmp_path: Path) -> None:
    """One of a type that may be sent is shown with the message; another is refused in words."""
    note = tmp_path / "note.txt"
    note.write_text("remember")
    program = tmp_path / "program.exe"
    program.write_bytes(b"MZ")
    page.one("#picker").send_keys(str(program))
    page.until("the refusal", lambda: "cannot be sent" in page.text("#notice"))
    page.one("#picker").send_keys(str(note))
    page.until("the file", lambda: "note.txt" in page.text("#files"))
    page.say("keep this")
    assert "note.txt" in page.text(".message.user .attachment")


def test_a_server_that_is_gone_is_told(url: str, shared: Browser) -> None:
    """The message stays in the box, and the page says what is wrong."""
    with serving([sys.executable, str(HERE / "page_chat.py")]) as address:
        shared.driver.get(address)
        shared.until("the page", lambda: not shared.all("body.loading"))
    shared.say("hello", waits=False)
    shared.until("the words", lambda: "cannot be reached" in shared.text("#notice"))
    assert shared.one("#input").get_attribute("value") == "hello"
    shared.complaints()
    shared.hosts()


# -- for everybody


def test_the_keyboard_alone_gets_everywhere(page: Browser) -> None:
    """Tabs reach each control in turn, and the focus is seen; a call is agreed to without a mouse."""
    page.say("delete the report")
    page.driver.refresh()
    page.until("the call", lambda: page.all(".call button"))
    reached: list[str] = []
    while "Allow Delete file (deleteFile)" not in reached:
        page.press(Keys.TAB)
        name, outline = page.run(
            "const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.getAttribute('aria-label') || e.textContent.trim() || e.id, s.outlineStyle + s.borderColor]"
        )
        assert outline
        assert name != "Skip to the message box" or not reached, f"the focus went round without Allow: {reached}"
        reached.append(name)
    page.press(Keys.ENTER)
    assert reached[0] == "Skip to the message box"
    assert {"New conversation", "Search conversations", "Rename", "Delete"} <= set(reached)
    page.until("the end", lambda: "Thank you" in _answers(page)[0])
    page.press(Keys.CONTROL, "k")
    assert page.run("return document.activeElement.id") == "search"
    page.run("document.activeElement.blur()")
    page.press("/")
    assert page.run("return document.activeElement.id") == "input"


def test_a_screen_reader_is_told_what_happens_and_no_more(page: Browser) -> None:
    """The list is not read out as it grows; a status says that an answer is written, and then what it says."""
    page.say("hello there")
    status = page.one("#status")
    page.until(
        "the status",
        lambda: "The assistant answered: You said: hello there" in str(status.get_attribute("textContent")),
    )
    assert status.get_attribute("aria-live") == "polite"
    assert page.one("#messages").get_attribute("aria-live") is None


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390], ids=["desk", "phone"])
def test_axe_finds_nothing_serious(page: Browser, dark: bool, width: int) -> None:
    """The rules of accessibility hold, in both themes, wide and narrow; and nothing is wider than a phone."""
    try:
        axe = (installed(HERE / "axe") / "axe-core" / "axe.min.js").read_text("utf-8")
    except Missing as missing:
        pytest.skip(str(missing))
    page.show_as(dark=dark, width=width)
    page.say("think of a guide")
    page.say("forecast it")
    page.say("atlantis")
    page.say("delete the report")
    page.run("document.querySelectorAll('details').forEach(one => (one.open = true))")
    found: dict[str, Any] = page.driver.execute_async_script(
        f"{axe}; axe.run({{resultTypes: ['violations']}}).then(arguments[arguments.length - 1])"
    )
    serious = [
        (rule["id"], [node["html"] for node in rule["nodes"]])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical", "moderate")
    ]

    assert serious == []
    assert page.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.local_model
def test_a_conversation_with_the_local_model(shared: Browser) -> None:
    """`fxai serve` with nothing more: the model in this process calls a tool of the example agent, and answers."""
    with serving([sys.executable, "-m", "fxai", "serve", "--port", "0"]) as address:
        shared.show_as()
        shared.driver.get(address)
        shared.until("the page", lambda: not shared.all("body.loading"))
        shared.say("How many lines are in README.md?", waits=False)
        for _ in range(6):  # the model takes its time on a busy machine
            try:
                shared.until("the answer", lambda: shared.text("#send") == "Send" and shared.all(".message.assistant"))
                break
            except TimeoutException:
                continue
        answer = shared.text(".message.assistant .body")
        shared.complaints()
        shared.hosts()

    assert [one.get_attribute("data-state") for one in shared.all(".call[data-tool=count_lines]")] != []
    assert "lines" in answer
