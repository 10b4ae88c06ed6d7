import asyncio
import json
import logging
import socket

import pytest

from leonidas_tools.agent.models import (
    Budget,
    EndReason,
    FunctionDeclaration,
    GeminiModel,
    Message,
    ModelCall,
    ModelParameters,
    OpenAIModel,
    Restart,
    ScriptedModel,
    Usage,
    answer,
)
from leonidas_tools.errors import ConfigurationError, ModelError
from tests.agent.model_server import (
    ModelServer,
    Reply,
    calls,
    chunk,
    gemini,
    model_server,
    refuses,
    says,
)

pytestmark = pytest.mark.slow

KEY = "sk-proj-Zx81kd93Lmq0aa77Tr"
QUESTION = [Message.system("Be short."), Message.user("What is the weather?")]
WEATHER = FunctionDeclaration(
    name="weather.get",
    description="Current weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


def openai_model(server, **options):
    return OpenAIModel(
        "test", base_url=f"{server.url}/v1", api_key=KEY, backoff_seconds=0.0, **options
    )


def gemini_model(server, **options):
    return GeminiModel("g", base_url=server.url, api_key=KEY, backoff_seconds=0.0, **options)


async def test_an_answer_comes_in_pieces_and_is_counted():
    async with model_server(says("It is sunny.")) as server, openai_model(server) as model:
        pieces = []
        said = await answer(model, QUESTION, on_chunk=pieces.append)
    assert (said.text, said.end) == ("It is sunny.", EndReason.STOP)
    assert said.usage == Usage(input_tokens=7, output_tokens=3)
    assert len(pieces) == 5
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert [each["role"] for each in sent.body["messages"]] == ["system", "user"]
    assert sent.headers["authorization"] == f"Bearer {KEY}"


async def test_a_call_comes_whole_under_the_functions_own_name():
    async with (
        model_server(calls(("a", "weather_get", '{"city": "Lisbon"}'))) as server,
        openai_model(server) as model,
    ):
        said = await answer(model, QUESTION, [WEATHER])
    assert said.calls == (ModelCall(id="a", name="weather.get", arguments={"city": "Lisbon"}),)
    assert server.requests[0].body["tools"][0]["function"]["name"] == "weather_get"


async def test_the_conversation_goes_back_with_calls_and_results():
    call = ModelCall(id="a", name="weather.get", arguments={"city": "Lisbon"})
    history = [*QUESTION, Message.assistant("", [call]), Message.result(call, '{"sky": "blue"}')]
    async with model_server(says("Blue")) as server, openai_model(server) as model:
        await answer(model, history, [WEATHER])
    made, result = server.requests[0].body["messages"][-2:]
    assert made["tool_calls"][0]["function"] == {
        "name": "weather_get",
        "arguments": '{"city": "Lisbon"}',
    }
    assert result == {"role": "tool", "tool_call_id": "a", "content": '{"sky": "blue"}'}


async def test_an_id_that_comes_again_is_a_new_call():
    reply = calls(("call_0", "now", "{}"), ("call_0", "now", "{}"))
    reply.events[2]["choices"][0]["delta"]["tool_calls"][0]["index"] = 1
    earlier = ModelCall(id="call_0", name="now")
    history = [*QUESTION, Message.assistant("", [earlier]), Message.result(earlier, "1")]
    async with model_server(reply) as server, openai_model(server) as model:
        said = await answer(model, history)
    ids = [call.id for call in said.calls]
    assert len({*ids, "call_0"}) == 3


async def test_calls_that_share_an_index_are_two_calls():
    reply = Reply(
        [
            chunk({"tool_calls": [{"index": 0, "id": id_, "function": made}]})
            for id_, made in (
                ("a", {"name": "now", "arguments": "{}"}),
                ("b", {"name": "weather", "arguments": '{"city": "Porto"}'}),
            )
        ]
        + [chunk({}, "tool_calls")]
    )
    async with model_server(reply) as server, openai_model(server) as model:
        said = await answer(model, QUESTION)
    assert [(call.name, call.arguments) for call in said.calls] == [
        ("now", {}),
        ("weather", {"city": "Porto"}),
    ]


async def test_arguments_that_were_cut_off_stay_text():
    async with (
        model_server(calls(("a", "weather", '{"city": "Lis'), finish="length")) as server,
        openai_model(server) as model,
    ):
        said = await answer(model, QUESTION)
    assert (said.calls[0].arguments, said.end) == ('{"city": "Lis', EndReason.LENGTH)


async def test_reasoning_is_no_part_of_the_answer():
    reply = Reply(
        [
            chunk({"reasoning_content": "Hm. ", "reasoning": "Hm. "}),
            chunk({"content": "Yes"}),
            chunk({}, "stop"),
        ]
    )
    async with model_server(reply) as server, openai_model(server) as model:
        said = await answer(model, QUESTION)
    assert (said.thought, said.text) == ("Hm. ", "Yes")


async def test_tokens_are_estimated_where_the_server_does_not_count():
    async with model_server(says("Yes", counted=None)) as server, openai_model(server) as model:
        said = await answer(model, QUESTION)
    assert said.usage == Usage(input_tokens=8, output_tokens=1, is_estimated=True)


@pytest.mark.parametrize("refusal", [{"refusal": "I will not."}, {"content": "I will not."}])
async def test_a_refusal_is_an_answer_that_says_so(refusal):
    finish = "stop" if "refusal" in refusal else "content_filter"
    reply = Reply([chunk(refusal), chunk({}, finish)])
    async with model_server(reply) as server, openai_model(server) as model:
        said = await answer(model, QUESTION)
    assert (said.text, said.end) == ("I will not.", EndReason.REFUSED)


@pytest.mark.parametrize("make", [openai_model, gemini_model])
async def test_a_server_killed_in_mid_answer_is_asked_once_more(make):
    whole = says("All of it") if make is openai_model else gemini({"text": "All of it"})
    half = Reply(whole.events[:1], ending="cut")
    if make is gemini_model:
        half.events = [{"candidates": [{"content": {"parts": [{"text": "Al"}]}}]}]
    async with model_server(half, whole) as server, make(server) as model:
        pieces = []
        said = await answer(model, QUESTION, on_chunk=pieces.append)
    assert said.text == "All of it"
    assert [type(piece) for piece in pieces].count(Restart) == 1
    assert len(server.requests) == 2


@pytest.mark.parametrize("make", [openai_model, gemini_model])
async def test_a_server_that_stays_down_is_given_up(make):
    async with model_server(Reply([], ending="cut")) as server, make(server, retries=2) as model:
        with pytest.raises(ModelError) as raised:
            await answer(model, QUESTION)
    assert raised.value.reason == "connection"
    assert len(server.requests) == 3


@pytest.mark.parametrize("make", [openai_model, gemini_model])
async def test_an_unreachable_server_is_a_connection_error(make):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        server = ModelServer([])
        server.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with make(server, retries=0) as model:
            with pytest.raises(ModelError) as raised:
                await answer(model, QUESTION)
    assert raised.value.reason == "connection"


@pytest.mark.parametrize("make", [openai_model, gemini_model])
async def test_a_stream_that_ends_early_is_an_error(make):
    reply = Reply([chunk({})]) if make is openai_model else gemini({"text": "Half"}, finish=None)
    async with model_server(reply) as server, make(server, retries=0) as model:
        with pytest.raises(ModelError, match="before its answer was complete"):
            await answer(model, QUESTION)


@pytest.mark.parametrize("make", [openai_model, gemini_model])
async def test_the_time_limit_is_for_the_whole_answer(make):
    begun = says("It is") if make is openai_model else gemini({"text": "It"}, finish=None)
    hangs = Reply(begun.events[:1], ending="hang")
    async with model_server(hangs) as server, make(server, timeout_seconds=0.3) as model:
        with pytest.raises(ModelError, match=r"no complete answer within 0\.3 s") as raised:
            await answer(model, QUESTION)
    assert raised.value.reason == "timeout"


@pytest.mark.parametrize("make", [openai_model, gemini_model])
async def test_a_reader_that_leaves_ends_the_connection(make):
    begun = says("It is") if make is openai_model else gemini({"text": "It"}, finish=None)
    async with (
        model_server(Reply(begun.events[:1], ending="hang")) as server,
        make(server) as model,
    ):
        came = asyncio.Event()
        asking = asyncio.create_task(
            answer(model, QUESTION, on_chunk=lambda _: came.set()), name="asking"
        )
        async with asyncio.timeout(30):
            await came.wait()
            asking.cancel()
            await asyncio.wait([asking])
            await server.left.wait()
    assert asking.cancelled()


@pytest.mark.parametrize("make", [openai_model, gemini_model])
@pytest.mark.parametrize(
    ("status", "said", "reason", "requests"),
    [
        (401, "Incorrect API key provided: {key}.", "authentication", 1),
        (400, "Bad header: Bearer {key}", "request", 1),
        (429, "Slow down, {key}", "rate_limited", 3),
        (500, "crashed with {key} in hand", "server", 3),
        (503, '{{"authorization": "{key}"}}', "server", 3),
    ],
)
async def test_an_error_never_says_the_key(make, status, said, reason, requests, caplog):
    caplog.set_level(logging.DEBUG)
    reply = refuses(status, said.format(key=KEY))
    reply.body["error"] |= {"code": status, "status": "X"}
    async with model_server(reply) as server, make(server, retries=2) as model:
        with pytest.raises(ModelError) as raised:
            await answer(model, QUESTION)
    error = raised.value
    assert error.reason == reason
    assert len(server.requests) == requests
    assert str(status) in str(error)
    shown = [str(error), repr(error), repr(model), caplog.text]
    while error is not None:
        shown.append(repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert KEY not in "\n".join(shown)


async def test_an_error_in_the_middle_of_a_stream_never_says_the_key():
    reply = Reply([chunk({"content": "It"}), {"error": {"message": f"overloaded: {KEY}"}}])
    async with model_server(reply) as server, openai_model(server, retries=0) as model:
        with pytest.raises(ModelError, match="overloaded") as raised:
            await answer(model, QUESTION)
    assert KEY not in repr(raised.value)


async def test_a_server_without_function_calling_says_so():
    reply = refuses(400, "tools param requires --jinja flag")
    async with model_server(reply) as server, openai_model(server) as model:
        with pytest.raises(ModelError) as raised:
            await answer(model, QUESTION, [WEATHER])
    assert raised.value.reason == "tools_unsupported"


async def test_a_wait_that_is_longer_than_the_time_left_is_not_begun():
    reply = refuses(429, "later", **{"retry-after": "3600"})
    async with model_server(reply) as server, openai_model(server) as model:
        with pytest.raises(ModelError) as raised:
            await answer(model, QUESTION)
    assert raised.value.retry_after_seconds == 3600
    assert len(server.requests) == 1


async def test_an_answer_that_is_not_a_stream_is_an_error():
    reply = Reply(["data: <html>\r\n\r\n"])
    async with model_server(reply) as server, openai_model(server, retries=0) as model:
        with pytest.raises(ModelError) as raised:
            await answer(model, QUESTION)
    assert raised.value.reason == "protocol"


async def test_an_endless_answer_is_not_collected():
    reply = says("x")
    reply.events[:1] = [chunk({"content": "x" * 1_100_000})] * 2
    async with model_server(reply) as server, openai_model(server) as model:
        with pytest.raises(ModelError, match="max_output_tokens"):
            await answer(model, QUESTION)


async def test_parameters_reach_the_server():
    parameters = ModelParameters(temperature=0.2, max_output_tokens=50, seed=7, stop=["END"])
    async with model_server(says("Yes")) as server, openai_model(server) as model:
        await answer(model, QUESTION, parameters=parameters)
    sent = server.requests[0].body
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (0.2, 50, 7)
    assert sent["stop"] == ["END"]
    assert "top_p" not in sent


async def test_the_key_of_the_environment_goes_to_no_other_address(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with (
        model_server(says("Yes")) as server,
        OpenAIModel("test", base_url=f"{server.url}/v1") as model,
    ):
        await answer(model, QUESTION)
    assert KEY not in json.dumps(server.requests[0].headers)


def test_a_missing_key_is_asked_for(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt")
    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY"):
        GeminiModel("g")


def test_a_model_serves_one_event_loop_after_another():
    async def ask(model):
        async with model_server(says("Yes")) as server:
            model._base_url = f"{server.url}/v1"
            said = await answer(model, QUESTION)
            await model.aclose()
            return said.text

    model = OpenAIModel("test", base_url="http://127.0.0.1:9/v1")
    assert [asyncio.run(ask(model)), asyncio.run(ask(model))] == ["Yes", "Yes"]


async def test_gemini_calls_functions_and_gets_their_signatures_back():
    call = {"functionCall": {"name": "weather.get", "args": {"city": "Lisbon"}}}
    first = gemini({"text": "Let me see.", "thought": True}, call | {"thoughtSignature": "c2ln"})
    async with (
        model_server(first, gemini({"text": "Blue"})) as server,
        gemini_model(server) as model,
    ):
        said = await answer(model, QUESTION, [WEATHER])
        made = said.calls[0]
        history = [
            *QUESTION,
            Message.assistant("", said.calls),
            Message.result(made, '{"sky": "blue"}'),
        ]
        assert (await answer(model, history, [WEATHER])).text == "Blue"
    assert (said.thought, made.name, made.arguments) == (
        "Let me see.",
        "weather.get",
        {"city": "Lisbon"},
    )
    sent = server.requests[0].body
    assert sent["systemInstruction"]["parts"] == [{"text": "Be short."}]
    assert sent["tools"][0]["functionDeclarations"][0]["name"] == "weather.get"
    asked, called, answered = server.requests[1].body["contents"]
    assert (asked["role"], called["role"], answered["role"]) == ("user", "model", "user")
    assert called["parts"][0]["thoughtSignature"] == "c2ln"
    assert called["parts"][0]["functionCall"]["id"] == made.id
    assert answered["parts"][0]["functionResponse"]["response"] == {"sky": "blue"}


async def test_gemini_says_why_it_has_ended():
    blocked = Reply([{"promptFeedback": {"blockReason": "SAFETY"}}])
    cut = gemini({"text": "It is"}, finish="MAX_TOKENS")
    async with model_server(blocked, cut) as server, gemini_model(server) as model:
        ends = [(await answer(model, QUESTION)).end for _ in range(2)]
    assert ends == [EndReason.REFUSED, EndReason.LENGTH]


async def test_a_scripted_model_keeps_to_its_script():
    model = ScriptedModel(
        [
            {"thought": "Hm.", "calls": [("now", {})]},
            lambda messages: f"You said {messages[-1].text!r}.",
            ModelError("down", reason="server"),
        ]
    )
    first = await answer(model, QUESTION, [WEATHER])
    assert (first.thought, first.calls[0].name) == ("Hm.", "now")
    assert (await answer(model, QUESTION)).text == "You said 'What is the weather?'."
    with pytest.raises(ModelError, match="down"):
        await answer(model, QUESTION)
    with pytest.raises(ModelError, match="the script has 3 answers"):
        await answer(model, QUESTION)
    assert model.asked[0].tools == ("weather.get",)


async def test_a_script_in_json_names_calls_as_servers_do():
    call = {"name": "pay", "arguments": {"to": "ana"}}
    model = ScriptedModel.from_json(json.dumps([{"calls": [call, ["now", {}]]}]))
    made = await answer(model, QUESTION)
    assert [(each.name, each.arguments) for each in made.calls] == [
        ("pay", {"to": "ana"}),
        ("now", {}),
    ]


def test_a_budget_is_spent_by_what_answers_take():
    budget = Budget(10)
    budget.add(Usage(input_tokens=4, output_tokens=5))
    assert (budget.left, budget.is_spent) == (1, False)
    budget.add(Usage(output_tokens=2))
    assert (budget.left, budget.is_spent) == (0, True)
    assert Budget().left is None
    with pytest.raises(ValueError, match="above 0"):
        Budget(0)
