#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write python/kith/_header.py, what ctypes has to know of include/kith: constants, structs and functions.

python_header.py [--check] [CC]      --check: fail where the file is not what the headers say; 77 without a compiler
"""
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = ROOT / "python/kith/_header.py"
HEADERS = ("kith.h", "kith_index.h", "kith_points.h", "kith_predict.h", "kith_select.h", "kith_descent.h", "kith_merge.h",
           "kith_shard.h", "kith_pairs.h", "kith_truth.h", "kith_papers.h", "kith_cuda.h")
SCALARS = {"int": "c_int", "double": "c_double", "float": "c_float", "char": "c_char", "size_t": "c_size_t",
           **{f"{sign}int{bits}_t": f"c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Made by tools/python_header.py of include/kith; a test compares them.
# fmt: off
"""The constants, structs and functions of include/kith, as ctypes knows them."""

import ctypes as c

'''


def expanded(compiler):
    """All headers with their macros, and nothing of the system's."""
    text = "".join((ROOT / "include/kith" / name).read_text() for name in HEADERS)
    text = re.sub(r"^#\s*include[^\n]*$", "", text, flags=re.M)
    ran = subprocess.run([compiler, "-E", "-P", "-undef", "-nostdinc", "-"], input=text, capture_output=True, text=True,
                         check=True)
    return re.sub(r"\s+", " ", re.sub(r"static inline [^{]*\{[^{}]*\}", "", ran.stdout))


def class_name(name):
    return "".join(part.capitalize() for part in name.removeprefix("kith_").split("_"))


def number(text, known):
    """The value of a constant expression of C."""
    text = re.sub(r"\b(\d+)[uU]\b", r"\1", text)
    text = re.sub(r"\b[A-Z]\w+", lambda found: str(known[found[0]]), text)
    if not re.fullmatch(r"[\d\s+*()<|-]+", text):
        raise ValueError(f"python_header: {text} is no expression that is understood here")
    return int(eval(text))


class Names:
    """What the headers define, in their order."""

    def __init__(self, text, plain):
        self.constants = {"UINT32_MAX": 2**32 - 1}
        self.enums, self.scalars, self.structs, self.pointers, self.functions = {}, dict(SCALARS), {}, {}, {}
        for name, value in re.findall(r"^#define (KITH_[A-Z_]+) (\w+)$", plain, flags=re.M):
            self.constants[name] = number(value, self.constants)
        kinds = (r"typedef enum (?P<enum>\w+) \{(?P<values>[^}]*)\} \w+ ;|enum \{(?P<plain>[^}]*)\} ;"
                 r"|typedef struct (?P<struct>\w+) \{(?P<fields>[^}]*)\} \w+ ;"
                 r"|typedef (?P<returns>\w+ \*?)\(\*(?P<pointer>\w+)\)\((?P<takes>[^)]*)\) ;"
                 r"|typedef (?P<base>\w+) (?P<alias>kith_\w+) ;"
                 r"|(?P<result>(?:const )?\w+ \*?) ?(?P<function>kith_\w+)\((?P<given>[^()]*)\) ;")
        for found in re.finditer(kinds, text.replace(";", " ;").replace("  ;", " ;")):
            self.take(found)

    def take(self, found):
        if found["values"] or found["plain"]:
            entries = self.values(found["values"] or found["plain"])
            self.constants.update(entries)
            if found["enum"]:
                self.enums[found["enum"]] = entries
                self.scalars[found["enum"]] = "c_int"
        elif found["struct"]:
            fields = re.sub(r"\w+ \(\*(\w+)\)\([^)]*\)", r"void *\1", found["fields"])
            self.structs[found["struct"]] = [self.field(each) for each in fields.split(";") if each.strip()]
        elif found["pointer"]:
            types = [self.type_of(re.sub(r"\w+$", "", each).strip()) for each in found["takes"].split(",")]
            self.pointers[found["pointer"]] = f"c.CFUNCTYPE({', '.join([self.result(found['returns'].strip()), *types])})"
        elif found["alias"]:
            self.scalars[found["alias"]] = self.scalars[found["base"]]
        elif found["function"]:
            given = [] if found["given"].strip() == "void" else found["given"].split(",")
            types = [self.type_of(re.sub(r"\w+$", "", each.strip()).strip()) for each in given]
            self.functions[found["function"]] = self.result(found["result"].strip()), types

    def values(self, body):
        entries, last = {}, -1
        for entry in re.split(r",(?![^()]*\))", body):
            name, _, value = entry.strip().partition("=")
            if name:
                last = number(value, self.constants | entries) if value else last + 1
                entries[name.strip()] = last
        return entries

    def type_of(self, text):
        """Of a field or an argument. All pointers are addresses, but strings that are read."""
        if text == "const char *":
            return "c.c_char_p"
        if "*" in text:
            return "c.c_void_p"
        name = text.removeprefix("const ").removeprefix("struct ")
        if name in self.scalars:
            return f"c.{self.scalars[name]}"
        if name not in self.structs and name not in self.pointers:
            raise ValueError(f"python_header: {name} is no type that is understood here")
        return class_name(name)

    def result(self, text):
        if text == "void":
            return "None"
        own = re.fullmatch(r"const (\w+) \*", text)
        return f"c.POINTER({class_name(own[1])})" if own and own[1] in self.structs else self.type_of(text)

    def field(self, text):
        found = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", text.strip())
        kind = self.type_of(found[1].strip())
        return found[2], kind if not found[3] else f"{kind} * {number(found[3], self.constants)}"


def written(names):
    lines = [f"{name.removeprefix('KITH_')} = {value}" for name, value in names.constants.items() if name.startswith("KITH_")]
    lines += ["", "ENUMS: dict[str, dict[str, int]] = {"]
    for enum, entries in names.enums.items():
        own = ", ".join(f'"{name.removeprefix("KITH_")}": {value}' for name, value in entries.items())
        lines.append(f'    "{enum}": {{{own}}},')
    lines += ["}", ""] + [f"{class_name(name)} = {made}" for name, made in names.pointers.items()]
    for struct, fields in names.structs.items():
        lines += ["", "", f"class {class_name(struct)}(c.Structure):", "    _fields_ = ["]
        own = [f'("{name}",\0{kind.replace(" ", chr(0))}),' for name, kind in fields]
        packed = textwrap.wrap(" ".join(own), 110, break_long_words=False, break_on_hyphens=False)
        lines += ["        " + line.replace("\0", " ") for line in packed] + ["    ]"]
    lines += ["", "", "FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {"]
    for function, (result, types) in names.functions.items():
        lines.append(f'    "{function}": ({result}, ({", ".join(types)}{"," * (len(types) == 1)})),')
    return HEAD + "\n".join([*lines, "}"]) + "\n"


def main():
    check = "--check" in sys.argv[1:]
    compiler = next((each for each in sys.argv[1:] if each != "--check"), "cc")
    if shutil.which(compiler) is None:
        print(f"python_header: {compiler} is missing")
        return 77
    plain = "".join((ROOT / "include/kith" / name).read_text() for name in HEADERS)
    names = Names(expanded(compiler), plain)
    public = set(re.findall(r"^KITH_API\b[^;(]*?(\w+)\(", plain, flags=re.M))
    if public != set(names.functions):
        raise ValueError(f"python_header: {sorted(public ^ set(names.functions))} are not understood")
    text = written(names)
    if check and TARGET.read_text() != text:
        print(f"{TARGET.relative_to(ROOT)} is not what the headers say (tools/python_header.py writes it)")
        return 1
    if not check:
        TARGET.write_text(text)
    print(f"{TARGET.relative_to(ROOT)}: {len(names.structs)} structs, {len(names.functions)} functions, "
          f"{len(names.constants)} constants")
    return 0


if __name__ == "__main__":
    sys.exit(main())
