"""The tools that exist, by their own names and by those they are declared with."""

import logging

import pytest

from leonidas_tools import Tool, ToolCategory, ToolRegistry, ToolStatus, tool
from leonidas_tools.errors import DuplicateToolError, SchemaError, ToolNotFoundError


@tool(tags=["maths"])
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool(category="data", status="maintenance")
def look_up(key: str) -> str:
    """Looks something up, such as a sum."""
    return key


def named(name):
    return Tool.from_json_schema(name=name, parameters={"type": "object"}, function=lambda: None)


def names(tools):
    return [one.name for one in tools]


def test_tools_and_functions_are_registered_in_order():
    def plain() -> None:
        """Does nothing."""

    registry = ToolRegistry([look_up, plain])
    assert registry.register(add) is add
    assert names(registry) == ["look_up", "plain", "add"]
    assert len(registry) == 3
    assert "plain" in registry
    assert "other" not in registry
    assert registry["add"] is add
    assert registry.get("add") is registry.by_name["add"] is add
    assert registry.get("other") is None


def test_registering_decorates():
    registry = ToolRegistry()

    @registry.register
    def now() -> str:
        return "noon"

    assert now() == "noon"
    assert names(registry) == ["now"]


def test_options_change_what_is_registered():
    registry = ToolRegistry()
    registry.register(add, name="sum", category="system", timeout_seconds=3)
    metadata = registry["sum"].metadata
    assert (metadata.category, metadata.timeout_seconds) == (ToolCategory.SYSTEM, 3)
    assert add.name == "add"


@pytest.mark.parametrize("thing", [5, "add", None, object()])
def test_what_is_no_tool_is_refused(thing):
    registry = ToolRegistry()
    with pytest.raises(SchemaError, match="not a tool"):
        registry.register(thing)
    assert len(registry) == 0


def test_a_second_registration_of_a_name_is_an_error_and_changes_nothing():
    registry = ToolRegistry([add])
    with pytest.raises(DuplicateToolError, match="'add'"):
        registry.register(named("add"))
    assert registry["add"] is add


def test_a_users_tool_replaces_a_builtin_whichever_comes_first(caplog):
    caplog.set_level(logging.INFO)
    own = named("add")
    registry = ToolRegistry()
    registry.register(add, builtin=True)
    registry.register(own)
    assert registry["add"] is own
    with pytest.raises(DuplicateToolError):
        registry.register(add)
    other = ToolRegistry([own])
    assert other.register(add, builtin=True) is own
    assert other["add"] is own
    assert caplog.text.count("'add'") == 2


def test_two_builtins_of_a_name_are_an_error():
    registry = ToolRegistry()
    registry.register(add, builtin=True)
    with pytest.raises(DuplicateToolError):
        registry.register(named("add"), builtin=True)


def test_an_unregistered_tool_is_gone_and_its_name_free():
    registry = ToolRegistry([add])
    assert registry.unregister("add") is add
    assert (len(registry), registry.find("add"), registry.suggestions("add")) == (0, None, [])
    registry.register(named("add"))
    assert registry.find("add") is registry["add"]


@pytest.mark.parametrize("use", [ToolRegistry.__getitem__, ToolRegistry.unregister])
def test_a_name_that_is_not_there_is_answered_with_the_closest(use):
    with pytest.raises(ToolNotFoundError, match="did you mean 'look_up'") as caught:
        use(ToolRegistry([add, look_up]), "lok_up")
    assert caught.value.suggestions == ("look_up",)


def test_tools_are_found_by_category_and_status():
    registry = ToolRegistry([add, look_up])
    assert names(registry.by_category("data")) == names(registry.by_category("DATA")) == ["look_up"]
    assert names(registry.by_category(ToolCategory.PYTHON)) == ["add"]
    assert names(registry.by_status("maintenance")) == ["look_up"]
    assert names(registry.by_status(ToolStatus.ACTIVE)) == ["add"]
    with pytest.raises(SchemaError, match="'python'"):
        registry.by_category("pyton")


def test_a_status_can_be_changed():
    registry = ToolRegistry([add])
    changed = registry.set_status("add", "disabled")
    assert registry["add"] is changed
    assert registry["add"].metadata.status is ToolStatus.DISABLED
    assert add.metadata.status is ToolStatus.ACTIVE
    with pytest.raises(ToolNotFoundError):
        registry.set_status("other", "active")


def test_search_looks_at_names_first_then_tags_then_descriptions():
    by_tag = named("count").with_options(tags=["sum"])
    registry = ToolRegistry([look_up, by_tag, named("sum_up"), named("other")])
    assert names(registry.search("SUM")) == ["sum_up", "count", "look_up"]
    assert names(registry.search("sum", limit=1)) == ["sum_up"]
    assert registry.search("nothing like it") == []
    assert registry.search("") == []


def test_suggestions_are_declared_names_best_first():
    registry = ToolRegistry([named("get weather"), named("get_whether"), named("other")])
    assert registry.suggestions("get_weather")[0] == "get_weather"
    assert registry.suggestions("get_weather", limit=1) == ["get_weather"]
    assert registry.suggestions("zzz") == []


def test_names_that_gemini_refuses_are_declared_otherwise_and_found_by_both():
    registry = ToolRegistry([named("wetter/heute"), named("a.b-c_d")])
    assert registry.declared_name("wetter/heute") == "wetter_heute"
    assert registry.declared_name("a.b-c_d") == "a.b-c_d"
    assert registry.find("wetter_heute") is registry.find("wetter/heute")
    assert registry.find("wetter_heute") is registry["wetter/heute"]


def test_declared_names_are_unique_and_never_change():
    registry = ToolRegistry([named("a/b")])
    first = registry.declared_name("a/b")
    registry.register(named("a b"))
    registry.register(named("a_b"))
    declared = {name: registry.declared_name(name) for name in ("a/b", "a b", "a_b")}
    assert declared["a/b"] == first == "a_b"
    assert len(set(declared.values())) == 3
    for name, legal in declared.items():
        assert registry.find(legal) is registry[name]
    registry.replace(named("a/b"))
    registry.unregister("a b")
    assert registry.declared_name("a/b") == first
    assert registry.find(declared["a b"]) is None


def test_every_change_is_reported_while_a_listener_is_subscribed():
    registry, seen = ToolRegistry(), []
    stop = registry.on_change(lambda: seen.append((len(registry), registry.generation)))
    registry.register(add)
    registry.replace(add)
    registry.set_status("add", "inactive")
    registry.unregister("add")
    stop()
    registry.register(add)
    assert seen == [(1, 1), (1, 2), (1, 3), (0, 4)]


def test_it_can_change_while_it_is_gone_through():
    registry = ToolRegistry([add, look_up])
    for one in registry:
        registry.unregister(one.name)
    assert len(registry) == 0
