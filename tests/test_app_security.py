"""The app answers the browser that opened it, and nobody else: every attack is tried and refused."""

import json
import socket

import pytest
from app_server import PATIENCE, RunningApp
from typer.testing import CliRunner

from vhem.app import uploads
from vhem.app.security import ENTRY, Keys
from vhem.cli import app as command


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    running = RunningApp(tmp_path_factory.mktemp("app"))
    yield running
    running.close()


def status(app, method="GET", path="/", **given):
    return app.ask(method, path, **given)[0]


def test_the_page_is_shown_to_its_own_browser(app):
    code, headers, body = app.ask("GET", "/")
    assert code == 200
    assert b"<title>vhem</title>" in body
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:{other}", "0.0.0.0:{port}"]
)
def test_a_forged_host_is_refused_even_with_the_cookie(app, host):
    assert status(app, host=host.format(port=app.port, other=app.port + 1)) == 421


def test_localhost_is_this_machine_too(app):
    origin = f"http://localhost:{app.port}"
    assert status(app, host=f"localhost:{app.port}", origin=origin) == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", ""]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_foreign_origin_is_refused(app, method, origin):
    assert status(app, method, "/api/overview", origin=origin.format(port=app.port)) == 403


def test_what_changes_something_needs_an_origin(app):
    assert status(app, "POST", "/api/demo", origin=None) == 403
    assert status(app, "GET", "/api/overview", origin=None) == 200  # browsers send none with a plain GET


def test_a_page_of_another_site_cannot_read_even_without_an_origin(app):
    for site in ("cross-site", "same-site"):
        assert status(app, path="/api/overview", origin=None, headers=[("Sec-Fetch-Site", site)]) == 403


@pytest.mark.parametrize("cookie", [None, "vhem-{port}=", "vhem-{port}=wrong", "other=1", "vhem-{port}=\x01;;=", "ü"])
@pytest.mark.parametrize("path", ["/", "/api/overview", "/static/app.js", "/nowhere"])
def test_nothing_is_shown_without_the_cookie(app, path, cookie):
    given = cookie and cookie.format(port=app.port)
    code, _, body = app.ask("GET", path, cookie=given)
    assert code == 401
    assert b"has not opened the app" in body


def test_a_token_works_once():
    keys = Keys(1)
    assert not keys.spend("")
    assert not keys.spend(keys.token + "x")
    assert keys.spend(keys.token)
    assert not keys.spend(keys.token)


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(tmp_path):
    app = RunningApp(tmp_path)
    path = f"{ENTRY}?token={app.keys.token}"
    try:
        assert status(app, path=f"{ENTRY}?token=wrong", cookie=None, origin=None) == 401
        assert status(app, path=path, cookie=None, origin=None, host="evil.example") == 421
        code, headers, _ = app.ask("GET", path, cookie=None, origin=None)
        assert code == 200
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in headers["set-cookie"].split(";")}
        assert status(app, path=path, cookie=None, origin=None) == 401
        assert status(app, path=path, origin=None) == 200  # the same browser may come again
    finally:
        app.close()


def test_websockets_are_refused(app):
    upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")]
    upgrade.append(("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="))
    assert status(app, path="/", origin="http://evil.example", headers=upgrade) == 403
    assert status(app, path="/", headers=upgrade) != 101


@pytest.mark.parametrize("path", [
    "/static/../pages.py", "/static/..%2fpages.py", "/static/%2e%2e/security.py", "/static/....//pages.py",
    "/api/data/..%2f..%2fruns", "/api/data/../../etc/passwd", "/api/runs/000000000000/report",
    "/api/runs/..%2F..%2Fetc/report", "/api/data/ABCDEF012345", "/api/data/%00", "//etc/passwd", "/static/page.html",
])  # fmt: skip
def test_paths_lead_nowhere_else(app, path):
    code, _, body = app.ask("GET", path)
    assert code == 404
    assert b"root:" not in body
    assert b"import" not in body


def test_names_of_files_do_not_leave_the_folder(app):
    made = app.ask("POST", "/api/data?name=..%2F..%2F..%2Fevil%24(touch%20x)%3B.csv", b"id,x\na,1\n")
    assert made[0] == 200
    files = {p.relative_to(app.store.root / "data").parts[1:] for p in (app.store.root / "data").rglob("*.csv")}
    assert files == {("evil_touch_x_.csv",)}
    assert not list(app.store.root.parent.glob("*.csv"))


def test_files_of_other_kinds_are_refused(app):
    code, _, body = app.ask("POST", "/api/data?name=evil.html", b"<script>alert(1)</script>")
    assert code == 400
    assert "cannot be read" in body.decode()


def test_uploads_that_are_too_large_are_refused(app, monkeypatch):
    before = len(app.store.all_data())
    too_large = [("Content-Length", str(uploads.LARGEST_TABLE + 1))]
    assert status(app, "POST", "/api/data?name=a.csv", body=b"", headers=too_large) == 413
    monkeypatch.setattr(uploads, "LARGEST_TABLE", 1000)
    chunked = [("Transfer-Encoding", "chunked"), ("content-length-is", "not said")]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [b"a,b\n" * 100] * 5) + b"0\r\n\r\n"
    code, _, told = raw_post(app, "/api/data?name=a.csv", body, chunked)
    assert code == 413
    assert b"too large" in told
    assert len(app.store.all_data()) == before


def raw_post(app, path, body, headers):
    """Post a body whose length is not said."""
    own = f"127.0.0.1:{app.port}"
    sent = [("Host", own), ("Origin", f"http://{own}"), ("Cookie", f"{app.keys.name}={app.keys.cookie}"), *headers]
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent), "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", app.port), PATIENCE) as wire:
        wire.sendall("\r\n".join(lines).encode() + body)
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    return int(answer.split()[1]), {}, answer


def test_a_picture_must_be_a_picture(app):
    made = app.ask("POST", "/api/data?name=a.csv", b"id,x\na,1\n")
    data = json.loads(made[2])["id"]
    assert status(app, "POST", f"/api/data/{data}/picture", body=b"<svg onload=alert(1)>") == 400
    assert status(app, "GET", f"/api/data/{data}/picture") == 404


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"roles": 3}', b'{"roles": {"id": 3}}', b'{"roles": {"values": [1]}}']
)
def test_odd_questions_are_refused_with_a_sentence(app, body):
    data = json.loads(app.ask("POST", "/api/data?name=a.csv", b"id,x\na,1\n")[2])["id"]
    code, _, told = app.ask("POST", f"/api/data/{data}/look", body)
    assert code == 400
    assert "not understood" in json.loads(told)["error"]


def test_it_listens_on_this_machine_only():
    ended = CliRunner().invoke(command, ["app", "--no-open", "--host", "0.0.0.0"])
    assert ended.exit_code == 1
    assert "serves one person on one machine" in ended.stderr
