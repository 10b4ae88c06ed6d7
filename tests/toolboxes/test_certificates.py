"""The certificates that a client trusts take 25 ms to read: not in the event loop."""

import json
import ssl
import threading

import pytest

from leonidas_tools.toolboxes.reminders.clock import deliver
from leonidas_tools.toolboxes.reminders.settings import RemindersSettings
from tests.toolboxes.test_reminders import TEA, Hook
from tests.toolboxes.test_weather import Service
from tests.toolboxes.web.servers import Service as WebService
from tests.toolboxes.web.servers import runtime


async def _weather(_):
    service = Service()
    try:
        async with service.tools() as tools:
            assert (await tools.execute("weather_query", {"city": "Lisbon"})).ok
    finally:
        service.close()


async def _webhook(_):
    with Hook() as hook:
        await deliver(TEA, RemindersSettings(desktop=False, webhook=hook.address))
    assert hook.posted == [("/hook", TEA)]


async def _search(tmp_path):
    service = WebService()
    service.gives("/search", json.dumps({"results": []}), content_type="application/json")
    settings = {"search": "searxng", "search_address": service.address}
    try:
        async with runtime(tmp_path, **settings) as tools:
            assert (await tools.execute("web_search", {"query": "bread"})).ok
    finally:
        service.close()


@pytest.mark.parametrize("calls", [_weather, _webhook, _search])
async def test_no_call_reads_the_certificates_of_the_system_in_the_event_loop(
    tmp_path, monkeypatch, calls
):
    readers, read = set(), ssl.SSLContext.load_verify_locations

    def observed(*arguments, **options):
        readers.add(threading.current_thread())
        return read(*arguments, **options)

    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))  # not the one that other tests have read
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", observed)
    await calls(tmp_path)
    assert len(readers) == 1
    assert threading.current_thread() not in readers
