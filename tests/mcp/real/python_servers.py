"""The tables of the servers from PyPI."""

import subprocess
import sys

from tests.mcp.real.installing import python_of_sqlite
from tests.mcp.real.tables import Like, Table, failed, missing, ok, refused

_AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in {
        "NAME": "Ada",
        "EMAIL": "ada@example.org",
        "DATE": "1767323045 +0000",
    }.items()
}
_NOTHING_NEW = "On branch main\nnothing to commit, working tree clean"


def time(place):
    def at(clock, zone):
        return {
            "timezone": zone,
            "datetime": Like(rf"\d{{4}}-\d\d-\d\dT{clock}"),
            "day_of_week": Like("[A-Z][a-z]+day"),
            "is_dst": False,
        }

    noon = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}
    return Table(
        settings={
            "command": sys.executable,
            "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
        },
        rows=[
            ok("get_current_time", {"timezone": "Asia/Tokyo"}, at(r"[\d:]+\+09:00", "Asia/Tokyo")),
            ok(
                "convert_time",
                noon,
                {
                    "source": at(r"12:00:00\+09:00", "Asia/Tokyo"),
                    "target": at(r"03:00:00\+00:00", "UTC"),
                    "time_difference": "-9.0h",
                },
            ),
            failed(
                "get_current_time",
                {"timezone": "Mars/Olympus"},
                "Error executing tool get_current_time: Invalid timezone: "
                "'No time zone found with key Mars/Olympus'",
            ),
            refused(
                "convert_time",
                {**noon, "time": 12},
                "'time' must be a string, not 12.",
                "wrong_type",
            ),
        ],
    )


def git(place):
    repository = place.folder / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    (repository / "poem.txt").write_text("Roses are red\n")
    repo = {"repo_path": str(repository)}
    patch = "--- /dev/null\n+++ b/poem.txt\n@@ -0,0 +1 @@\n+Roses are red"
    commit = "eea6e46989459223c8612d248d856c3345febfc1"
    return Table(
        settings={
            "command": sys.executable,
            "args": ["-m", "mcp_server_git", "--repository", str(repository)],
            "env": {**_AUTHOR, "HOME": str(place.folder)},
        },
        rows=[
            ok("git_branch", {**repo, "branch_type": "remote"}, ""),
            ok("git_add", {**repo, "files": ["poem.txt"]}, "Files staged successfully"),
            ok(
                "git_diff_staged",
                repo,
                "Staged changes:\ndiff --git a/poem.txt b/poem.txt\n"
                f"new file mode 100644\nindex 0000000..b34cadf\n{patch}",
            ),
            ok(
                "git_commit",
                {**repo, "message": "Begin"},
                f"Changes committed successfully with hash {commit}",
            ),
            ok(
                "git_log",
                repo,
                f"Commit history:\nCommit: {commit}\nAuthor: Ada\n"
                "Date: 2026-01-02 03:04:05+00:00\nMessage: Begin\n",
            ),
            ok(
                "git_show",
                {**repo, "revision": "HEAD"},
                f"commit {commit}\nAuthor: Ada <ada@example.org>\n"
                f"Date:   2026-01-02 03:04:05 +0000\n\n    Begin\n\n{patch}\n",
            ),
            ok("git_status", repo, f"Repository status:\n{_NOTHING_NEW}"),
            ok(
                "git_create_branch",
                {**repo, "branch_name": "violets"},
                "Created branch 'violets' from 'main'",
            ),
            ok(
                "git_checkout",
                {**repo, "branch_name": "violets"},
                "Switched to branch 'violets'",
            ),
            ok("git_diff", {**repo, "target": "main"}, "Diff with main:\n"),
            ok("git_diff_unstaged", repo, "Unstaged changes:\n"),
            ok("git_reset", repo, "All staged changes reset"),
            failed(
                "git_show",
                {**repo, "revision": "nowhere"},
                "Error executing tool git_show: Ref 'nowhere' did not resolve to an object",
            ),
            failed(
                "git_status",
                {"repo_path": "/"},
                "Error executing tool git_status: "
                f"Repository path '/' is outside the allowed repository '{repository}'",
            ),
            refused(
                "git_add",
                {**repo, "files": "poem.txt"},
                "'files' must be an array, not \"poem.txt\".",
                "wrong_type",
            ),
            missing("git_commit", repo, "message", ["repo_path", "message"]),
        ],
    )


def fetch(place):
    page = f"{place.website}/poem.html"
    more = "Call the fetch tool with a start_index of 20 to get more content."
    return Table(
        settings={
            "command": sys.executable,
            "args": ["-m", "mcp_server_fetch", "--allow-private-ips", "--ignore-robots-txt"],
            # Where it finds Node, it fetches more with npm before it reads its first page.
            "env": {"PATH": str(place.folder)},
        },
        rows=[
            ok("fetch", {"url": page}, f"Contents of {page}:\n# Roses\n\nRoses are red."),
            ok(
                "fetch",
                {"url": page, "raw": True, "max_length": 20},
                "Content type text/html cannot be simplified to markdown, but here is the raw "
                f"content:\nContents of {page}:\n<html><body><h1>Rose\n\n"
                f"<error>Content truncated. {more}</error>",
            ),
            failed(
                "fetch",
                {"url": f"{place.website}/nowhere"},
                "Error executing tool fetch: "
                f"Failed to fetch {place.website}/nowhere - status code 404",
            ),
            refused(
                "fetch",
                {"url": page, "max_length": 0},
                "'max_length' must be at least 1, not 0.",
                "out_of_range",
            ),
        ],
    )


def fetch_as_it_comes(place):
    """Without its options it reads nothing of this machine."""
    page = f"{place.website}/poem.html"
    return Table(
        settings={"command": sys.executable, "args": ["-m", "mcp_server_fetch"]},
        rows=[
            failed(
                "fetch",
                {"url": page},
                f"Error executing tool fetch: Refused to fetch {place.website}/robots.txt: "
                "127.0.0.1 resolves to 127.0.0.1, which is not a public address. Start the server "
                "with --allow-private-ips to allow private, loopback and link-local addresses.",
            )
        ],
    )


def sqlite(place):
    """Speaks the protocol of 2025, and no other."""
    column = {"cid": 0, "name": "title", "type": "TEXT", "notnull": 0, "dflt_value": None, "pk": 0}
    return Table(
        settings={
            "command": python_of_sqlite(),
            "args": [
                "-c",
                "from mcp_server_sqlite import main; main()",
                "--db-path",
                str(place.folder / "poems.db"),
            ],
        },
        rows=[
            # Of its errors it says only in words that they are errors.
            ok(
                "read_query",
                {"query": "SELECT * FROM nowhere"},
                "Database error: no such table: nowhere",
            ),
            ok(
                "create_table",
                {"query": "CREATE TABLE poems (title TEXT)"},
                "Table created successfully",
            ),
            ok(
                "write_query",
                {"query": "INSERT INTO poems VALUES ('Roses')"},
                "[{'affected_rows': 1}]",
            ),
            ok("read_query", {"query": "SELECT * FROM poems"}, "[{'title': 'Roses'}]"),
            ok("list_tables", {}, "[{'name': 'poems'}]"),
            ok("describe_table", {"table_name": "poems"}, f"[{column}]"),
            ok("append_insight", {"insight": "Roses are red."}, "Insight added to memo"),
            missing("read_query", {"sql": "SELECT 1"}, "query", ["query"]),
        ],
    )
