"""The app running in this process, and a client that speaks plain HTTP to it, as browsers and attackers do."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import threading
import time

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the extra `app` is not installed")
from typer.testing import CliRunner  # noqa: E402

from vhem.app.estimate import Stage  # noqa: E402
from vhem.app.jobs import OUT  # noqa: E402
from vhem.app.pages import make_app  # noqa: E402
from vhem.app.security import ENTRY, Keys  # noqa: E402
from vhem.app.serve import _socket  # noqa: E402
from vhem.app.settings import Model, cluster_command, explicit_roles, report_command  # noqa: E402
from vhem.app.store import Store, now  # noqa: E402
from vhem.cli import app as command  # noqa: E402

PATIENCE = float(os.environ.get("VHEM_PATIENCE", "300"))  #: seconds, however busy the machine is


class Readers:
    """Looks at tables in a thread of this process: nothing has to be started and imported for it."""

    def start(self):
        pass

    async def run(self, function, *arguments):
        return await asyncio.to_thread(function, *arguments)

    def close(self):
        pass


class RunningApp:
    """A server in a thread; `processes`: tables are looked at in processes of their own, as users have it."""

    def __init__(self, folder, processes=False):
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
        if not processes:
            self.state.workers = Readers()

    def close(self):
        self._server.should_exit = True
        self._thread.join(20)

    def ask(self, method, path, body=None, *, host=None, origin="own", cookie="own", headers=()):
        """Return status, headers and body of an answer; by default the question is the app's own page's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
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
        try:
            connection.endheaders(content)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path):
        return json.loads(self.ask("GET", path)[2])

    def post(self, path, body=None):
        status, _, told = self.ask("POST", path, {} if body is None else body)
        assert status == 200, told
        return json.loads(told)


def finished_run(app, data, clusters, **model):
    """Return a run that is done, as the queue leaves it, without starting a process for each of its commands."""
    store, table = app.store, app.store.data(data)
    described, record = table.read(), app.store.new_run()
    job = {"data": data, "data_name": described["name"], "title": f"Clusters of {described['name']}", "model": model}
    job |= {"roles": explicit_roles(described), "clusters": clusters, "range": None, "probable": False, "look": {}}
    out = record.folder / OUT
    run_here(*cluster_command(store.table(table), job["roles"], Model.of(model, clusters), out))
    run_here(*report_command(out, {}, store.picture(table), job["title"]))
    times = {"made": now(), "started": now() - 4.0, "ended": now(), "estimate": 4.0}
    record.write({**job, **times, "stages": [Stage("cluster", "learning", 4.0)], "state": "done"})
    return record.id


def run_here(*words):
    """Run the command in this process."""
    ended = CliRunner().invoke(command, list(words))
    assert ended.exit_code == 0, ended.output
    return ended


def wait_for(condition, seconds=PATIENCE):
    """Return what a condition returns once it holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")
