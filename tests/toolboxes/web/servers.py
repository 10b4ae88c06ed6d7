"""A web server on loopback, and runtimes with the toolbox of the web."""

import http.server
import threading
from urllib.parse import parse_qs, urlsplit

from leonidas_tools import ToolRuntime

BREAD = """<html><head><title>Bread</title></head><body><nav>Home | Shop</nav><article>
<h1>Bread</h1><p>Bread is made of flour, water, salt and yeast. It rises for two hours, and is baked
for forty minutes at 230 degrees.</p><p>A good crust needs steam at the beginning, which a pan of
hot water gives well enough for a home oven. Água e pão.</p></article>
<script>steal()</script><footer>All rights reserved</footer></body></html>"""


class Service:
    """A web server; `answers` says what it answers to a path."""

    def __init__(self):
        self.asked, self.answers = [], {}
        self.goes_on = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler):  # noqa: N805 - the server's, beside that of the service
                url = urlsplit(handler.path)
                self.asked.append((url.path, parse_qs(url.query), dict(handler.headers)))
                try:
                    self.answers[url.path](handler)
                except ConnectionError:
                    handler.close_connection = True

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.address = f"http://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self.goes_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def gives(self, path, body, status=200, **headers):
        body = body if isinstance(body, bytes) else body.encode()
        headers = {"content-type": "text/html; charset=utf-8", **headers}

        def answer(handler):
            handler.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer


def runtime(tmp_path, **settings):
    return ToolRuntime(
        config={
            "toolboxes": [{"web": {"allow_private": ["localhost"], **settings}}],
            "store": {"enabled": True, "url": str(tmp_path / "store.db")},
            "policies": {"loop": {"refuse_at": 0, "warn_at": 0}},
        }
    )
