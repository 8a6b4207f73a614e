"""A small driver of headless Chromium by its DevTools protocol: open a page, press keys, look, take pictures."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

SECONDS = 20.0  # that anything may take
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check",
    "--disable-extensions", "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars",
    "--disable-features=DialMediaRouteProvider,Translate,OptimizationHints", "--password-store=basic",
)  # fmt: skip
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Enter": 13, "Escape": 27}


class Tab:
    """One page.

    Attributes:
        errors: what the console, the security policy and uncaught exceptions said.
        dialogs: texts of alert() and the like: none may ever open.
        requests: addresses that were asked for.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._target, self._session = target, ""
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its answer; what happens meanwhile is noted."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if getattr(self, "_session", ""):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            answer = json.loads(self._socket.recv(timeout=SECONDS))
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self._note(answer)
        raise TimeoutError(method)

    def close(self) -> None:
        self._session = ""
        self.call("Target.closeTarget", targetId=self._target)

    def go(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def js(self, expression: str) -> Any:
        """Return the value of an expression, awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = SECONDS) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.js(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}; errors: {self.errors}"
            time.sleep(0.03)

    def size(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def scheme(self, name: str) -> None:
        """Prefer "dark" or "light"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key: str, shift: bool = False) -> None:
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        text = {"text": key} if len(key) == 1 else ({"text": "\r"} if key == "Enter" else {})
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def mouse(self, kind: str, x: float, y: float, count: int = 1) -> None:
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1 if kind != "mouseReleased" else 0,
            clickCount=count,
        )  # fmt: skip

    def drag(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x0, y=y0)
        self.mouse("mousePressed", x0, y0)
        for i in range(1, 9):
            self.call(
                "Input.dispatchMouseEvent", type="mouseMoved", x=x0 + (x1 - x0) * i / 8, y=y0 + (y1 - y0) * i / 8,
                button="left", buttons=1,
            )  # fmt: skip
        self.mouse("mouseReleased", x1, y1)

    def click(self, selector: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, path: Path, whole: bool = True) -> Path:
        """Write a picture of the page as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        if whole:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], 12000), "scale": 1}
            found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))
        return path

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method", ""), event.get("params", {})
        if method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._socket.send(json.dumps({"id": 0, "method": "Page.handleJavaScriptDialog", "sessionId": self._session,
                                          "params": {"accept": False}}))  # fmt: skip
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str([a.get("value", a.get("description")) for a in params["args"]]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@contextmanager
def chromium() -> Iterator[Any]:
    """Start headless Chromium; yields a function that opens a new Tab."""
    from websockets.sync.client import connect

    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    profile = Path(tempfile.mkdtemp(prefix="rlvitals-chromium-"))
    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port = profile / "DevToolsActivePort"
        end = time.monotonic() + SECONDS
        while not (port.exists() and len(port.read_text().splitlines()) == 2):
            assert time.monotonic() < end, "Chromium did not start"
            time.sleep(0.05)
        number, path = port.read_text().splitlines()

        def tab() -> Tab:
            return Tab(sockets.enter_context(connect(f"ws://127.0.0.1:{number}{path}", max_size=2**28)))

        with ExitStack() as sockets:
            yield tab
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        shutil.rmtree(profile, ignore_errors=True)
