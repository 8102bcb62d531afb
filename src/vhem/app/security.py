"""Who may ask the app for anything: the browser that opened its address, and nobody else.

Any page that the user visits, and any program on the machine, can send requests to a local server. Therefore

- Host must be this machine's, so that a foreign name which suddenly points here (DNS rebinding) gets nothing;
- Origin, if there is one, must be the app's own, and whatever changes something needs one;
- everything needs a cookie, which a browser gets for the token in the address, once;
- there are no WebSockets, which browsers let any page open;
- the pages may load nothing from elsewhere and run no script but the app's own.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRY = "/enter"  #: where a token is exchanged for a cookie
_SAFE = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: A report has its own policy inside; it may not act as a page of the app, even when opened alone.
REPORT_POLICY = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
_OTHER_SITES = "Other sites may not use the app."
_STRANGER = (
    "This browser has not opened the app. Use the address that vhem app printed. It works once: if it has been used, "
    "end the app with Ctrl-C and start it again."
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Keys:
    """The token of the address, which works once, and the cookie that a browser gets for it."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.cookie = secrets.token_urlsafe(32)
        self.name = f"vhem-{port}"  # browsers do not keep the cookies of two ports apart
        self._used = False

    def spend(self, token: str) -> bool:
        """Whether a token is the right one, and is used for the first time."""
        right = secrets.compare_digest(token.encode(), self.token.encode()) and not self._used
        self._used = self._used or right
        return right

    def known(self, header: str) -> bool:
        """Whether a Cookie header has the cookie."""
        try:
            jar = SimpleCookie(header)
        except CookieError:
            return False
        given = jar[self.name].value if self.name in jar else ""
        return secrets.compare_digest(given.encode(), self.cookie.encode())

    def give(self, response: Response) -> None:
        """Put the cookie on a response."""
        response.set_cookie(self.name, self.cookie, httponly=True, samesite="strict", path="/")


class Guard:
    """Middleware that answers only the browser that opened the app."""

    def __init__(self, app: ASGIApp, port: int, keys: Keys) -> None:
        self._app, self._keys = app, keys
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refused = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
            await (refused or self._app)(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, method: str, path: str, headers: Headers) -> Response | None:
        """Return the answer to a request that is not the app's own, or None if it is."""
        foreign = self._foreign(method, headers)
        if foreign is not None or path == ENTRY:
            return foreign
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return _no(_OTHER_SITES, 403)
        if not self._keys.known(headers.get("cookie", "")):
            return _no(_STRANGER, 401)
        return None

    def _foreign(self, method: str, headers: Headers) -> Response | None:
        """Refuse requests that were meant for another host, or that come from a page of another site."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return _no("This address is not the app's. Open the one that vhem app printed.", 421)
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return _no(_OTHER_SITES, 403)
        if method not in _SAFE and not origins:
            return _no("Only the app's own pages may change anything.", 403)
        return None


def _no(reason: str, status: int) -> Response:
    return PlainTextResponse(reason + "\n", status)


def _with_headers(send: Send) -> Send:
    """Add the headers that every answer has, unless it has its own."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def report_headers() -> dict[str, Any]:
    """Return the headers of a report."""
    return {"content-security-policy": REPORT_POLICY}
