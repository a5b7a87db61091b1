# SPDX-License-Identifier: Apache-2.0
"""The steps of graphs from shards: src/shard/shard_schedule.c again, in Python, and compared with it."""
import ctypes
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


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
        made = pathlib.Path(folder) / "schedule.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-std=c11", f"-I{ROOT}/src", "-o", made,
                        ROOT / "src/shard/shard_schedule.c"], check=True)
        lib = ctypes.CDLL(str(made))
        lib.kin_shard_step_at.restype = Step
        lib.kin_shard_step_at.argtypes = [ctypes.c_int32, ctypes.c_int64]
        lib.kin_shard_meeting.restype = ctypes.c_bool
        for shards in range(1, 26):
            for number, step in enumerate(steps_of(shards)):
                theirs = lib.kin_shard_step_at(shards, number)
                assert (theirs.a, theirs.b) == step, (shards, number)
            for number in range(rounds_of(shards)):
                for place in range(shards // 2 + shards % 2):
                    theirs = Step()
                    there = lib.kin_shard_meeting(shards, number, place, ctypes.byref(theirs))
                    assert ((theirs.a, theirs.b) if there else None) == meeting(shards, number, place)
    return "that of src/shard/shard_schedule.c, for 1 to 25 shards"
