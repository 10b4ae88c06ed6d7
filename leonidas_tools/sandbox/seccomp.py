"""The seccomp filter: the system calls that a program in a sandbox must not make."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import tempfile
from typing import Any

_FIRST_UNKNOWN = 452
"""The number of the first system call that this file does not judge, of Linux 6.6."""
_DENIED = {
    "clocks": "adjtimex clock_adjtime clock_settime settimeofday stime",
    "files by handle": "name_to_handle_at open_by_handle_at",
    "kernel": "acct bpf create_module delete_module fanotify_init finit_module get_kernel_syms "
    "init_module ioperm iopl kexec_file_load kexec_load nfsservctl query_module quotactl "
    "quotactl_fd reboot setdomainname sethostname swapoff swapon sysfs syslog uselib ustat "
    "vhangup vm86 vm86old",
    "keyrings": "add_key keyctl request_key",
    "memory placement": "mbind migrate_pages move_pages set_mempolicy",
    "mounts": "fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree pivot_root "
    "umount umount2",
    "namespaces": "setns unshare",
    "other processes": "kcmp lookup_dcookie perf_event_open pidfd_getfd process_madvise "
    "process_mrelease process_vm_readv process_vm_writev ptrace",
    "rings": "io_uring_enter io_uring_register io_uring_setup userfaultfd",
}
_DENIED_WITHOUT_NAMESPACES = {
    "POSIX message queues": "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend "
    "mq_unlink",
    "System V IPC": "ipc msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl "
    "shmdt shmget",
}
_IGNORED_WITHOUT_NAMESPACES = """
    chmod chown fchmod fchmodat fchown fchownat fremovexattr fsetxattr futimesat lchown
    lremovexattr lsetxattr removexattr setxattr utime utimensat utimes
"""
"""System calls on attributes of files, which Landlock does not restrict: they do nothing."""
_OF_A_PROCESS = (
    "prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler".split()  # noqa: SIM905
)
"""System calls that change another process of the same user, unless their first argument is 0."""
_OF_PROCESSES = {"ioprio_set": 1, "setpriority": 0}
"""The same for their second argument; the first is this for a process, else for several."""
_NAMESPACE_FLAGS = (1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30)
"""The flags of `clone` that create namespaces."""
_CHANGING_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2}
"""System calls that change the mode of a file, with the position of the mode."""
_CREATING_FILES = {"creat": 1, "mknod": 1, "mknodat": 2, "open": 2, "openat": 3}
"""The same for those that create a file; the last two have a mode only with one of these flags."""
_CREATING_FLAGS = (os.O_CREAT, os.O_TMPFILE)

_SOCKET_KINDS = 16
"""The number of kinds of sockets; higher bits are flags."""
_UNKNOWN_TO_LIBSECCOMP = -1
_LOAD_NUMBER, _IF_NOT_LESS, _RETURN, _ERROR = 0x20, 0x35, 0x06, 0x00050000
_REFUSE_UNKNOWN = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (_LOAD_NUMBER, 0, 0, 0),
        (_IF_NOT_LESS, 0, 1, _FIRST_UNKNOWN),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    )
)
"""Instructions that answer an unknown system call as an older kernel would."""


def filter_code(*, namespaces: bool, network: bool) -> bytes:
    """Return the filter as a BPF program for the kernel.

    Raises:
        ImportError: pyseccomp is missing.
        OSError: The filter cannot be made on this system.
    """
    import pyseccomp  # type: ignore[import-untyped,unused-ignore]  # an extra

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refuse, nothing = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(0)
    denied = _DENIED if namespaces else _DENIED | _DENIED_WITHOUT_NAMESPACES
    for name in " ".join(denied.values()).split():
        _add(rules, refuse, name)
    for flag in _NAMESPACE_FLAGS:
        _add(rules, refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    # A filter cannot read their flags in memory; programs fall back to `clone` and `openat`.
    for name in ("clone3", "openat2"):
        _add(rules, pyseccomp.ERRNO(errno.ENOSYS), name)
    _restrict_modes(pyseccomp, rules, _CREATING_FILES)
    if namespaces:
        _restrict_modes(pyseccomp, rules, _CHANGING_MODES)
    else:
        for name in _IGNORED_WITHOUT_NAMESPACES.split():
            _add(rules, nothing, name)
        for name in _OF_A_PROCESS:
            _add(rules, refuse, name, pyseccomp.Arg(0, pyseccomp.NE, 0))
        for name, kind in _OF_PROCESSES.items():
            _add(rules, refuse, name, pyseccomp.Arg(0, pyseccomp.NE, kind))
            _add(rules, refuse, name, pyseccomp.Arg(1, pyseccomp.NE, 0))
    _restrict_sockets(pyseccomp, rules, namespaces=namespaces, network=network)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return _REFUSE_UNKNOWN + file.read()


def _restrict_modes(pyseccomp: Any, rules: Any, positions: dict[str, int]) -> None:
    """Refuse files that run with the rights of our user outside, for any user of this machine."""
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for name, position in positions.items():
            mode = pyseccomp.Arg(position, pyseccomp.MASKED_EQ, bit, bit)
            for flag in _CREATING_FLAGS if name.startswith("open") else (0,):
                flags = pyseccomp.Arg(position - 1, pyseccomp.MASKED_EQ, flag, flag)
                _add(rules, pyseccomp.ERRNO(errno.EPERM), name, mode, flags)


def _restrict_sockets(pyseccomp: Any, rules: Any, *, namespaces: bool, network: bool) -> None:
    """Allow only the address families needed.

    Unix sockets reach every process in the network namespace, so they need a separate one. Even
    without them, a pair of connected stream sockets reaches nobody else; datagrams do.
    """
    allowed = {socket.AF_UNIX} if namespaces and not network else set()
    if namespaces or network:
        allowed |= {socket.AF_INET, socket.AF_INET6}
    last = int(socket.AF_INET6)
    refuse = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(last + 1)) - allowed:
        _add(rules, refuse, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    _add(rules, refuse, "socket", pyseccomp.Arg(0, pyseccomp.GT, last))
    _add(rules, refuse, "socketpair", pyseccomp.Arg(0, pyseccomp.NE, int(socket.AF_UNIX)))
    if socket.AF_UNIX not in allowed:
        for kind in set(range(_SOCKET_KINDS)) - {socket.SOCK_STREAM, socket.SOCK_SEQPACKET}:
            masked = pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _SOCKET_KINDS - 1, kind)
            _add(rules, refuse, "socketpair", masked)


def _add(rules: Any, action: int, name: str, *arguments: Any) -> None:
    """Add a rule, unless this architecture has no such system call."""
    import pyseccomp

    number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    if number == _UNKNOWN_TO_LIBSECCOMP:
        raise OSError(f"libseccomp is too old to know {name!r}")
    if number >= 0:
        rules.add_rule(action, name, *arguments)
