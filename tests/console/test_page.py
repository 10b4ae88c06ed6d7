"""The page of the console, in a real browser, on a console that is really served."""

import asyncio

import pytest
import pytest_asyncio

from leonidas_tools import ToolRuntime, ToolSession
from tests.console.browser import chromium
from tests.console.served import TOKEN, Desk, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")
looped = pytest_asyncio.fixture(loop_scope="module")
PAYMENT = {"to": "Ana", "amount": 50, "card": "4111-1111-1111-1111"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with chromium() as started:
        yield started


@looped
async def desk():
    return Desk()


@looped
async def console(desk):
    async with Served(ToolRuntime(desk.tools(), builtin_tools=False)) as served:
        yield served


class Screen:
    """Opens pages of one browser context, and fails for what their consoles complain of."""

    def __init__(self, context):
        self.context = context
        self.complaints = []

    async def open(self, url, *, token=TOKEN):
        page = await self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)
        await page.goto(f"{url}/#token={token}" if token else url)
        if token:
            await page.get_by_text("Connected", exact=True).wait_for()
        return page

    def _heard(self, message):
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


@looped
async def screen(browser):
    context = await browser.new_context()
    context.set_default_timeout(60_000)
    screen = Screen(context)
    yield screen
    await context.close()
    assert screen.complaints == []


def region(page, name):
    return page.get_by_role("region", name=name, exact=True)


async def asked(console, session="desk"):
    """Ask for a payment; the answer comes once a person has decided."""
    pending = await console.tools.execute("pay", PAYMENT, session=ToolSession(session))
    assert pending.status == "pending_approval"


async def test_a_payment_that_is_approved_on_the_page_is_made(console, desk, screen):
    page = await screen.open(console.url)
    await asked(console)
    questions = region(page, "Questions")
    await questions.get_by_text("Ana").first.wait_for()
    assert "4111-1111" not in await page.content()
    await questions.get_by_role("button", name="Approve").click()
    await questions.get_by_text("No question is open.").wait_for()
    await region(page, "Activity").get_by_text("tool complete").first.wait_for()
    assert desk.paid == [("Ana", 50)]


async def test_a_payment_that_is_denied_on_the_page_is_not_made(console, desk, screen):
    page = await screen.open(console.url)
    await asked(console)
    questions = region(page, "Questions")
    await questions.get_by_role("button", name="Deny").click()
    await questions.get_by_text("No question is open.").wait_for()
    await region(page, "Activity").get_by_text("approval answer").first.wait_for()
    assert desk.paid == []


async def test_a_call_that_is_cancelled_on_the_page_ends(console, desk, screen):
    page = await screen.open(console.url)
    calling = asyncio.create_task(console.tools.execute("wait", session=ToolSession("desk")))
    calls = region(page, "Running calls")
    await calls.get_by_text("halfway").wait_for()
    await calls.get_by_role("button", name="Cancel").click()
    assert (await calling).status == "cancelled"
    assert desk.stopped.is_set()
    await calls.get_by_text("No call is running.").wait_for()
