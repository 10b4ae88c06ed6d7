"""A category of one's own: named by tools and settings, served by a subclass or the generic one."""

import logging

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    CategoryProcessor,
    GenericToolProcessor,
    PythonFunctionProcessor,
    ToolCategory,
    ToolRegistry,
    ToolRegistryProcessor,
    tool,
)
from leonidas_tools.errors import ConfigurationError, SchemaError
from leonidas_tools.settings.check import check_against
from leonidas_tools.settings.load import load
from tests.processors.chains import statuses
from tests.promises.faults.play import call, play


class BillingProcessor(CategoryProcessor):
    category = "billing"

    def __init__(self, tools=()):
        super().__init__(tools)
        self.claimed = []
        self.open = 0

    def recognise(self, part, intake):
        recognised = super().recognise(part, intake)
        self.claimed.append(recognised[0].name)
        assert self.open
        return recognised

    async def __aenter__(self):
        self.open += 1
        return self

    async def __aexit__(self, *error):
        self.open -= 1


@tool(category="billing", effect="read")
async def invoice() -> str:
    """Write an invoice."""
    return "invoice"


@tool(effect="read")
async def ship() -> str:
    """Ship."""
    return "shipped"


CALLS = [call("invoice", id="1"), call("ship", id="2")]


def new_tools(*tools, **options):
    return AdvancedToolProcessor(tools=tools or [invoice, ship], builtin_tools=False, **options)


async def test_the_ready_chain_takes_a_processor_of_an_own_category():
    billing = BillingProcessor()
    heard = await play(new_tools(categories=[billing]), CALLS)
    assert statuses(heard) == {"1": "ok", "2": "ok"}
    assert (billing.claimed, billing.open) == (["invoice"], 0)


async def test_settings_put_a_tool_into_a_category():
    billing = BillingProcessor()
    config = {"tools": {"ship": {"category": "Billing"}}}
    tools = new_tools(categories=[billing], config=config)
    assert statuses(await play(tools, CALLS)) == {"1": "ok", "2": "ok"}
    assert billing.claimed == ["invoice", "ship"]
    assert tools.monitor.metrics("ship")["category"] == "billing"


async def test_an_edit_of_the_category_reaches_a_tool_that_has_run():
    billing = BillingProcessor()
    tools = new_tools(categories=[billing])
    await play(tools, CALLS)
    tools.settings.update({"tools": {"ship": {"category": "billing"}}})
    await play(tools, CALLS)
    assert billing.claimed == ["invoice", "invoice", "ship"]


async def test_tools_that_a_category_brings_are_registered_and_of_it():
    billing = BillingProcessor([ship])
    tools = new_tools(invoice, categories=[billing])
    assert statuses(await play(tools, CALLS)) == {"1": "ok", "2": "ok"}
    assert billing.claimed == ["invoice", "ship"]
    assert (await tools.execute("ship")).result == "shipped"


@pytest.mark.parametrize("category", ["billing", *(each.value for each in ToolCategory)])
async def test_every_category_is_served_without_a_processor_of_its_own(category):
    one = ship.with_options(category=category)
    tools = new_tools(one, config={"tools": {"ship": {"category": category}}})
    assert statuses(await play(tools, [call("ship", id="1")])) == {"1": "ok"}


async def test_the_generic_processor_serves_what_no_other_beside_it_does():
    billing = BillingProcessor()
    chain = ToolRegistryProcessor(ToolRegistry([invoice, ship])) + (
        GenericToolProcessor() // billing // PythonFunctionProcessor()
    )
    assert statuses(await play(chain, CALLS)) == {"1": "ok", "2": "ok"}
    assert billing.claimed == ["invoice"]


def test_a_subclass_may_name_several_categories():
    class Money(CategoryProcessor):
        categories = ("Billing", ToolCategory.QUERY)

    assert Money.categories == {"billing", ToolCategory.QUERY}
    assert Money().claims(invoice)
    assert not Money().claims(ship)


@pytest.mark.parametrize("name", ["", "two words", "a" * 70, "1st", 7, None, "naïve", "a\nb"])
def test_what_cannot_be_a_category_is_refused(name):
    if name is not None:
        with pytest.raises(SchemaError, match="There is no category"):
            tool(category=name)(ship.function)
        with pytest.raises(ConfigurationError, match=r"tools\.ship\.category"):
            load({"tools": {"ship": {"category": name or "-"}}})
    with pytest.raises(ConfigurationError):
        load({"policies": {"rules": [{"name": "r", "decide": "deny", "categories": [name]}]}})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("pyton", "python"),
        ("actoin", "action"),
        ("Speach", "speech"),
        ("mpc", "mcp"),
        ("querry", "query"),
        ("customs", "custom"),
    ],
)
def test_a_misspelt_category_is_reported_with_the_closest(given, meant, caplog):
    with caplog.at_level(logging.WARNING, "leonidas_tools"):
        registry = ToolRegistry([ship.with_options(category=given)])
    assert f"did you mean {meant!r}?" in caplog.text
    settings = load({"tools": {"ship": {"category": given}}})
    (finding,) = check_against(settings, registry.by_name)
    assert (finding.severity, finding.key) == ("warning", "tools.ship.category")
    assert f"did you mean {meant!r}?" in finding.message
    rule = {"name": "r", "decide": "deny", "categories": [given]}
    with pytest.raises(ConfigurationError, match=f"did you mean {meant!r}"):
        load({"policies": {"rules": [rule]}})


def test_an_own_category_is_not_reported_and_is_found(caplog):
    with caplog.at_level(logging.WARNING, "leonidas_tools"):
        registry = ToolRegistry([invoice, ship])
    assert caplog.text == ""
    assert registry.by_category("Billing") == [invoice]
    with pytest.raises(SchemaError, match="did you mean 'python'"):
        registry.by_category("pyton")
    with pytest.raises(SchemaError, match="choose one of "):
        registry.by_category("payroll")


@pytest.mark.parametrize("categories", ["billing", ["billing"], "python"])
async def test_rules_are_about_the_category_of_a_tool_and_of_its_settings(categories):
    rule = {"name": "no", "decide": "deny", "categories": categories}
    config = {"policies": {"rules": [rule]}, "tools": {"ship": {"category": "billing"}}}
    assert (await new_tools(config=config).execute("ship")).status == "denied"


@pytest.mark.parametrize("wrong", ["billing", BillingProcessor, [BillingProcessor], [ship], None])
def test_categories_of_a_wrong_type_are_refused_at_once(wrong):
    with pytest.raises(TypeError, match="category processor"):
        new_tools(categories=wrong)
