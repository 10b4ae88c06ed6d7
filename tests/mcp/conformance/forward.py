"""The client that the suite starts: has `clients.py` play it, and ends with 1 where that failed."""

import json
import os
import socket
import sys

place, url = sys.argv[1:]
asked = {
    "url": url,
    "scenario": os.environ["MCP_CONFORMANCE_SCENARIO"],
    "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
}
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(place)
    connection.sendall(json.dumps(asked).encode() + b"\n")
    said = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
sys.stderr.write(said)
sys.exit(bool(said))
