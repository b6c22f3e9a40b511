"""A browser for tests: Chromium behind chromedriver, spoken to by the W3C's WebDriver protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's own name of the key
_SECONDS = 20.0


class Browser:
    """A window.

    Args:
        url: of its session at the driver.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """Send a command; a GET without content."""
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, url: str, width: int, height: int, scheme: str = "light") -> None:
        """Show a page in a window of so many pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._devtools("Emulation.setEmulatedMedia", {"features": features})
        self.ask("/url", {"url": url})

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self.ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.ask("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """What an element says."""
        found: str = self.run("return document.querySelector(arguments[0]).innerText", selector)
        return found

    def type(self, selector: str, keys: str) -> None:
        """Type into an element; a path into one for files."""
        element = self.ask("/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self.ask(f"/element/{element}/value", {"text": keys})

    def click(self, selector: str) -> None:
        """Click an element."""
        element = self.ask("/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self.ask(f"/element/{element}/click", {})

    def until(self, condition: Callable[[], Any]) -> Any:
        """What a condition gives, once it holds."""
        end = time.monotonic() + _SECONDS
        while not (found := condition()):
            assert time.monotonic() < end, self.text("body")
            time.sleep(0.05)
        return found

    def picture(self, file: Path) -> None:
        """Write what the whole page looks like as a PNG."""
        found = self._devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        file.write_bytes(base64.b64decode(found["data"]))

    def log(self) -> list[str]:
        """What the browser complained about, such as scripts that its policy stopped."""
        return [line["message"] for line in self.ask("/se/log", {"type": "browser"})]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window; the test is skipped where there is none."""
    driver, program = shutil.which("chromedriver"), shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if driver is None or program is None:
        pytest.skip("the package chromium is not installed")
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "on port" in line and line.rstrip().endswith("."))
        port = line.rstrip(".\n").rsplit(" ", 1)[1]
        root = f"http://127.0.0.1:{port}/session"
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        wanted = {
            "goog:chromeOptions": {"binary": program, "args": words},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = Browser(root).ask("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        window = Browser(f"{root}/{session}")
        try:
            yield window
        finally:
            with contextlib.suppress(OSError, AssertionError):
                urllib.request.urlopen(urllib.request.Request(f"{root}/{session}", method="DELETE"), timeout=10)
    finally:
        process.terminate()
        process.wait(10)
