"""A tool asks by default if its name or its server says that a call cannot be taken back."""

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool
from leonidas_tools.rules.risky import moves, risky_word
from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.option_sources import effective
from leonidas_tools.tools.metadata import ToolOrigin

RISKY = [
    "delete_file", "deleteFile", "files.remove", "remove", "mail__send_message", "gmail-send",
    "HTTPSend", "drop_table", "bulk_erase", "wipe_disk", "purgeCache", "pay", "pay_invoice",
    "transfer_money", "buy_ticket", "purchase", "apagar_nota", "apaga_nota", "excluir_tudo",
    "enviar_mensagem", "pagar_fatura", "borrar_archivo", "enviar_correo", "comprar",
    "deletes_file", "sends", "removingFile", "paying_bill",
]  # fmt: skip
PLAIN = [
    "get_weather", "sender_of", "payload", "payments", "dropdown", "raindrops", "list_transfers",
    "repay_rate", "buyer", "undelete", "create_note", "cancel_reminder", "forget",
    "deleted_items", "set_speech_rate", "think", "suspend", "resend_rate_of", "moves", "weather",
    "get_purchases", "on_sending", "removed_items",
]  # fmt: skip


@pytest.mark.parametrize("name", RISKY)
def test_risky_names_are_found(name):
    assert risky_word(name)


@pytest.mark.parametrize("name", PLAIN)
def test_other_names_are_not(name):
    assert risky_word(name) is None
    assert not moves(name)


def named(name, **options):
    return Tool.from_json_schema(
        name=name,
        description="Does it.",
        parameters={"type": "object", "properties": {"files": {"type": "array"}}},
        function=lambda **_: "done",
        **options,
    )


MAIL = ToolOrigin(server="send-grid", tool="get_templates")


@pytest.mark.parametrize(
    ("tool", "config", "status"),
    [
        (named("send_mail"), {}, "pending_approval"),
        (named("send_mail", effect="idempotent"), {}, "pending_approval"),
        (named("send_mail", effect="read"), {}, "ok"),
        (named("send_mail", requires_approval=False), {}, "ok"),
        (named("send_mail"), {"tools": {"send_mail": {"requires_approval": False}}}, "ok"),
        (named("send_mail"), {"tools": {"send_mail": {"effect": "read"}}}, "ok"),
        (named("send_mail"), {"policies": {"risky": "allow"}}, "ok"),
        (named("send_mail"), {"policies": {"mode": "autonomous"}}, "ok"),
        (
            named("send_mail"),
            {"policies": {"rules": [{"name": "ok", "tools": "send_mail", "decide": "allow"}]}},
            "ok",
        ),
        (
            named("send_mail", requires_approval=True),
            {"policies": {"risky": "allow"}},
            "pending_approval",
        ),
        (named("tidy", destructive=True), {}, "pending_approval"),
        (named("tidy", destructive=True, effect="read"), {}, "ok"),
        (named("tidy", destructive=True), {"policies": {"risky": "allow"}}, "ok"),
        (named("tidy"), {}, "ok"),
        (named("send-grid__get_templates", category="mcp", origin=MAIL), {}, "ok"),
        (
            named("tidy", category="mcp", origin=ToolOrigin(server="m", tool="send_mail")),
            {},
            "pending_approval",
        ),
    ],
)
async def test_a_risky_tool_asks_unless_it_or_the_settings_say_otherwise(tool, config, status):
    tools = AdvancedToolProcessor([tool], config, builtin_tools=False)
    assert (await tools.execute(tool.name)).status == status


@pytest.mark.parametrize(("count", "status"), [(10, "ok"), (11, "pending_approval")])
async def test_a_move_of_many_things_asks(count, status):
    tools = AdvancedToolProcessor([named("move_files")], builtin_tools=False)
    files = {"files": [f"{number}.txt" for number in range(count)]}
    assert (await tools.execute("move_files", files)).status == status
    allowed = AdvancedToolProcessor(
        [named("move_files")], {"policies": {"risky": "allow"}}, builtin_tools=False
    )
    assert (await allowed.execute("move_files", files)).ok


def test_the_source_says_why_it_asks():
    values = {each.name: each for each in effective(named("send_mail"), Settings())}
    asks = values["requires_approval"]
    assert (asks.value, asks.note) == (True, "risky name 'send'")
    assert values["approval"].value == "asks first"
    allowed = Settings(policies={"risky": "allow"})
    values = {each.name: each for each in effective(named("send_mail"), allowed)}
    assert (values["requires_approval"].value, values["approval"].value) == (False, "runs")
