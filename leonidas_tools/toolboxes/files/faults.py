"""The errors of the file system, for the model."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping

from leonidas_tools.errors import ToolError
from leonidas_tools.files.beneath import NotRegularError, OutsideError
from leonidas_tools.results.texts import say

_MEANINGS: Mapping[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "no_such_file"),
    errno.ENOTDIR: ("not_found", "not_a_directory"),
    errno.EISDIR: ("failed", "is_a_directory"),
    errno.EACCES: ("denied", "no_permission"),
    errno.EPERM: ("denied", "no_permission"),
    errno.EROFS: ("denied", "read_only"),
    errno.ELOOP: ("denied", "link_loop"),
    errno.ENOSPC: ("failed", "no_space"),
    errno.EDQUOT: ("failed", "no_space"),
    errno.EFBIG: ("failed", "no_space"),
    errno.ENAMETOOLONG: ("invalid_argument", "name_too_long"),
    errno.EINVAL: ("invalid_argument", "no_such_name"),
}
"""Status and reason code by `errno`; each reason code is also the key of a text."""


@contextlib.contextmanager
def convert_errors(path: str) -> Iterator[None]:
    """Convert `OSError` into errors for the model.

    Args:
        path: The path that the model has given.
    """
    try:
        yield
    except OutsideError as error:
        message = say("outside_roots", path=path)
        raise ToolError(message, status="denied", reason_code="outside_roots") from error
    except NotRegularError as error:
        if error.kind == "directory":
            said, code = say("is_a_directory", path=path), "is_a_directory"
        else:
            said, code = say("not_a_file", path=path, kind=error.kind), "not_a_file"
        raise ToolError(said, reason_code=code) from error
    except OSError as error:
        status, code = _MEANINGS.get(error.errno or 0, ("failed", "file_error"))
        values = {"reason": error.strerror or str(error)} if code == "file_error" else {}
        said = say(code, path=path, **values)
        raise ToolError(said, status=status, reason_code=code) from error
