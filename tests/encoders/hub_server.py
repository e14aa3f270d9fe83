"""A model hub on this machine: serves the files of folders, or refuses them as the hub does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"

REFUSALS = {
    "open/gone": (401, "RepoNotFound", "Repository not found"),  # what the hub says to strangers
    "open/missing": (404, "RepoNotFound", "Repository not found"),
    "gated/stranger": (401, "GatedRepo", "Access to model is restricted"),
    "gated/refused": (403, "GatedRepo", "Access to model is restricted and you are not in the authorized list"),
    "open/token": (401, None, "Invalid credentials in Authorization header"),
    "open/forbidden": (403, None, "Forbidden"),
    "open/broken": (500, None, "Internal error"),
}


@contextmanager
def hub(repositories: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a hub with these repositories, and the list of what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            asked.append(f"{self.command} {self.path}")
            owner, name, *rest = self.path.strip("/").split("/")
            repository = f"{owner}/{name}"
            if repository in REFUSALS:
                self._send(*REFUSALS[repository])
                return
            revision, file = rest[1], "/".join(rest[2:])
            if revision not in {"main", COMMIT}:
                self._send(404, "RevisionNotFound", "Invalid rev id")
                return
            path = repositories[repository] / file
            if not path.is_file():
                self._send(404, "EntryNotFound", "Entry not found")
                return
            data = path.read_bytes()
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def _send(self, status: int, code: str | None, message: str) -> None:
            self.send_response(status)
            if code is not None:
                self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", message)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
