"""The seccomp filter: the system calls that a program in a sandbox must not make."""

from __future__ import annotations

import errno
import socket
import stat
import tempfile
from typing import Any

_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""The flags of `clone` that create namespaces."""
_DENIED = """
    acct add_key adjtimex bpf clock_adjtime clock_settime create_module delete_module fanotify_init
    finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module io_uring_enter
    io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
    lookup_dcookie mbind migrate_pages mount mount_setattr move_mount move_pages name_to_handle_at
    nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise
    process_vm_readv process_vm_writev ptrace query_module quotactl quotactl_fd reboot request_key
    set_mempolicy setdomainname sethostname setns settimeofday stime swapoff swapon sysfs syslog
    umount umount2 unshare uselib userfaultfd ustat vhangup vm86 vm86old
""".split()  # noqa: SIM905 - a list of eighty strings is no easier to read
_OUTSIDE = "mq_open mq_unlink msgget semget shmget".split()  # noqa: SIM905
"""System calls that reach other processes if there are no namespaces."""
_OF_OTHERS = ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam")
"""System calls that change another process of the same user if there are no namespaces."""
_ATTRIBUTES = """
    chmod chown fchmod fchmodat fchmodat2 fchown fchownat fremovexattr fsetxattr futimesat lchown
    lremovexattr lsetxattr removexattr setxattr utime utimensat utimes
""".split()  # noqa: SIM905
"""System calls that Landlock does not restrict: the filter makes them succeed without effect."""

_CHANGING_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""System calls that change the mode of a file, with the position of the mode."""


def filter_code(*, namespaces: bool, network: bool) -> bytes:
    """Return the filter as a BPF program for the kernel.

    Raises:
        ImportError: pyseccomp is missing.
        OSError: The filter cannot be made on this system.
    """
    import pyseccomp  # type: ignore[import-untyped,unused-ignore]  # an extra

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refuse, nothing = pyseccomp.ERRNO(errno.EPERM), pyseccomp.ERRNO(0)
    for name in [*_DENIED, *([] if namespaces else _OUTSIDE)]:
        _add(rules, refuse, name)
    for flag in _NAMESPACES:
        _add(rules, refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    # A filter cannot read the flags of `clone3` in memory; the C library falls back to `clone`.
    _add(rules, pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    if namespaces:
        _restrict_modes(pyseccomp, rules)
    else:
        for name in _ATTRIBUTES:
            _add(rules, nothing, name)
        for name in _OF_OTHERS:
            _add(rules, refuse, name, pyseccomp.Arg(0, pyseccomp.GT, 0))
        for name in ("setpriority", "ioprio_set"):
            _add(rules, refuse, name, pyseccomp.Arg(1, pyseccomp.GT, 0))
    _restrict_sockets(pyseccomp, rules, namespaces=namespaces, network=network)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _restrict_modes(pyseccomp: Any, rules: Any) -> None:
    """Refuse files that run with the rights of our user outside, for any user of this machine."""
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for name, position in _CHANGING_MODES.items():
            given = pyseccomp.Arg(position, pyseccomp.MASKED_EQ, bit, bit)
            _add(rules, pyseccomp.ERRNO(errno.EPERM), name, given)


def _restrict_sockets(pyseccomp: Any, rules: Any, *, namespaces: bool, network: bool) -> None:
    """Allow only the address families needed; without namespaces, refuse Unix sockets too."""
    allowed = {socket.AF_UNIX} if namespaces else set()
    if namespaces or network:
        allowed |= {socket.AF_INET, socket.AF_INET6}
    last = int(socket.AF_INET6)
    refuse = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(last + 1)) - allowed:
        _add(rules, refuse, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    _add(rules, refuse, "socket", pyseccomp.Arg(0, pyseccomp.GT, last))


def _add(rules: Any, action: int, name: str, *arguments: Any) -> None:
    """Add a rule, unless this architecture has no such system call."""
    import pyseccomp

    try:
        number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    except ValueError:
        return
    if number >= 0:
        rules.add_rule(action, name, *arguments)
