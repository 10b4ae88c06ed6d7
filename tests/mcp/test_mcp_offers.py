"""What a server asks of a model, logs, is told of its roots, and offers besides its tools."""

import asyncio
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google import genai
from google.genai import types

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.approvals.request import Decision
from leonidas_tools.mcp.features import ClientFeatures, SamplingAnswer
from leonidas_tools.mcp.features.sampling import GeminiSampling
from tests.mcp.asked import SAMPLING, Model, Person, answering, call, said
from tests.mcp.forking import forked

# --- a model -----------------------------------------------------------------------------------


async def test_a_server_may_ask_a_model_if_a_person_agrees(chain):
    person, asked = answering(Decision.approve())
    model = Model()
    settings = forked("asking.py", sampling=SAMPLING)
    tools = await chain(settings, approval=person, asks=ClientFeatures(sampling=model))
    result = await call(tools, "write", topic="roses")
    assert json.loads(json.dumps(result.result)) in (
        {"text": "Roses are red.", "model": "rhymer-1", "why": "maxTokens"},
        '{\n  "text": "Roses are red.",\n  "model": "rhymer-1",\n  "why": "maxTokens"\n}',
    )
    (request,) = model.asked
    assert (request.max_tokens, request.system_prompt, request.model) == (
        300,
        "Rhyme.",
        "gemini-3.8-flash",
    )
    assert [(turn.role, *turn.content) for turn in request.turns] == [("user", "A poem on roses")]
    assert (asked[0].tool, asked[0].title) == (
        "lab__sampling",
        "May the server 'lab' ask a language model this: A poem on roses",
    )


async def test_a_no_reaches_no_model_and_always_is_not_asked_again(chain):
    person, asked = answering(Decision.deny(), Decision.always())
    model = Model()
    settings = forked("asking.py", sampling=SAMPLING)
    tools = await chain(settings, approval=person, asks=ClientFeatures(sampling=model))
    refused = await call(tools, "write", topic="x")
    assert (refused.status, model.asked) == ("failed", [])
    assert "the user does not allow it" in refused.message
    assert [(await call(tools, "write", topic=topic)).status for topic in "abc"] == ["ok"] * 3
    assert (len(asked), len(model.asked)) == (2, 3)


async def test_a_long_system_prompt_is_asked_of_no_model(chain):
    person, asked = answering(Decision.approve())
    model = Model()
    settings = forked("asking.py", sampling=SAMPLING)
    tools = await chain(settings, approval=person, asks=ClientFeatures(sampling=model))
    refused = await call(tools, "write", topic="everything")
    assert (refused.status, model.asked, asked) == ("failed", [], [])
    assert "too much text" in refused.message


async def test_a_rule_can_allow_sampling_within_a_limit(chain, caplog):
    rules = [{"name": "poems", "tools": "lab__sampling", "decide": "allow"}]
    model = Model()
    settings = forked("asking.py", sampling={**SAMPLING, "calls_per_minute": 2})
    tools = await chain(
        settings, asks=ClientFeatures(sampling=model), config={"policies": {"rules": rules}}
    )
    statuses = [(await call(tools, "write", topic=topic)).status for topic in "abc"]
    assert (statuses, len(model.asked)) == (["ok", "ok", "failed"], 2)
    assert "it exceeds 2 requests a minute" in caplog.text


async def test_a_rule_says_what_silence_means_for_what_it_asks(chain):
    rule = {"name": "poems", "tools": "lab__sampling", "decide": "ask", "deadline": "50ms"}
    model, statuses = Model(), []
    for rules in ([rule], [{**rule, "on_expiry": "proceed"}]):
        tools = await chain(
            forked("asking.py", sampling=SAMPLING),
            approval=Person(),
            asks=ClientFeatures(sampling=model),
            config={"policies": {"rules": rules}},
        )
        statuses.append((await call(tools, "write", topic="x")).status)
    assert (statuses, len(model.asked)) == (["failed", "ok"], 1)


async def test_silence_is_no_answer_to_a_question_that_no_rule_can_answer(chain):
    silence = {"deadline": "50ms", "on_expiry": "proceed"}
    config = {"policies": {"approval": silence}}
    tools = await chain(forked("asking.py"), approval=Person(), config=config)
    assert said(await call(tools, "wipe")) == "cancel"


async def test_a_server_without_permission_to_ask_is_not_offered_it(chain):
    tools = await chain(forked("asking.py"))
    result = await call(tools, "write", topic="x")
    assert result.status == "failed"
    assert "sampling" in result.message


async def test_by_default_google_genai_answers():
    heard = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            parts = [{"text": "Violets"}]
            candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "MAX_TOKENS"}
            body = json.dumps({"candidates": [candidate], "modelVersion": "gemini-3.8-001"})
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    from leonidas_tools.mcp.features.sampling import SamplingRequest, SamplingTurn

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}")
        client = genai.Client(api_key="none", http_options=options)
        turns = [SamplingTurn(role="user", content=["Hi"])]
        request = SamplingRequest(
            server="lab",
            model="gemini-3.8-flash",
            turns=turns,
            max_tokens=7,
            system_prompt="Rhyme.",
        )
        answer = await GeminiSampling(client)(request)
        await client.aio.aclose()
        client.close()
        server.shutdown()
    assert answer == SamplingAnswer(text="Violets", model="gemini-3.8-001", stop_reason="maxTokens")
    (body,) = heard
    assert body["generationConfig"]["maxOutputTokens"] == 7
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert "tools" not in body


# --- roots -------------------------------------------------------------------------------------


async def test_a_server_gets_the_folders_where_it_may_work(chain, tmp_path):
    tools = await chain(forked("asking.py", roots=[str(tmp_path)]))
    assert (await call(tools, "directories")).result == {"result": [tmp_path.as_uri()]}


async def test_a_root_that_is_no_directory_is_named(mark):
    settings = forked("asking.py", roots=["/nowhere"], env=mark)
    tools = AdvancedToolProcessor(config={"mcp_servers": {"lab": settings}}, builtin_tools=False)
    async with tools:
        assert not await tools.ready(60)
        (status,) = tools.mcp_servers.status()
    assert "the root '/nowhere' is not a directory" in status["last_error"]


# --- logs --------------------------------------------------------------------------------------


async def test_the_log_of_a_server_is_in_ours_in_one_line_and_without_secrets(chain, caplog):
    tools = await chain(forked("asking.py"))
    await call(tools, "chat", count=1)
    said = [r for r in caplog.records if r.name == "leonidas_tools.mcp.server.lab"]
    assert [(r.levelno, r.getMessage()) for r in said] == [
        (logging.WARNING, r"line 0\n\x1b[31mred key=***")
    ]


async def test_a_log_that_is_not_wanted_is_not_there(chain, caplog):
    tools = await chain(forked("asking.py", log_level="off"))
    await call(tools, "chat", count=1)
    assert "line 0" not in caplog.text


@pytest.mark.slow
async def test_a_flood_of_logs_is_cut_and_delays_no_call(chain, caplog):
    tools = await chain(forked("older.py", tools={"flood": {"timeout": 100}}))
    async with asyncio.timeout(110):
        result = await tools.execute("flood")
    assert result.result == "flooded"
    said = [r for r in caplog.records if r.name == "leonidas_tools.mcp.server.lab"]
    assert len(said) == 601
    assert "the rest is dropped" in said[-1].getMessage()
