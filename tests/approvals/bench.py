"""A conversation in which calls are asked about, and a person who answers."""

import asyncio

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.transcript import Transcript


class Bank:
    """Tools that ask, in one session; what they have really done stands in `sent`."""

    def __init__(self, *tools, policies=None, session=None, around=(), **options):
        self.sent = []

        @tool(requires_approval=True, retry_attempts=0)
        async def send(to: str, amount: float) -> dict:
            """Sends money."""
            self.sent.append((to, amount))
            return {"sent": amount}

        @tool(effect="read")
        async def look(account: str) -> str:
            """Looks at an account."""
            self.sent.append(("look", account))
            return account

        config = {"policies": policies or {}, **options.pop("config", {})}
        self.tools = AdvancedToolProcessor(
            tools=[send, look, *tools],
            config=config,
            policies=around,
            builtin_tools=False,
            **options,
        )
        self.events = []
        self.tools.monitor.subscribe(self.events.append)
        self.session = session or ToolSession("bank")
        self.approvals = self.session.get(Approvals)
        self.transcript = self.session.get(Transcript)

    async def call(self, name, /, **arguments):
        return await self.tools.execute(name, arguments, session=self.session)

    def start(self, name, /, **arguments):
        return asyncio.create_task(self.call(name, **arguments))

    async def ask(self, to="Ana", amount=20):
        """A call that is asked about; returns the id of the question."""
        result = await self.call("send", to=to, amount=amount)
        assert result.status == "pending_approval", result
        return result.result["approval_id"]

    def put(self, approval_id=None):
        """The model asks a question, that of the id or the oldest; or says something else."""
        requests = self.approvals.pending()
        request = next((r for r in requests if r.id == approval_id), None)
        asked = request or next(iter(requests), None)
        self.transcript.model_spoke(asked.title if asked else "What can I do?")
        self.transcript.turn_ended()

    def answer(self, words, approval_id=None):
        """The model asks a question, and the user answers it."""
        self.put(approval_id)
        self.transcript.user_said(words)
        self.transcript.turn_ended()

    def hears(self, model, user):
        """The model says something, and the user answers."""
        self.transcript.model_spoke(model)
        self.transcript.turn_ended()
        self.transcript.user_said(user)
        self.transcript.turn_ended()

    async def confirm(self, approval_id, decision="yes", **more):
        return await self.call("confirm_action", approval_id=approval_id, decision=decision, **more)

    async def until_asked(self):
        """Waits until a question is open, and returns it."""
        opened = asyncio.Event()
        unsubscribe = self.approvals.on_change(opened.set)
        async with asyncio.timeout(10):
            while not self.approvals.pending():
                opened.clear()
                await opened.wait()
        unsubscribe()
        return self.approvals.pending()[0]

    async def late_result(self, cause):
        """What has become of a call, told after `cause` was called."""
        told = asyncio.get_running_loop().create_future()
        unsubscribe = self.approvals.on_result(lambda call, result: told.set_result((call, result)))
        cause()
        async with asyncio.timeout(10):
            call, result = await told
        unsubscribe()
        return call, result

    def told(self, kind):
        return [dict(event.data) for event in self.events if event.kind == kind]
