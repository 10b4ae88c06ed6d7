"""Reminders are kept in the store, fire once, and reach the conversation, desktop and webhook."""

import asyncio
import http.server
import json
import logging
import math
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolRuntime, ToolSession
from leonidas_tools.errors import RegistryError
from leonidas_tools.session.notices import Notices
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from leonidas_tools.store import Store
from leonidas_tools.toolboxes.reminders import clock as reminder_clock
from leonidas_tools.toolboxes.reminders.clock import ReminderClock, deliver
from leonidas_tools.toolboxes.reminders.settings import RemindersSettings, local_zone
from leonidas_tools.toolboxes.reminders.speech import spoken_time
from tests.live.talking import Talk, outcomes_told
from tests.store.conftest import store  # noqa: F401 - a fixture
from tests.tasks import other_tasks

pytestmark = pytest.mark.slow

QUIET = RemindersSettings(desktop=False)
LISBON = ZoneInfo("Europe/Lisbon")
START = datetime(2026, 3, 4, 15, tzinfo=UTC).timestamp()
DAY = 86_400.0


@dataclass
class Host:
    """What a toolbox has of its runtime."""

    reminders: object
    notices: Notices = field(default_factory=Notices)


class Conversation:
    """A conversation that is told of reminders."""

    def __init__(self, notices, user):
        self.told = []
        self.session = ToolSession(user=user)
        self.leave = notices.join(
            self.session, lambda call, result: self.told.append(str(result.speech))
        )


@pytest.fixture
def runtime(where):
    def made(**settings):
        reminders = {"timezone": "Europe/Lisbon", "desktop": False, **settings}
        return ToolRuntime(
            config={
                "toolboxes": [{"reminders": reminders}],
                "store": {"enabled": True, "url": where},
            }
        )

    return made


async def said(tools, session, name, **arguments):
    return (await tools.execute(name, arguments, session=session)).to_response()


async def put(store, title="tea", *, user="ana", start=START, rrule=""):  # noqa: F811
    return await store.reminders.create(
        user, title=title, message="", zone="Europe/Lisbon", start=start, rrule=rrule
    )


async def test_a_reminder_is_set_listed_snoozed_and_cancelled(runtime):
    ana = ToolSession(user="ana")
    async with runtime() as tools:
        empty = await said(tools, ana, "list_reminders")
        assert (empty["status"], empty["speech"]) == ("no_results", "There are no reminders.")
        made = await said(
            tools, ana, "system_reminder", title="Dentist", datetime="2199-12-30T08:00"
        )
        assert made["speech"] == (
            "I will remind you on Monday, December 30, 2199 at 8:00 in the morning: Dentist."
        )
        assert made["result"]["due"] == "2199-12-30T08:00:00+00:00"
        await said(
            tools, ana, "system_reminder", title="Pills", datetime="todos os dias às 8", message="2"
        )
        listed = await said(tools, ana, "list_reminders")
        pills, dentist = listed["result"]["reminders"]
        assert (pills["repeats"], dentist["repeats"]) == ("FREQ=DAILY", None)
        assert listed["speech"].startswith("There are 2 reminders: Pills, to")
    async with runtime() as tools:
        ana = ToolSession(user="ana")
        later = await said(
            tools, ana, "snooze_reminder", reminder_id=dentist["id"], until="2199-12-31T09:30"
        )
        assert (
            "remind you again on Tuesday, December 31, 2199 at 9:30 in the morning"
            in later["speech"]
        )
        gone = await said(tools, ana, "cancel_reminder", reminder_id=pills["id"])
        assert gone["speech"] == "I will not remind you of this any more: Pills."
        listed = await said(tools, ana, "list_reminders")
        assert [each["due"] for each in listed["result"]["reminders"]] == [
            "2199-12-31T09:30:00+00:00"
        ]


CONFIRMED = [
    ("January 7 2199 at 3", "on Monday, January 7, 2199 at 3:00 in the afternoon"),
    ("7 de janeiro de 2199 às 3", "segunda-feira, 7 de janeiro de 2199, às 3:00 da tarde"),
    ("no dia 7 de janeiro de 2199 à 1", "segunda-feira, 7 de janeiro de 2199, à 1:00 da tarde"),
    ("2199年1月7日三点", "2199年1月7日星期一下午3:00"),
    ("2199年1月7日晚上八點半", "2199年1月7日星期一晚上8:30"),
]


@pytest.mark.parametrize(("phrase", "when"), CONFIRMED)
async def test_a_confirmation_is_in_the_language_of_the_phrase(runtime, phrase, when):
    ana = ToolSession(user="ana")
    async with runtime() as tools:
        made = await said(tools, ana, "system_reminder", title="Ana", datetime=phrase)
        assert when in made["speech"]
        later = await said(
            tools, ana, "snooze_reminder", reminder_id=made["result"]["id"], until=phrase
        )
        assert when in later["speech"]


def test_near_days_are_spoken_as_such():
    for language, today, tomorrow in (
        ("en", "today at 11:30 at night", "tomorrow at 12:00 at night"),
        ("pt", "hoje às 11:30 da noite", "amanhã às 12:00 da madrugada"),
        ("zh", "今天晚上11:30", "明天凌晨12:00"),
    ):
        now = datetime(2026, 3, 4, 15, tzinfo=LISBON)
        late, midnight = now.replace(hour=23, minute=30), datetime(2026, 3, 5, tzinfo=LISBON)
        assert spoken_time(late, now, LISBON, language) == today
        assert spoken_time(midnight, now, LISBON, language) == tomorrow


WRONG = [
    ({"datetime": "soon"}, "unreadable_time"),
    ({"datetime": "2000-01-01"}, "past_time"),
    ({"datetime": "tomorrow", "repeat": "sometimes"}, "unreadable_repeat"),
    ({"datetime": "tomorrow", "repeat": "FREQ=SECONDLY"}, "unreadable_repeat"),
    ({"datetime": "every day at 8", "repeat": "weekly"}, "unreadable_repeat"),
    (
        {"datetime": "tomorrow", "repeat": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"},
        "unreadable_repeat",
    ),
    ({"datetime": "tomorrow", "title": " \x00 "}, "blank_reminder"),
    ({"datetime": "t" * 201}, "out_of_range"),
    ({"datetime": "tomorrow", "title": "t" * 201}, "out_of_range"),
]


async def test_what_is_wrong_is_refused_with_what_to_do(runtime):
    async with runtime() as tools:
        for arguments, code in WRONG:
            answer = await said(tools, None, "system_reminder", **{"title": "x", **arguments})
            assert answer["status"] == "invalid_argument", arguments
            assert answer["reason_code"] == code, arguments
        assert (await said(tools, None, "list_reminders"))["status"] == "no_results"


async def test_a_user_never_sees_cancels_or_snoozes_the_reminders_of_another(runtime):
    users = [ToolSession(user=name) for name in ("ana", "ben", None, "local", "")]
    async with runtime() as tools:
        for number, session in enumerate(users):
            await said(tools, session, "system_reminder", title=str(number), datetime="tomorrow")
        for number, session in enumerate(users):
            listed = (await said(tools, session, "list_reminders"))["result"]["reminders"]
            assert [each["title"] for each in listed] == [str(number)]
            for other in users:
                if other is not session:
                    for name in ("cancel_reminder", "snooze_reminder"):
                        answer = await said(tools, other, name, reminder_id=listed[0]["id"])
                        assert answer["status"] == "not_found"


async def test_without_a_store_reminders_are_unavailable():
    async with ToolRuntime(config={"toolboxes": ["reminders"]}) as tools:
        answer = await said(tools, None, "system_reminder", title="x", datetime="tomorrow")
    assert (answer["status"], answer["reason_code"]) == ("unavailable", "no_store")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"timezone": "Europe/Lisboa"}, "'Europe/Lisboa' is not a time zone"),
        ({"timezone": "../../etc/passwd"}, "is not a time zone"),
        ({"webhook": "file:///etc/passwd"}, "is not an HTTP URL"),
        ({"webhok": "x"}, "did you mean 'webhook'"),
        ({"webhook_timeout": "soon"}, "is not a duration"),
    ],
)
def test_wrong_settings_are_refused(settings, says):
    with pytest.raises(RegistryError, match=says):
        ToolRuntime(config={"toolboxes": [{"reminders": settings}]})


# --- firing ------------------------------------------------------------------------------------


async def test_a_reminder_fires_once_and_reaches_its_user_alone(store):  # noqa: F811
    host = Host(store.reminders)
    ana, ben = Conversation(host.notices, "ana"), Conversation(host.notices, "ben")
    clock = ReminderClock(QUIET, host, store.reminders, lambda: START + 1)
    await put(store)
    await clock.look()
    await clock.look()
    assert (ana.told, ben.told) == (["A reminder for you: tea."], [])
    assert await store.reminders.coming("ana") == []


async def test_it_does_not_fire_before_its_time(store):  # noqa: F811
    host = Host(store.reminders)
    ana = Conversation(host.notices, "ana")
    await put(store)
    await ReminderClock(QUIET, host, store.reminders, lambda: START - 1).look()
    assert ana.told == []


async def test_the_latest_conversation_of_a_user_gets_the_reminder(store):  # noqa: F811
    host = Host(store.reminders)
    first, second = Conversation(host.notices, "ana"), Conversation(host.notices, "ana")
    await put(store)
    await ReminderClock(QUIET, host, store.reminders, lambda: START).look()
    assert (first.told, len(second.told)) == ([], 1)


async def test_of_several_processes_one_fires_and_one_tells(store):  # noqa: F811
    hosts = [Host(store.reminders) for _ in range(4)]
    conversations = [Conversation(host.notices, "ana") for host in hosts]
    for number in range(5):
        await put(store, f"tea {number}")
    clocks = [ReminderClock(QUIET, host, store.reminders, lambda: START) for host in hosts]
    await asyncio.gather(*(clock.look() for clock in clocks))
    told = sorted(text for each in conversations for text in each.told)
    assert told == [f"A reminder for you: tea {number}." for number in range(5)]


async def test_missed_reminders_arrive_when_the_user_is_back_also_after_a_restart(where):
    async with Store(where) as opened:
        await put(opened)
        host = Host(opened.reminders)
        await ReminderClock(QUIET, host, opened.reminders, lambda: START).look()  # nobody is there
    async with Store(where) as opened:
        host = Host(opened.reminders)
        later = lambda: START + 2 * DAY  # noqa: E731
        ana = Conversation(host.notices, "ana")
        await ReminderClock(QUIET, host, opened.reminders, later).look()
        await ReminderClock(QUIET, host, opened.reminders, later).look()
    assert ana.told == [
        "You have missed a reminder on Wednesday, March 4 at 3:00 in the afternoon: tea."
    ]


async def test_the_clock_waits_for_a_store_that_cannot_be_reached(tmp_path):
    (tmp_path / "folder.db").mkdir()
    failed = asyncio.Event()
    logger = logging.getLogger("leonidas_tools.toolboxes.reminders.clock")
    handler = logging.Handler()
    handler.emit = lambda record: failed.set() if "paused until" in record.getMessage() else None
    logger.addHandler(handler)
    try:
        async with Store(tmp_path / "folder.db") as opened:
            clock = ReminderClock(QUIET, Host(opened.reminders), opened.reminders)
            running = asyncio.create_task(clock.run())
            await failed.wait()
            assert not running.done()
            running.cancel()
            await asyncio.wait([running])
    finally:
        logger.removeHandler(handler)


REPEATS = [
    ("", 0, None),
    ("FREQ=DAILY", 0, START + DAY),
    ("FREQ=DAILY", 10 * DAY, START + 11 * DAY),
    ("FREQ=DAILY", 30 * DAY, START + 31 * DAY - 3600),  # the clock is changed between
    ("FREQ=WEEKLY", 1, START + 7 * DAY),
    ("FREQ=HOURLY", 3600 * 1000 + 5, START + 3600 * 1001),
    ("FREQ=MINUTELY", 60 * 1_000_000, START + 60 * 1_000_001),
    ("FREQ=DAILY;COUNT=1", 0, None),
    ("FREQ=DAILY;UNTIL=20260305", 5 * DAY, None),
]


@pytest.mark.parametrize(("rule", "after", "following"), REPEATS)
async def test_after_firing_the_next_time_to_come_is_due(store, rule, after, following):  # noqa: F811
    host = Host(store.reminders)
    await put(store, rrule=rule)
    await ReminderClock(QUIET, host, store.reminders, lambda: START + after).look()
    assert [each.due for each in await store.reminders.coming("ana")] == (
        [] if following is None else [following]
    )


async def test_a_snoozed_reminder_keeps_its_rhythm(store):  # noqa: F811
    host = Host(store.reminders)
    reminder = await put(store, rrule="FREQ=DAILY")
    await store.reminders.snooze("ana", reminder.id, START + 600)
    await ReminderClock(QUIET, host, store.reminders, lambda: START + 599).look()
    assert [each.due for each in await store.reminders.coming("ana")] == [START + 600]
    await ReminderClock(QUIET, host, store.reminders, lambda: START + 601).look()
    assert [each.due for each in await store.reminders.coming("ana")] == [START + DAY]


async def test_a_delivered_reminder_can_be_snoozed_for_a_week(store):  # noqa: F811
    host = Host(store.reminders)
    Conversation(host.notices, "ana")
    reminder = await put(store)
    await ReminderClock(QUIET, host, store.reminders, lambda: START).look()
    await store.reminders.forget(0)
    assert await store.reminders.snooze("ana", reminder.id, START + 600) is not None
    await ReminderClock(QUIET, host, store.reminders, lambda: START + 600).look()
    await store.reminders.forget(math.inf)
    assert await store.reminders.read("ana", reminder.id) is None


# --- ways out ----------------------------------------------------------------------------------


class Hook:
    """A web server that takes what is posted, with a list of the statuses that it answers."""

    def __init__(self, *statuses):
        self.posted = []
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        left = list(statuses)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler):  # noqa: N805 - the server's, beside that of the hook
                body = handler.rfile.read(int(handler.headers["content-length"]))
                self.posted.append((handler.path, json.loads(body)))
                status = left.pop(0) if left else 200
                handler.send_response(status)
                handler.send_header("content-length", "0")
                handler.send_header("location", f"{handler.path}/")
                handler.end_headers()
                self._loop.call_soon_threadsafe(self._news.set)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    async def got(self):
        await self._news.wait()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


TEA = {"id": "1", "title": "tea", "message": "green", "due": "", "missed": False, "repeats": None}


@pytest.mark.parametrize(
    ("statuses", "posts"), [((200,), 1), ((500, 200), 2), ((404,), 1), ((302,), 1)]
)
async def test_a_webhook_is_posted_to_again_only_where_the_server_fails(
    monkeypatch, statuses, posts
):
    monkeypatch.setattr(reminder_clock, "_DELAY_SECONDS", 0)
    with Hook(*statuses) as hook:
        await deliver(TEA, RemindersSettings(desktop=False, webhook=hook.address))
    assert hook.posted == [("/hook", TEA)] * posts


async def test_the_address_of_a_webhook_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    with Hook() as hook:
        address = f"{hook.address}/s3cr3t-4711"
        settings = RemindersSettings(desktop=False, webhook=address)
        await deliver(TEA, settings)
    assert hook.posted == [("/hook/s3cr3t-4711", TEA)]
    assert "4711" not in caplog.text + repr(settings)


async def test_a_webhook_that_cannot_be_reached_is_logged_without_its_address(caplog, monkeypatch):
    monkeypatch.setattr(reminder_clock, "_DELAY_SECONDS", 0)
    with Hook() as hook:
        address = f"{hook.address}?token=s3cr3t-4711"
    await deliver(TEA, RemindersSettings(desktop=False, webhook=address))
    assert "The webhook of reminders cannot be reached" in caplog.text
    assert "4711" not in caplog.text


async def test_a_reminder_that_is_due_reaches_the_webhook_from_a_running_runtime(runtime):
    with Hook() as hook:
        async with runtime(webhook=hook.address) as tools:
            made = await said(tools, None, "system_reminder", title="tea", datetime="in 1 second")
            await hook.got()
    ((path, posted),) = hook.posted
    assert (path, posted["id"], posted["title"]) == ("/hook", made["result"]["id"], "tea")
    assert posted["missed"] is False


NOTIFY_SEND = """#!/bin/sh
for each in "$@"; do printf '%s\\n' "$each"; done > "$(dirname "$0")/shown"
"""


async def test_a_reminder_is_shown_on_the_desktop_as_plain_text(tmp_path, monkeypatch):
    program = tmp_path / "notify-send"
    program.write_text(NOTIFY_SEND)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("DISPLAY", ":0")
    reminder = {**TEA, "title": "--urgency=critical", "message": "<b>$(touch x)</b>"}
    await deliver(reminder, RemindersSettings())
    assert (tmp_path / "shown").read_text().splitlines() == [
        "--app-name=Leonidas",
        "--",
        "--urgency=critical",
        "&lt;b&gt;$(touch x)&lt;/b&gt;",
    ]


async def test_without_a_desktop_nothing_is_shown(tmp_path, monkeypatch, caplog):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    await deliver(TEA, RemindersSettings())
    assert caplog.text == ""


def test_the_zone_of_the_system_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("TZ", raising=False)
    link = tmp_path / "localtime"
    assert local_zone(link).key == "UTC"
    link.symlink_to("/usr/share/zoneinfo/Asia/Shanghai")
    assert local_zone(link).key == "Asia/Shanghai"
    monkeypatch.setenv("TZ", ":America/New_York")
    assert local_zone(link).key == "America/New_York"
    monkeypatch.setenv("TZ", "nowhere")
    assert local_zone(link).key == "Asia/Shanghai"


# --- conversations -----------------------------------------------------------------------------


def with_reminders(path):
    reminders = {"timezone": "Europe/Lisbon", "desktop": False}
    return AdvancedToolProcessor(
        config={
            "toolboxes": [{"reminders": reminders}],
            "store": {"enabled": True, "url": str(path)},
        }
    )


async def test_a_reminder_reaches_the_running_voice_session(tmp_path):
    async def play(session):
        await session.wait_for_input("audio")
        arguments = {"title": "tea", "datetime": "in 1 second"}
        (answer,) = await session.call(FunctionCall("system_reminder", arguments, id="c1"))
        assert answer.status == "ok"
        await session.say("I will remind you.")
        await session.turn_complete()
        await session.wait_for_input("text", containing="A reminder for you: tea.")
        await session.say("Your tea is ready.")
        await session.turn_complete()

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        talk = await Talk(simulator, with_reminders(tmp_path / "kept.db")).run()
    (told,) = outcomes_told(simulator)
    assert told["name"] == "system_reminder"
    assert told["response"]["result"]["missed"] is False
    assert "Your tea is ready." in talk.said


async def test_a_new_voice_session_gets_missed_reminders(tmp_path):
    async with Store(tmp_path / "kept.db") as opened:
        await put(opened, user=None)

    async def play(session):
        await session.wait_for_input("text", containing="You have missed a reminder")

    async with LiveSimulator(Scenario(play), speed=math.inf) as simulator:
        await Talk(simulator, with_reminders(tmp_path / "kept.db")).run()
    (told,) = outcomes_told(simulator)
    assert told["response"]["result"]["missed"] is True


async def test_changed_settings_restart_the_clock_and_closing_ends_it(tmp_path):
    before = other_tasks()
    store_settings = {"enabled": True, "url": str(tmp_path / "kept.db")}
    with Hook() as hook:
        settings = {"toolboxes": [{"reminders": {"desktop": False}}], "store": store_settings}
        async with ToolRuntime(config=settings) as tools:
            changed = [{"reminders": {"desktop": False, "webhook": hook.address}}]
            tools.settings.update({"toolboxes": changed})
            await said(tools, None, "system_reminder", title="tea", datetime="in 1 second")
            await hook.got()
            tools.settings.update({"toolboxes": []})
            assert "system_reminder" not in tools.registry
    assert len(hook.posted) == 1
    assert other_tasks() == before
