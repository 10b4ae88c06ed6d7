"""The tables of the servers for Node."""

from tests.mcp.real.installing import node_server
from tests.mcp.real.tables import Like, Table, failed, missing, ok, refused

_PNG = "image/png"
_THINKING = (
    "thought",
    "nextThoughtNeeded",
    "thoughtNumber",
    "totalThoughts",
    "isRevision",
    "revisesThought",
    "branchFromThought",
    "branchId",
    "needsMoreThoughts",
)


def filesystem(place):
    root = place.folder / "files"
    root.mkdir()
    (root / "picture.png").write_bytes(b"pixels")
    (root / "data.bin").write_bytes(b"\0\1\2")
    here, poem, note = str(root), str(root / "poem.txt"), str(root / "notes" / "poem.txt")
    date = r"\w{3} \w{3} \d\d \d{4} [\d:]+ GMT[^\n]*"
    about = {"uri": f"file://{root}/data.bin", "mimeType": "application/octet-stream"}
    data = {"type": "resource", "resource": {**about, "blob": "AAEC"}}

    def said(tool, arguments, text):
        return ok(tool, arguments, {"content": text})

    return Table(
        settings={"command": "node", "args": [node_server("filesystem"), here]},
        rows=[
            said("list_allowed_directories", {}, f"Allowed directories:\n{here}"),
            said(
                "write_file",
                {"path": poem, "content": "Roses are red\nSo\n"},
                f"Successfully wrote to {poem}",
            ),
            said("read_text_file", {"path": poem, "head": 1}, "Roses are red"),
            said("read_file", {"path": poem}, "Roses are red\nSo\n"),
            said(
                "edit_file",
                {"path": poem, "edits": [{"oldText": "red", "newText": "blue"}]},
                Like(r"```diff\n.*\n-Roses are red\n\+Roses are blue\n So\n```\n\n"),
            ),
            said(
                "create_directory",
                {"path": str(root / "notes")},
                f"Successfully created directory {root / 'notes'}",
            ),
            said(
                "move_file",
                {"source": poem, "destination": note},
                f"Successfully moved {poem} to {note}",
            ),
            said("read_multiple_files", {"paths": [note]}, f"{note}:\nRoses are blue\nSo\n\n"),
            said(
                "list_directory",
                {"path": here},
                Like(r"(?=.*\[FILE\] data.bin)(?=.*\[DIR\] notes)(?=.*\[FILE\] picture.png).*"),
            ),
            said(
                "list_directory_with_sizes",
                {"path": here, "sortBy": "size"},
                Like(r".*picture.png +6 B\n.*data.bin +3 B\n.*\nCombined size: 9 B"),
            ),
            said("directory_tree", {"path": here}, Like(r'\[\n.*"name": "poem.txt".*\]')),
            said("search_files", {"path": here, "pattern": "**/*.txt"}, note),
            said(
                "get_file_info",
                {"path": note},
                Like(
                    rf"size: 18\ncreated: {date}\nmodified: {date}\naccessed: {date}\n"
                    r"isDirectory: false\nisFile: true\npermissions: \d+"
                ),
            ),
            ok(
                "read_media_file",
                {"path": str(root / "picture.png")},
                {"content": [{"type": "image", "mimeType": _PNG}]},
                _PNG,
            ),
            ok(
                "read_media_file",
                {"path": str(root / "data.bin")},
                {"content": [{"type": "resource", "resource": about}], "resources": [data]},
            ),
            failed(
                "read_text_file",
                {"path": "/etc/passwd"},
                f"Access denied - path outside allowed directories: /etc/passwd not in {here}",
            ),
            missing("write_file", {"path": poem}, "content", ["path", "content"]),
            refused(
                "list_directory_with_sizes",
                {"path": here, "sortBy": "colour"},
                '\'sortBy\' must be "name" or "size", not "colour".',
                "not_an_option",
                ["name", "size"],
                "Choose one of valid_options.",
            ),
        ],
    )


def memory(place):
    rose = {"name": "Rose", "entityType": "flower", "observations": ["red"]}
    violet = {"name": "Violet", "entityType": "flower", "observations": []}
    blue = {**violet, "observations": ["blue"]}
    link = {"from": "Rose", "to": "Violet", "relationType": "stands by"}
    return Table(
        settings={
            "command": "node",
            "args": [node_server("memory")],
            "env": {"MEMORY_FILE_PATH": str(place.folder / "memory.jsonl")},
        },
        rows=[
            ok("search_nodes", {"query": "tulip"}, {"entities": [], "relations": []}),
            ok("create_entities", {"entities": [rose, violet]}, {"entities": [rose, violet]}),
            ok("create_relations", {"relations": [link]}, {"relations": [link]}),
            ok(
                "add_observations",
                {"observations": [{"entityName": "Violet", "contents": ["blue"]}]},
                {"results": [{"entityName": "Violet", "addedObservations": ["blue"]}]},
            ),
            ok("read_graph", {}, {"entities": [rose, blue], "relations": [link]}),
            ok("search_nodes", {"query": "blue"}, {"entities": [blue], "relations": [link]}),
            ok("open_nodes", {"names": ["Rose"]}, {"entities": [rose], "relations": [link]}),
            ok(
                "delete_relations",
                {"relations": [link]},
                {"success": True, "message": "Relations deleted successfully"},
            ),
            ok(
                "delete_observations",
                {"deletions": [{"entityName": "Rose", "observations": ["red"]}]},
                {"success": True, "message": "Observations deleted successfully"},
            ),
            ok(
                "delete_entities",
                {"entityNames": ["Violet"]},
                {"success": True, "message": "Entities deleted successfully"},
            ),
            ok(
                "search_nodes",
                {"query": "flower"},
                {"entities": [{**rose, "observations": []}], "relations": []},
            ),
            failed(
                "add_observations",
                {"observations": [{"entityName": "Nobody", "contents": ["gone"]}]},
                "Entity with name Nobody not found",
            ),
            refused(
                "create_entities",
                {"entities": [{"name": "Rose", "entityType": "flower"}]},
                "'entities[0].observations' is missing.",
                "missing_argument",
                hint="Call again with 'entities[0].observations'.",
            ),
        ],
    )


def sequential_thinking(place):
    thought = {"thought": "Roses are red.", "thoughtNumber": 1, "totalThoughts": 2}
    perhaps = {**thought, "nextThoughtNeeded": "perhaps"}
    return Table(
        settings={"command": "node", "args": [node_server("sequential-thinking")]},
        rows=[
            failed(
                "sequentialthinking",
                perhaps,
                "MCP error -32602: Input validation error: Invalid arguments for tool "
                'sequentialthinking: Expected boolean or "true"/"false" string, received '
                '"perhaps" at nextThoughtNeeded',
            ),
            ok(
                "sequentialthinking",
                {**thought, "nextThoughtNeeded": True},
                {
                    "thoughtNumber": 1,
                    "totalThoughts": 2,
                    "nextThoughtNeeded": True,
                    "branches": [],
                    "thoughtHistoryLength": 1,
                },
            ),
            missing("sequentialthinking", thought, "nextThoughtNeeded", list(_THINKING)),
        ],
    )
