"""A tool runs in place of a name that does not exist, where the settings allow it."""

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.results.similar import clearly_closest
from tests.promises.faults.play import call, play

READ = {"similar_tool": "read"}


class House:
    """Tools that read and write, and what ran."""

    def __init__(self, *more, rules=(), **policies):
        self.ran = []
        self.events = []

        @tool(effect="read")
        async def get_weather(city: str, days: int = 1) -> str:
            """Tells the weather."""
            self.ran.append("get_weather")
            return city

        @tool(effect="once", requires_approval=False)
        async def send_message(city: str) -> str:
            """Sends a message."""
            self.ran.append("send_message")
            return city

        @tool(effect="idempotent")
        async def store_message(city: str) -> str:
            """Stores a message."""
            self.ran.append("store_message")
            return city

        @tool(effect="read", status="disabled")
        async def list_parcels(city: str) -> str:
            """Lists parcels."""
            self.ran.append("list_parcels")
            return city

        config = {"policies": {**policies, "rules": list(rules)}}
        functions = [get_weather, send_message, store_message, list_parcels, *more]
        self.tools = AdvancedToolProcessor(functions, config)
        self.tools.monitor.subscribe(self.events.append)

    async def run(self, name, **arguments):
        return await self.tools.execute(name, arguments, session=ToolSession("ana"))


SAID = "There is no tool 'get_wether'; the similar tool 'get_weather' was run instead."


async def test_the_closest_tool_runs_and_the_answer_says_so_and_it_is_counted():
    house = House(**READ)
    result = await house.run("get_wether", city="Rome")
    assert result.to_response() == {
        "status": "ok",
        "result": "Rome",
        "message": SAID,
        "retryable": False,
    }
    assert [event.kind.value for event in house.events] == [
        "tool_start",
        "tool_fallback",
        "tool_complete",
    ]
    recoveries = house.tools.monitor.metrics()["system"]["recoveries"]
    assert recoveries == {"similar_tool": {"unknown_tool": {"tried": 1, "succeeded": 1}}}


async def test_on_a_stream_the_answer_carries_the_name_that_was_called():
    house = House(**READ)
    heard = await play(house.tools, [call("get_wether", {"city": "Rome"}, id="1")])
    ((id_, name, body),) = heard.answers
    assert (id_, name, body["status"], body["message"]) == ("1", "get_wether", "ok", SAID)


async def test_in_a_turn_it_runs_too():
    house = House(**READ)
    (result,) = await house.tools.execute_turn([("get_wether", {"city": "Rome"})])
    assert result.message == SAID


REFUSED = {
    "a side effect": ("send_mesage", {"city": "Rome"}),
    "a change": ("store_mesage", {"city": "Rome"}),
    "switched off": ("list_parcel", {"city": "Rome"}),
    "arguments of another type": ("get_wether", {"city": 7}),
    "arguments to be coerced": ("get_wether", {"city": "Rome", "days": "2"}),
    "an argument that is missing": ("get_wether", {}),
    "an unknown argument": ("get_wether", {"city": "Rome", "planet": "Mars"}),
    "too large arguments": ("get_wether", {"city": "x" * 2_000_000}),
    "another tool": ("get_whether_report", {"city": "Rome"}),
    "nothing": ("", {}),
    "a very long name": ("get_weather" * 1000, {"city": "Rome"}),
}


@pytest.mark.parametrize(("name", "arguments"), REFUSED.values(), ids=REFUSED)
async def test_in_doubt_nothing_runs(name, arguments):
    house = House(**READ)
    result = await house.run(name, **arguments)
    assert (result.status, result.reason_code, house.ran) == ("not_found", "unknown_tool", [])


@pytest.mark.parametrize("policies", [{}, {"similar_tool": "off"}, {"similar_tool": False}])
async def test_it_is_off_unless_the_settings_say_otherwise(policies):
    house = House(**policies)
    assert (await house.run("get_wether", city="Rome")).status == "not_found"
    assert house.ran == []


async def test_a_name_that_is_only_suggested_is_not_counted_as_tried():
    house = House()
    result = await house.run("get_wether", city="Rome")
    assert result.valid_options == ["get_weather"]
    assert house.tools.monitor.metrics()["system"]["recoveries"] == {}
    assert [event.kind.value for event in house.events] == ["tool_error"]


@pytest.mark.parametrize(("decide", "status"), [("deny", "denied"), ("ask", "pending_approval")])
async def test_the_rules_of_the_tool_that_runs_hold_also_for_an_autonomous_call(decide, status):
    house = House(rules=[{"name": "no", "tools": "get_weather", "decide": decide}], **READ)
    arguments = {"city": "Rome"}
    result = await house.tools.execute(
        "get_wether", arguments, session=ToolSession("ana"), autonomous=True
    )
    assert (result.status, house.ran) == (status, [])


@pytest.mark.parametrize(
    ("name", "names", "found"),
    [
        ("getWeather", ["get_weather"], "get_weather"),
        ("get_waether", ["get_weather", "get_water_level"], "get_weather"),
        ("get_usr", ["get_user", "get_users"], None),
        ("get_report_2024", ["get_report_2025"], None),
        ("unlock_door", ["lock_door"], None),
        ("disable_alarm", ["enable_alarm"], None),
        ("get", ["set"], None),
        ("set_status", ["get_status"], None),
        ("", ["a"], None),
        ("__", ["-"], None),
        ("get_weather2", ["get_weather"], None),
    ],
)
def test_only_a_name_that_can_mean_one_tool_only_is_taken_for_it(name, names, found):
    assert clearly_closest(name, names) == found
