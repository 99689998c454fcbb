"""Power loss for `benchmarks/soak.py`: the possible states of a disk when the machine stops at a system call.

A library that is loaded first (LD_PRELOAD) stands in for `fsync`: it keeps everything that is certainly on disk, the
content of a file or the names in a folder, in a folder of its own. In a process that is armed it counts
the system calls that change files, and at the chosen one kills the whole process group, in which the
other processes are too. `Disk.lose` then gives files, sizes, pages and names that were not synced either
their old or their new state, each by itself, as POSIX allows a disk to (a removed folder stays so). Needs Linux and a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PAGE = 4096  # bytes that a disk writes at once, or not at all

CODE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long left = -1;
void power_arm(long calls) { left = calls; }
static void count(void) { if (left >= 0 && left-- == 0) kill(0, SIGKILL); }

/* an inode may be used again, with another time of birth */
void power_key(const char *path, char *key) {
    struct statx found;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &found)) *key = 0;
    else sprintf(key, "%llu-%lld-%u", (unsigned long long)found.stx_ino,
                 (long long)found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
}

static void keep(int fd) {
    char link[64], path[4096], key[64], part[4400], whole[4400], name[4400];
    const char *disk = getenv("POWER_DISK"), *place = getenv("POWER_PLACE");
    struct stat found;
    sprintf(link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!disk || !place || length < 0 || fstat(fd, &found)) return;
    path[length] = 0;
    if (strncmp(path, place, strlen(place))) return;
    power_key(path, key);
    if (!*key) return; /* without a name */
    sprintf(part, "%s/part-%d-%ld", disk, (int)getpid(), (long)pthread_self());
    sprintf(whole, S_ISDIR(found.st_mode) ? "%s/%s.names" : "%s/%s", disk, key);
    FILE *file = fopen(part, "w");
    if (!file) abort();
    if (S_ISDIR(found.st_mode)) {
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            if (entry->d_name[0] == '.') continue;
            sprintf(name, "%s/%s", path, entry->d_name);
            power_key(name, key);
            if (*key) fprintf(file, "%s %s\n", key, entry->d_name);
        }
        if (folder) closedir(folder);
    } else {
        static __thread char data[1 << 16];
        /* by this descriptor: closing another one would release the locks of SQLite */
        off_t at = 0;
        for (ssize_t n; (n = pread(fd, data, sizeof data, at)) > 0; at += n)
            fwrite(data, 1, n, file);
    }
    fclose(file);
    rename(part, whole);
}

int fsync(int fd) { count(); keep(fd); return 0; }
int fdatasync(int fd) { count(); keep(fd); return 0; }

#define COUNTED(result, name, parameters, arguments)                  \
    result name parameters {                                          \
        static result(*real) parameters;                              \
        if (!real) real = dlsym(RTLD_NEXT, #name);                    \
        count();                                                      \
        return real arguments;                                        \
    }
COUNTED(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
COUNTED(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))
COUNTED(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
COUNTED(int, ftruncate, (int fd, off_t size), (fd, size))
COUNTED(int, ftruncate64, (int fd, off64_t size), (fd, size))
COUNTED(int, truncate, (const char *path, off_t size), (path, size))
COUNTED(int, unlink, (const char *path), (path))
COUNTED(int, rmdir, (const char *path), (path))
COUNTED(int, rename, (const char *old, const char *new), (old, new))
COUNTED(int, link, (const char *old, const char *new), (old, new))
"""


class Change(NamedTuple):
    """The file of a name in a folder when the folder was synced, and now; "" is none."""

    name: str
    old: str
    new: str


class Disk:
    """The bytes that are certainly on disk, of a file and of all others in its folder that begin with its name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = Path(os.environ["POWER_DISK"])
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])

    @classmethod
    def under(cls, path: Path) -> Disk:
        """Start this program again, with the library, unless that has been done."""
        if "POWER_DISK" not in os.environ:
            kept = path.parent.with_name(f"{path.parent.name}.disk")
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            library = kept / "power.so"
            command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, "-x", "c", "-", "-ldl"]
            subprocess.run(command, input=CODE, text=True, check=True)
            (kept / "files").mkdir()
            place = {"POWER_DISK": str(kept / "files"), "POWER_PLACE": str(path.parent.resolve())}
            environment = os.environ | place | {"LD_PRELOAD": str(library.resolve())}
            os.execve(sys.executable, sys.orig_argv, environment)
        return cls(path)

    def arm(self, calls: int) -> None:
        """Let the power fail in this process after this many system calls that change files."""
        self._library.power_arm(ctypes.c_long(calls))

    def lose(self, rng: random.Random) -> None:
        """Leave one of the states that the disk may have, when all processes have ended."""
        self._settle(self._path.parent, self._path.name, rng)
        self.sync()

    def sync(self) -> None:
        """Have everything that is there on disk."""
        for file in self._kept.iterdir():
            file.unlink()
        self._sync(self._path.parent, self._path.name)

    def _settle(self, folder: Path, prefix: str, rng: random.Random) -> None:
        live = {self._key(file): file for file in folder.glob(f"{prefix}*")}
        contents = {key: file.read_bytes() for key, file in live.items() if file.is_file()}
        for name, old, new in self._changes(folder, prefix):
            file, chosen = folder / name, rng.choice([old, new])
            if chosen == new and file.is_dir():
                self._settle(file, "", rng)
                continue
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink(missing_ok=True)
            if chosen in contents or (chosen and (self._kept / chosen).exists()):
                file.write_bytes(self._content(chosen, contents.get(chosen), rng))

    def _changes(self, folder: Path, prefix: str) -> list[Change]:
        new = {file.name: self._key(file) for file in folder.glob(f"{prefix}*")}
        kept = self._names_in(folder)
        lines = kept.read_text().splitlines() if kept.exists() else []
        old = {name: key for key, name in (line.split(" ", 1) for line in lines)}
        names = sorted(name for name in new | old if name.startswith(prefix))
        return [Change(name, old.get(name, ""), new.get(name, "")) for name in names]

    def _content(self, key: str, live: bytes | None, rng: random.Random) -> bytes:
        """Size and pages that were not synced are as they were, or as they are."""
        kept = self._kept / key
        synced = kept.read_bytes() if kept.exists() else b""
        if live is None or live == synced:
            return synced
        size = len(rng.choice([synced, live]))
        states = [state.ljust(size, b"\0") for state in (synced, live)]
        return b"".join(rng.choice(states)[at : at + PAGE] for at in range(0, size, PAGE))[:size]

    def _sync(self, folder: Path, prefix: str) -> None:
        """Everything that is there is on disk."""
        lines = []
        for file in folder.glob(f"{prefix}*"):
            key = self._key(file)
            lines.append(f"{key} {file.name}\n")
            if file.is_dir():
                self._sync(file, "")
            else:
                shutil.copyfile(file, self._kept / key)
        self._names_in(folder).write_text("".join(lines))

    def _names_in(self, folder: Path) -> Path:
        return self._kept / f"{self._key(folder)}.names"

    def _key(self, path: Path) -> str:
        key = ctypes.create_string_buffer(64)
        self._library.power_key(os.fsencode(path), key)
        return key.value.decode()
