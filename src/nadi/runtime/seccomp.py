"""The filter that takes from a process every call to the system but those for memory, its clock and the files it has open (Linux).

A program for the kernel's packet filter: eight bytes an instruction. What is not on the list fails with EPERM: no file, socket, process or signal.
"""

from __future__ import annotations

import struct

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the latter: error number 1, EPERM
_NUMBER_AT, _MACHINE_AT, _PROTECTION_AT = 0, 4, 32  # in `struct seccomp_data`
_EXECUTABLE = 4

_CALLS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    # the kernel's name of the machine, mmap, then read, write, munmap, brk, rt_sigprocmask, rt_sigreturn, sched_yield, mremap, madvise, setitimer, exit,
    # gettimeofday, futex, clock_gettime, exit_group
    "x86_64": (0xC000003E, 9, (0, 1, 11, 12, 14, 15, 24, 25, 28, 38, 60, 96, 202, 228, 231)),
    "aarch64": (0xC00000B7, 222, (63, 64, 215, 214, 135, 139, 124, 216, 233, 103, 93, 169, 98, 113, 94)),
}


def machines() -> tuple[str, ...]:
    """The machines for which there is a filter, as `platform.machine()` names them."""
    return tuple(_CALLS)


def system_filter(machine: str) -> bytes:
    """The program for a machine; memory can be had, but none that could be executed.

    >>> len(system_filter("x86_64")) // 8
    24
    """
    architecture, mmap, allowed = _CALLS[machine]
    program = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER_AT),
        *((_EQUAL, len(allowed) - place + 3, 0, number) for place, number in enumerate(allowed)),
        (_EQUAL, 0, 2, mmap),
        (_LOAD, 0, 0, _PROTECTION_AT),
        (_ANY_BIT, 0, 1, _EXECUTABLE),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
