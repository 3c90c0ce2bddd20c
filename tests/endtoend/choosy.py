"""A receiver of an http sink that refuses some rows."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Choosy:
    """An http server that refuses every n that 5 divides, with 422, as long as it is `strict`; `taken` are the n of the others, by key-group and number."""

    def __init__(self) -> None:
        self.strict = True
        self.taken: dict[tuple[str, str, str], int] = {}
        self.asked: Counter[int] = Counter()
        choosy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                n = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["event"]["n"]
                choosy.asked[n] += 1
                taken = bool(n % 5) or not choosy.strict
                if taken:
                    place = tuple(self.headers[f"Nadi-{part}"] for part in ("Producer", "Group", "Number"))
                    assert choosy.taken.setdefault(place, n) == n  # type: ignore[arg-type]
                self.send_response(200 if taken else 422)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not to the screen of the tests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/in"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Choosy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
