"""The table of the server that the makers of MCP test clients with."""

from tests.mcp.real.installing import node_server
from tests.mcp.real.tables import Like, Table, failed, ok, refused

_PNG = "image/png"
_CITIES = ["New York", "Chicago", "Los Angeles"]


def everything(place, **reached):
    """Over standard input and output, unless it says how else it is reached."""
    by_command = {"command": "node", "args": [node_server("everything"), "stdio"]}
    return Table(settings=reached or by_command, rows=_rows(place))


def _rows(place):
    poem = {"data": "data:text/plain,Roses%20are%20red"}
    return [
        ok("echo", {"message": "hello"}, "Echo: hello"),
        ok("get-sum", {"a": 2, "b": 40}, "The sum of 2 and 40 is 42."),
        ok(
            "get-structured-content",
            {"location": "Chicago"},
            {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82},
        ),
        ok("get-env", {}, Like(r'\{\n.*"PATH": ".*\}')),
        ok(
            "trigger-long-running-operation",
            {"duration": 0.02, "steps": 2},
            "Long running operation completed. Duration: 0.02 seconds, Steps: 2.",
        ),
        ok("toggle-simulated-logging", {}, Like("Started simulated, random-leveled logging .*")),
        ok("toggle-subscriber-updates", {}, Like("Started simulated resource updated .*")),
        ok("toggle-simulated-logging", {}, Like("Stopped simulated logging .*")),
        ok("toggle-subscriber-updates", {}, Like("Stopped simulated resource updates .*")),
        *_pictures_and_resources(poem),
        *_asking(place),
        failed(
            "get-resource-reference",
            {"resourceId": -1},
            "Invalid resourceId: -1. Must be a finite positive integer.",
        ),
        refused(
            "get-sum", {"a": "two", "b": 3}, "'a' must be a number, not \"two\".", "wrong_type"
        ),
        refused(
            "get-structured-content",
            {"location": "Lisbon"},
            '\'location\' must be "New York" or "Chicago" or "Los Angeles", not "Lisbon".',
            "not_an_option",
            _CITIES,
            "Choose one of valid_options.",
        ),
    ]


def _asking(place):
    """What asks the person while it is called."""
    page = {"url": "https://example.org/roses", "elicitationId": "roses"}
    return [
        ok(
            "trigger-elicitation-request",
            {},
            Like(".*User provided the requested information!\nUser inputs:\n- Name: Ada\n.*"),
        ),
        ok(
            "trigger-url-elicitation",
            page,
            Like(r".*completed the URL elicitation flow.\nElicitation ID: roses\n.*accept.*"),
        ),
    ]


def _pictures_and_resources(poem):
    text = "demo://resource/dynamic/text"
    return [
        ok(
            "get-tiny-image",
            {},
            "Here's the image you requested:\nThe image above is the MCP logo.",
            _PNG,
        ),
        ok(
            "get-annotated-message",
            {"messageType": "debug", "includeImage": True},
            "Debug: Cache hit ratio 0.95, latency 150ms",
            _PNG,
        ),
        ok(
            "get-resource-links",
            {"count": 1},
            {
                "text": "Here are 1 resource links to resources available in this server:",
                "resources": [
                    {
                        "type": "resource_link",
                        "uri": "demo://resource/dynamic/blob/1",
                        "name": "Blob Resource 1",
                        "description": "Resource 1: plaintext resource",
                        "mimeType": "text/plain",
                    }
                ],
            },
        ),
        ok(
            "get-resource-reference",
            {"resourceType": "Text", "resourceId": 1},
            {
                "text": "Returning resource reference for Resource 1:\n"
                f"You can access this resource using the URI: {text}/1",
                "resources": [
                    {
                        "type": "resource",
                        "resource": {
                            "uri": f"{text}/1",
                            "mimeType": "text/plain",
                            "text": Like("Resource 1: This is a plaintext resource created at .*"),
                        },
                    }
                ],
            },
        ),
        ok(
            "gzip-file-as-resource",
            {**poem, "name": "poem.gz"},
            {
                "resources": [
                    {
                        "type": "resource_link",
                        "uri": "demo://resource/session/poem.gz",
                        "name": "poem.gz",
                        "mimeType": "application/gzip",
                    }
                ]
            },
        ),
        ok(
            "gzip-file-as-resource",
            {**poem, "name": "roses.gz", "outputType": "resource"},
            {
                "resources": [
                    {
                        "type": "resource",
                        "resource": {
                            "uri": "demo://resource/session/roses.gz",
                            "mimeType": "application/gzip",
                            "blob": Like("H4sI.*"),
                        },
                    }
                ]
            },
        ),
    ]
