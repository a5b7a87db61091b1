# SPDX-License-Identifier: Apache-2.0
"""The steps of graphs from shards: src/shard/shard_folder.h again, in Python, and compared with it."""
import ctypes
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The header's functions are inline; these call them.
CALLS = """#include "shard/shard_folder.h"
kin_shard_step step_at(int32_t shards, int64_t number) { return kin_shard_step_at(shards, number); }
bool meeting(int32_t shards, int32_t round, int32_t table, kin_shard_step *step)
{
    return kin_shard_meeting(shards, round, table, step);
}
"""


def steps_of(shards):
    """Builds, then pairs; each pair has a shard in common with the one before."""
    yield from ((a, a) for a in range(shards))
    for a in range(shards - 1):
        others = range(a + 1, shards)
        yield from ((a, b) for b in (others if a % 2 == 0 else reversed(others)))


def rounds_of(shards):
    return 0 if shards < 2 else shards - 1 + shards % 2


def meeting(shards, number, table):
    """Who meets at a table in a round of the tournament, or None."""
    places = shards + shards % 2

    def sitting(place):
        return 0 if place == 0 else 1 + (place - 1 + number) % (places - 1)
    pair = sorted((sitting(table), sitting(places - 1 - table)))
    return tuple(pair) if pair[1] < shards else None


class Step(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_int32)]


def check_schedule():
    """Against the library's own arithmetic, where there is a compiler: it is not exported."""
    for shards in range(1, 26):
        steps = list(steps_of(shards))
        met = [meeting(shards, number, place) for number in range(rounds_of(shards))
               for place in range(shards // 2 + shards % 2)]
        assert sorted(filter(None, met)) == sorted(step for step in steps if step[0] != step[1]), shards
    compiler = shutil.which("cc")
    if compiler is None:
        return "the library's not compared, there is no compiler"
    with tempfile.TemporaryDirectory() as folder:
        source, made = pathlib.Path(folder) / "schedule.c", pathlib.Path(folder) / "schedule.so"
        source.write_text(CALLS, encoding="utf-8")
        headers = [f"-I{ROOT}/src", f"-I{ROOT}/include"]
        subprocess.run([compiler, "-shared", "-fPIC", "-std=c11", *headers, "-o", made, source], check=True)
        lib = ctypes.CDLL(str(made))
        lib.step_at.restype = Step
        lib.step_at.argtypes = [ctypes.c_int32, ctypes.c_int64]
        lib.meeting.restype = ctypes.c_bool
        for shards in range(1, 26):
            for number, step in enumerate(steps_of(shards)):
                theirs = lib.step_at(shards, number)
                assert (theirs.a, theirs.b) == step, (shards, number)
            for number in range(rounds_of(shards)):
                for place in range(shards // 2 + shards % 2):
                    theirs = Step()
                    there = lib.meeting(shards, number, place, ctypes.byref(theirs))
                    assert ((theirs.a, theirs.b) if there else None) == meeting(shards, number, place)
    return "that of src/shard/shard_folder.h, for 1 to 25 shards"
