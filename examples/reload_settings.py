"""Settings change while the agent runs: an edit of the file is in force within a second.

A broken file changes nothing. Run it: `python examples/reload_settings.py`
"""

import asyncio
import tempfile
from pathlib import Path

from leonidas_tools import AdvancedToolProcessor, tool


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"It is sunny in {city}."


async def until_changed(tools: AdvancedToolProcessor, file: Path, text: str) -> None:
    """Write the file as an editor would, and wait until it is in force."""
    changed = asyncio.Event()
    unsubscribe = tools.settings.on_change(lambda _: changed.set())
    file.write_text(text)
    await changed.wait()
    unsubscribe()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tools.yaml"
        file.write_text("tools: {get_weather: {timeout: 5s}}\n")
        async with AdvancedToolProcessor(tools=[get_weather], config=file) as tools:

            async def call() -> None:
                result = await tools.execute("get_weather", {"city": "Porto"})
                print(result.status.value, "-", result.result or result.message)

            await call()
            await until_changed(tools, file, "tools: {get_weather: {enabled: false}}\n")
            await call()  # switched off: the model is told, and it is declared no longer
            await until_changed(tools, file, "tools: {get_weather: {enabled: true}}\n")
            await call()
            # A program changes settings in the same way; the change is written to the file.
            tools.settings.update({"tools.get_weather.timeout": "2s"})
            print(file.read_text().strip())


if __name__ == "__main__":
    asyncio.run(main())
