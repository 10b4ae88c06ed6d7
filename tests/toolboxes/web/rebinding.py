"""Read a page whose name changes its address, in a network of its own with a public address in it.

A program: it runs where nothing but loopback exists, and 93.184.215.14 is on it.
"""

import asyncio
import http.server
import json
import threading

from leonidas_tools import ToolError
from leonidas_tools.toolboxes.web.fetch import Fetcher
from leonidas_tools.toolboxes.web.settings import WebSettings

PUBLIC = "93.184.215.14"


def serve(address, port, says):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(says)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


async def main():
    port = serve(PUBLIC, 0, b"a public page")
    serve("127.0.0.1", port, b"the secret")
    answers = [[PUBLIC], ["127.0.0.1"]]

    async def resolve(*_):
        return answers.pop(0)

    fetcher = Fetcher(WebSettings(), resolve)
    first = await fetcher.fetch(f"http://rebinding.test:{port}/")
    try:
        second = (await fetcher.fetch(f"http://rebinding.test:{port}/")).body.decode()
    except ToolError as error:
        second = error.reason_code
    print(json.dumps([first.body.decode(), second, answers]))


asyncio.run(main())
