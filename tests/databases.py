"""Databases for tests: files of SQLite, and a PostgreSQL server where one is installed.

`tests/conftest.py` has the fixtures, so that each process of the tests starts one server at most.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import uuid
from pathlib import Path

import pytest


def _postgres_binaries() -> Path | None:
    found = shutil.which("pg_ctl")
    if found is not None:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return installed[-1].parent if installed else None


def as_owner(*command: str) -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server on loopback, without a database's name."""
    binaries = _postgres_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path("/tmp") / f"leonidas-postgres-{uuid.uuid4().hex[:8]}"  # short, for its socket
    folder.mkdir()
    port = free_port()
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        data = str(folder / "data")
        initdb = as_owner(str(binaries / "initdb"), "-D", data, "-U", "ana", "-A", "trust", "-N")
        made = subprocess.run(initdb, capture_output=True, text=True, cwd=folder, check=False)
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot be set up here: {made.stderr.strip()[-200:]}")
        options = f"-p {port} -k {folder} -h 127.0.0.1 -F"
        control = as_owner(str(binaries / "pg_ctl"), "-D", data, "-w")
        subprocess.run(
            [*control, "-o", options, "-l", str(folder / "log"), "start"],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield f"postgresql://ana@127.0.0.1:{port}"
        finally:
            subprocess.run(
                [*control, "-m", "immediate", "stop"],
                check=True,
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "kept" / "leonidas.db"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def where(request, file):
    """A place for a store of each kind."""
    return place(request.param, request, file)


def place(kind, request, file):
    """Return a place for a store of that kind."""
    if kind == "sqlite":
        return str(file)
    server = request.getfixturevalue("postgres")
    name = f"kept_{uuid.uuid4().hex[:8]}"

    async def create() -> None:
        import asyncpg

        connection = await asyncpg.connect(f"{server}/postgres")
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return f"{server}/{name}"
