"""What a live session is made of: tools given once, and wrong arguments refused at once."""

import pytest
from genai_processors import processor
from google.genai import types

from leonidas_tools import (
    AdvancedToolProcessor,
    PythonFunctionProcessor,
    ToolRegistry,
    ToolRuntime,
    tool,
)
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.session import LiveToolSession
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
)

KEY = {"api_key": "made up"}
MODEL = "gemini-3.8-live"


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


class Shop:
    @tool(requires_approval=False)
    def buy(self, item: str) -> str:
        """Buy."""
        return item


def new_tools(*functions, **options):
    return AdvancedToolProcessor(tools=functions or [add], builtin_tools=False, **options)


def declared_by_hand():
    function = types.FunctionDeclaration(name="other", description="Another.")
    return types.Tool(function_declarations=[function])


async def declared(offered, wrap=lambda live: live, **options):
    """The functions that the server was told of, by name."""
    script = [Say("Hello."), TurnComplete()]
    async with LiveSimulator(Scenario(script), generation="3.8-live") as gemini:
        live = GeminiLiveProcessor(MODEL, http_options=gemini.http_options(), **KEY, **options)
        async for _ in LiveToolSession(wrap(live), offered)("Hello."):
            pass
    return sorted(gemini.declared())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["add"]),
        ({"config": {"tools": [{"google_search": {}}]}}, ["add"]),
        ({"config": {"tools": [declared_by_hand()]}}, ["other"]),
        ({"tools": [declared_by_hand()]}, ["other"]),
        ({"tools": new_tools(subtract)}, ["subtract"]),
        ({"tools": []}, []),
    ],
)
async def test_a_session_declares_its_tools_unless_the_model_was_given_some(options, names):
    assert await declared(new_tools(), **options) == names


async def test_tools_reach_a_model_that_stands_in_a_chain_and_each_session_has_its_own():
    @processor.processor_function
    async def passing(content):
        async for part in content:
            yield part

    assert await declared(new_tools(), wrap=lambda live: passing + live + passing) == ["add"]
    assert await declared(new_tools(subtract)) == ["subtract"]


async def test_tools_that_are_given_once_are_called_and_answered():
    script = [Call.one("add", {"a": 1, "b": 2}), WaitForAnswers(), Say("3."), TurnComplete()]
    async with LiveSimulator(Scenario(script), generation="3.8-live") as gemini:
        live = GeminiLiveProcessor(MODEL, http_options=gemini.http_options(), **KEY)
        parts = [part async for part in LiveToolSession(live, new_tools())("Add.")]
    answers = [part.function_response.response for part in parts if part.function_response]
    assert [answer["result"] for answer in answers] == [3]


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda live: LiveToolSession(live, [add]), r"AdvancedToolProcessor\(tools=\[...\]\)"),
        (lambda live: LiveToolSession(live, tools=[add]), "tools takes a processor"),
        (lambda live: LiveToolSession(live, add), "tools takes a processor"),
        (lambda live: LiveToolSession(live, None), "tools takes a processor, not None"),
        (lambda live: LiveToolSession(live, "add"), "tools takes a processor, not 'add'"),
        (lambda live: LiveToolSession(live, AdvancedToolProcessor), "tools is the class"),
        (lambda live: LiveToolSession(live, live), "The model comes first"),
        (lambda live: LiveToolSession(None, new_tools()), "model takes a live model, not None"),
        (lambda live: LiveToolSession(MODEL, new_tools()), "model takes a live model"),
        (lambda live: LiveToolSession(GeminiLiveProcessor, new_tools()), "model is the class"),
        (lambda live: LiveToolSession(new_tools(), live), "The model comes first"),
        (lambda live: LiveToolSession(new_tools(), new_tools()), "The model comes first"),
        (lambda live: GeminiLiveProcessor(MODEL, tools=[add], **KEY), "LiveToolSession"),
        (lambda live: GeminiLiveProcessor(MODEL, tools=add, **KEY), "LiveToolSession"),
        (lambda live: GeminiLiveProcessor(MODEL, tools="add", **KEY), "LiveToolSession"),
        (
            lambda live: GeminiLiveProcessor(MODEL, tools=AdvancedToolProcessor, **KEY),
            "LiveToolSession",
        ),
        (lambda live: GeminiLiveProcessor(new_tools(), **KEY), "model takes the name"),
        (lambda live: AdvancedToolProcessor(tools=add), r"such as \[add\]"),
        (lambda live: AdvancedToolProcessor(tools=subtract), "a list of tools and functions"),
        (lambda live: AdvancedToolProcessor(tools=None), "a list of tools and functions"),
        (lambda live: AdvancedToolProcessor("tools.yaml"), "a list of tools and functions"),
        (lambda live: AdvancedToolProcessor(tools={"add": add}), "a list of tools and functions"),
        (lambda live: AdvancedToolProcessor(tools=Shop), "a list of tools and functions"),
        (lambda live: AdvancedToolProcessor(tools=[Shop]), r"such as Shop\(\).buy"),
        (lambda live: AdvancedToolProcessor(tools=[Shop()]), "give its methods, such as its 'buy'"),
        (lambda live: AdvancedToolProcessor(tools=["add"]), "'add' is not a tool: give a function"),
        (lambda live: AdvancedToolProcessor(tools=[None]), "None is not a tool"),
        (lambda live: AdvancedToolProcessor(tools=[[add]]), "is not a tool: give a function"),
        (lambda live: AdvancedToolProcessor(registry=[add]), "must be a ToolRegistry"),
        (
            lambda live: AdvancedToolProcessor(config=5),
            "config must be the path .*, not int: such as",
        ),
        (lambda live: AdvancedToolProcessor(config=["a"]), "config must be the path .*, not list"),
        (
            lambda live: AdvancedToolProcessor(tool=[add]),
            "no argument 'tool'; did you mean 'tools'?",
        ),
        (lambda live: ToolRuntime(confg="a"), "ToolRuntime has no argument 'confg'; .* 'config'?"),
        (
            lambda live: LiveToolSession(live, tool=[add]),
            "no argument 'tool'; did you mean 'tools'",
        ),
        (
            lambda live: GeminiLiveProcessor(MODEL, key="a"),
            "it takes model, config, tools, api_key",
        ),
        (lambda live: PythonFunctionProcessor(add), r"such as \[add\]"),
        (lambda live: ToolRegistry(add), r"such as \[add\]"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_at_once_with_what_to_give(make, advice):
    live = GeminiLiveProcessor(MODEL, **KEY)
    with pytest.raises(TypeError, match=advice):
        make(live)


def test_tools_may_be_a_category_or_come_out_of_any_iterable():
    live = GeminiLiveProcessor(MODEL, **KEY)
    assert LiveToolSession(live, PythonFunctionProcessor([add])).tools is not None
    assert [t.name for t in AdvancedToolProcessor(iter([add]), builtin_tools=False).registry] == [
        "add"
    ]
    assert Shop().buy.name in ToolRegistry([Shop().buy])


@pytest.mark.parametrize("options", [{}, {"api_key": ""}, {"vertexai": False}])
def test_a_model_without_a_key_says_what_to_set(monkeypatch, options):
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError) as raised:
        GeminiLiveProcessor(MODEL, **options)
    for todo in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "client=", "The simulator needs none"):
        assert todo in str(raised.value)
