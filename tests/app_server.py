"""The app running in this process, and a client that speaks plain HTTP to it, as browsers and attackers do."""

from __future__ import annotations

import http.client
import json
import threading
import time

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the extra `app` is not installed")
from vhem.app.pages import make_app  # noqa: E402
from vhem.app.security import ENTRY, Keys  # noqa: E402
from vhem.app.serve import _socket  # noqa: E402
from vhem.app.store import Store  # noqa: E402


class RunningApp:
    """A server in a thread."""

    def __init__(self, folder):
        self.store = Store(folder)
        listening = _socket(0)
        self.port = listening.getsockname()[1]
        self.keys = Keys(self.port)
        self.address = f"http://127.0.0.1:{self.port}{ENTRY}?token={self.keys.token}"
        app = make_app(self.store, self.port, self.keys)
        settings = uvicorn.Config(app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        wait_for(lambda: self._server.started)
        self.state = app.state

    def close(self):
        self._server.should_exit = True
        self._thread.join(20)

    def ask(self, method, path, body=None, *, host=None, origin="own", cookie="own", headers=()):
        """Return status, headers and body of an answer; by default the question is the app's own page's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        own = f"127.0.0.1:{self.port}"
        sent = [("Host", host or own), *headers]
        if origin is not None:
            sent.append(("Origin", f"http://{own}" if origin == "own" else origin))
        if cookie is not None:
            sent.append(("Cookie", f"{self.keys.name}={self.keys.cookie}" if cookie == "own" else cookie))
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        if content is not None and not any(name.lower() == "content-length" for name, _ in sent):
            sent.append(("Content-Length", str(len(content))))
        for name, value in sent:
            connection.putheader(name, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        told = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return told

    def get(self, path):
        return json.loads(self.ask("GET", path)[2])

    def post(self, path, body=None):
        status, _, told = self.ask("POST", path, {} if body is None else body)
        assert status == 200, told
        return json.loads(told)


def wait_for(condition, seconds=240):
    """Return what a condition returns once it holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")
