"""Chromium without a screen, driven by Selenium: what a user sees of a page, and does to it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.kit.kept_servers import Missing

__all__ = ["Browser", "Missing", "browsing"]

_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1200,850"
)
_PATIENCE = 20.0


class Browser:
    """A browser at a page."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver: Any = driver
        self._url = url

    def open(self, path: str = "/") -> None:
        """Opens the page, and waits until it is there."""
        self.driver.get("about:blank")
        self.driver.get(f"{self._url}{path}")
        self.until("the page", lambda: not self.all("body.loading"))

    def until(self, what: str, test: Any) -> Any:
        """Waits until something holds, which it gives."""
        wait: Any = WebDriverWait(self.driver, _PATIENCE, 0.1, ignored_exceptions=(Exception,))

        def look(_: object) -> Any:
            return test()

        return wait.until(look, f"waited for: {what}")

    def all(self, selector: str) -> list[WebElement]:
        """The elements of a selector."""
        found: list[WebElement] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def one(self, selector: str) -> WebElement:
        """The last element of a selector, when there is one."""
        found: WebElement = self.until(selector, lambda: self.all(selector))[-1]
        return found

    def text(self, selector: str) -> str:
        """The text of the last element of a selector; empty where there is none."""
        found = self.all(selector)
        return str(found[-1].text) if found else ""

    def click(self, selector: str) -> None:
        """Clicks at the last element of a selector."""
        self.until(f"a click at {selector}", lambda: self.one(selector).is_displayed())
        self.until(f"a click at {selector}", lambda: self._click_once(selector))

    def _click_once(self, selector: str) -> bool:
        self.one(selector).click()  # raises if the page replaced the element
        return True

    def press(self, *keys: str) -> None:
        """Presses keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def say(self, text: str, *, waits: bool = True) -> None:
        """Writes a message and sends it; waits until it is answered."""
        self.one("#input").send_keys(text, Keys.ENTER)
        if waits:
            self.wait_for_answer(text)

    def wait_for_answer(self, text: str) -> None:
        """Waits until the message is there and nothing is written any more."""
        self.until(f"the message {text}", lambda: text in self.text("#messages"))
        self.until("the end of the answer", lambda: self.text("#send") == "Send")

    def run(self, script: str, *given: Any) -> Any:
        """What a script gives that is run in the page."""
        return self.driver.execute_script(script, *given)

    def show_as(self, *, dark: bool = False, width: int = 1200, height: int = 850) -> None:
        """Shows the page in a theme, and of this size."""
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def complaints(self) -> list[str]:
        """What the console has said since it was asked last that is no advice."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]

    def hosts(self) -> set[str]:
        """The hosts that were asked for anything since this was asked last."""
        hosts: set[str] = set()
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = urlsplit(str(message["params"]["request"]["url"]))
                hosts |= {address.netloc} if address.scheme.startswith("http") else set()
        return hosts


@contextmanager
def browsing(url: str) -> Generator[Browser]:
    """A browser of its own, without a profile.

    Raises:
        Missing: there is no Chromium, or no driver for it.
    """
    program, chauffeur = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or chauffeur is None:
        raise Missing("there is no Chromium: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = program
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = Chrome(
            options=options, service=Service(chauffeur, env={"HOME": str(Path(profile)), "PATH": "/usr/bin:/bin"})
        )
        try:
            yield Browser(driver, url)
        finally:
            driver.quit()
