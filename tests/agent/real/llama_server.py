"""A llama.cpp server: `llama_server.py FOLDER MODEL`; prints its address, ends with its input."""

import os
import sys

sys.path.append(sys.argv[1])
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the library prints

import xllamacpp  # noqa: E402 - found by the line above

params = xllamacpp.CommonParams()
params.model.path = sys.argv[2]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 2048
params.cpuparams.n_threads = 1  # two would wait for each other beside other tests
server = xllamacpp.Server(params)
print(f"{server.listening_address}/v1", file=out, flush=True)
sys.stdin.read()
os._exit(0)
