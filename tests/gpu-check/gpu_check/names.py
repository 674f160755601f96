"""Kernel names: the profiler gives demangled ones, a recording has what the compiler made.

What a recording has is the name of the kernel's host stub. The host's and the device's compiler
do not spell everything alike: names are brought together in steps, each of which ignores more.
"""

import ctypes
import ctypes.util
import re
from collections import Counter
from functools import lru_cache

from . import lambdas

# nvcc names the host stub of some kernels `__device_stub__` + the kernel's own name.
DEVICE_STUB = "__device_stub__"


@lru_cache(maxsize=1)
def _libraries():
    stdcxx = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
    stdcxx.__cxa_demangle.restype = ctypes.c_void_p
    stdcxx.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    return stdcxx, libc


@lru_cache(maxsize=None)
def demangle(name):
    """The C++ name, by the function that the profiler itself uses; other names as they are.

    That function gives up on names over 1,024 characters: they stay mangled.
    """
    if not name.startswith("_Z"):
        return name
    stdcxx, libc = _libraries()
    status = ctypes.c_int()
    text = stdcxx.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        libc.free(text)


@lru_cache(maxsize=None)
def full(name):
    """The demangled name of the kernel, of its host stub too."""
    text = demangle(name)
    if text.startswith(DEVICE_STUB):
        inner = text[len(DEVICE_STUB):].split("(", 1)[0]
        # The stub's identifier is `__device_stub_` + `_Z...`: one underscore is shared.
        return demangle("_" + inner) if inner.startswith("Z") else inner
    return text


@lru_cache(maxsize=None)
def normal(name):
    """The name without what the two compilers number: lambdas, files, clones."""
    text = full(name)
    if text.startswith("_Z"):
        # Too long to demangle. The host's compiler marks internal linkage by an L before the
        # length of a name.
        return re.sub(r"L(?=\d)", "", text)
    text = re.sub(r"#\d+\}", "#}", text)
    text = re.sub(r"_GLOBAL__N__\w+", "(anonymous namespace)", text)
    text = re.sub(r"_INTERNAL_\w+::", "", text)
    return re.sub(r" \[clone [^]]*\]", "", text)


@lru_cache(maxsize=None)
def with_lambdas_by_signature(name):
    """The name with each lambda as its parameters and the function that it is written in."""
    return lambdas.plain(normal(name))


def with_lambdas_by_function(name):
    """The name with each lambda as the function that it is written in."""
    return lambdas.without_signatures(with_lambdas_by_signature(name))


# From the strictest to the most lenient; each with what it says of the names it brings together.
STEPS = (
    (full, "letter by letter"),
    (normal, "but for numbers of lambdas and files"),
    (with_lambdas_by_signature, "with lambdas by parameters and function"),
    (with_lambdas_by_function, "with lambdas by function"),
)


class Match:
    """Which kernels two sources agree on, from (name, launches) pairs of each.

    A kernel is agreed on if both have it under one name, equally often, at the first step at
    which that is so. `differences` are those left at the last step: {name: (ours, theirs)}.
    """

    def __init__(self, ours, theirs):
        self.nameless = sum(launches for name, launches in ours if name is None)
        self.agreed = {}
        ours, theirs = _sum(ours), _sum(theirs)
        self.kernels = len(theirs)
        for spell, step in STEPS:
            found, wanted = _grouped(ours, spell), _grouped(theirs, spell)
            same = {name for name in found if total(found[name]) == total(wanted.get(name, {}))}
            count = sum(len(wanted[name]) for name in same)
            if count:
                self.agreed[step] = count
            ours = _without(ours, [found[name] for name in same])
            theirs = _without(theirs, [wanted[name] for name in same])
        found, wanted = _grouped(ours, spell), _grouped(theirs, spell)
        self.differences = {
            name: (total(found.get(name, {})), total(wanted.get(name, {}))) for name in sorted(set(found) | set(wanted))
        }

    def count(self):
        """Kernels of the other source that are agreed on."""
        return sum(self.agreed.values())


def total(kernels):
    return sum(kernels.values())


def _sum(pairs):
    counts = Counter()
    for name, launches in pairs:
        if name is not None:
            counts[name] += launches
    return counts


def _grouped(counts, spell):
    """{spelled name: {name: launches}}."""
    groups = {}
    for name, launches in counts.items():
        groups.setdefault(spell(name), {})[name] = launches
    return groups


def _without(counts, groups):
    gone = {name for group in groups for name in group}
    return {name: launches for name, launches in counts.items() if name not in gone}


def short(name, limit=90):
    """A name for a table."""
    return name if len(name) <= limit else name[: limit - 1] + "…"
