"""A Label Studio server of the test's own, on this machine, and its users."""

from __future__ import annotations

import http.cookiejar
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["OWNER", "PASSWORD", "User", "running"]

OWNER, PASSWORD = "owner@example.org", "correct-horse"
START_SECONDS = 900
"""How long the first start may take: it makes the database."""


@contextmanager
def running(program: Path, folder: Path) -> Iterator[str]:
    """Start Label Studio with SQLite in this folder; its address, until the block ends."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    start = [program, "start", "--no-browser", "--data-dir", folder, "--internal-host", "127.0.0.1", "--port", port]
    quiet = {"COLLECT_ANALYTICS": "0", "LATEST_VERSION_CHECK": "0", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, start), "--username", OWNER, "--password", PASSWORD],
            env=os.environ | quiet | {"LABEL_STUDIO_BASE_DATA_DIR": str(folder)},
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait_for(address, process, folder / "server.log")
            yield address
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=10):  # noqa: S310
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


class User:
    """Somebody who is logged in, as a browser would be; new users sign up."""

    def __init__(self, address: str, email: str, *, new: bool = False) -> None:
        self.address, self.email = address, email
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        page = f"{address}/user/{'signup' if new else 'login'}/"
        with self.opener.open(page):
            form = {"email": email, "password": PASSWORD, "csrfmiddlewaretoken": self._csrf()}
        request = urllib.request.Request(page, urllib.parse.urlencode(form).encode(), {"Referer": address})  # noqa: S310
        with self.opener.open(request):
            pass

    def _csrf(self) -> str:
        return next((cookie.value or "" for cookie in self.cookies if cookie.name == "csrftoken"), "")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the API answers."""
        head = {"X-CSRFToken": self._csrf(), "Referer": self.address, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data, head, method=method)  # noqa: S310
        try:
            with self.opener.open(request, timeout=120) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from error
        return json.loads(text) if text else None

    def tasks(self, project: int) -> list[dict[str, Any]]:
        """The tasks of a project, by number."""
        found = self.call("GET", f"/api/tasks?project={project}&fields=all&page_size=1000")["tasks"]
        return sorted(found, key=lambda task: int(task["id"]))
