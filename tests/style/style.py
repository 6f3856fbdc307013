#!/usr/bin/python3
"""Checks what no compiler checks: who may include whom, banned names and constructs, formatting, lengths, wording.

  style.py ROOT              prints file:line: message for each violation; exit 1 if there is one
  style.py --self-test ROOT  plants one violation of each rule in a temporary tree and demands that it is found

The rooms and their rules are data (ROOMS below); a new room is a new row. Source text only: it needs no build.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SKIPPED_DIRS = {".git", ".cache", ".ccache", "node_modules", "__pycache__", ".pytest_cache"}
SKIPPED_FILES = {"LICENSE", "package-lock.json"}
TOP_LEVEL = {"CMakeLists.txt", "LICENSE", "README.md", "proto", "server", "dataplane", "cni-plugin", "deploy", "tests"}
LINES_WARNED, LINES_MAX, FUNCTION_LINES_MAX, TEST_FUNCTION_LINES_MAX = 500, 800, 60, 100

# What the pure bridge may include of the standard library: no clock, thread, lock, stream, file.
BRIDGE_STANDARD = set("""algorithm array atomic bit bitset cassert cctype charconv cinttypes climits compare concepts cstddef cstdint
    cstdlib cstring functional initializer_list iterator limits memory new numeric optional span string string_view tuple
    type_traits utility vector""".split())

GENERATED = r"(ringswitch/v1|google/(rpc|protobuf))/"
RPC = r"((grpc(pp|\+\+)?|google|ringswitch/v1|nlohmann|prometheus|spdlog|CLI|civetweb)/|microhttpd)"
VALUES = r"dataplane/(dataplane|capture|file|bridge/(counters|drop_reason|fdb|forwarding_config|frame|vlan_set))\.h$"
# Path prefix of the room; of the project's own and generated headers, those it may include; of all headers, those it may not.
ROOMS = [
    ("dataplane/bridge/", r"dataplane/bridge/", None),
    ("dataplane/io/", r"dataplane/(io/|file\.h$)", RPC),
    ("dataplane/", r"dataplane/", RPC),
    ("server/agent/", rf"(server/agent/|{VALUES}|{GENERATED})", r"liburing"),
    ("server/ringctl/", rf"(server/ringctl/|{GENERATED})", r"(prometheus|netlink|liburing)"),
    ("cni-plugin/", rf"(cni-plugin/|{GENERATED})", r"(prometheus|spdlog|netlink/|liburing|linux/if_tun)"),
]
OWN = re.compile(rf"(dataplane|server|cni-plugin|tests|{GENERATED[:-1]})/")

# Files that every frame passes through, and what must not be found in them. A function of theirs that runs at start or in control calls
# only says so: "Off the frame path" in the comment above it exempts it.
FRAME_PATH = re.compile(r"dataplane/(bridge/(pipeline|fdb|epoch|counters|vlan_set|forwarding_config)|worker|transmit_path|capture_tap"
                        r"|io/(ring|buffer_pool|virtio_net_header|receiver|transmitter|segment|checksum|frame_layout))\w*\.(h|cc)$")
FRAME_PATH_BANNED = re.compile(r"\bvirtual\b|\b(std|absl)::\w*[mM]utex\b|\bstd::(function|shared_ptr|make_shared|string|map"
                               r"|unordered_map|list|lock_guard|unique_lock|scoped_lock)\b|\bthrow\b|\bdynamic_cast\b")
CODE_BANNED = [
    (re.compile(r"(?<![\w.>])(std::|::)?(system|popen)\s*\("), "starts a shell; use the system call or netlink"),
    (re.compile(r"\brecursive_mutex\b"), "recursive mutexes hide who owns what"),
    (re.compile(r"#\s*include\s*<(format|ranges|source_location)>"), "clang 14 does not have it"),
]
NAMES_BANNED = {"util", "utils", "common", "helper", "helpers", "misc", "base"}
# Written so that this file does not find itself.
WORDS_BANNED = [
    (re.compile(r"\bDISABLED[_]"), "a test that does not run is no test"),
    (re.compile(r"/[w]ork/|/[f]arm\b|\.[l]ibrary\b"), "path of one particular machine"),
    (re.compile(r"\b[T]ODO\b|\b[F]IXME\b|\b[X]XX\b"), "finish it or delete it"),
    (re.compile(r"https?://(deb|security|registry)\.[a-z]"), "address of a package registry"),
    (re.compile(r"\b(?:design|lab|field-cases|behaviours|anchors)[.]md\b"), "document that is not in the repository"),
]


def source_files(root):
    for folder, dirs, files in os.walk(root):
        top = pathlib.Path(folder) == root
        dirs[:] = sorted(d for d in dirs if d not in SKIPPED_DIRS and not (top and d.startswith("build")))
        for name in sorted(files):
            path = (pathlib.Path(folder) / name).relative_to(root).as_posix()
            if name not in SKIPPED_FILES and not name.endswith((".pyc", ".png", ".svg")):
                yield path


def without_comments(text):
    """Blanks comments and the contents of string literals, keeping every line where it is."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)

    def blank(match):
        found = match.group(0)
        if found.startswith('"') and re.search(r"#\s*include\s*$", text[max(0, match.start() - 20):match.start()]):
            return found
        return re.sub(r"[^\n]", " ", found)

    return token.sub(blank, text)


def functions_of(lines):
    """First line, last line and comment above of each function of namespace scope: it ends with a lone brace in column 0 and starts at
    the last line before that is neither indented nor a comment."""
    start, comment, block = 0, "", []
    for number, line in enumerate(lines, 1):
        if line == "}":
            yield start, number, comment
        if line.startswith("//"):
            block.append(line)
        elif line[:1].strip() and not line.startswith(("}", "#")):
            start, comment = number, " ".join(block)
        if not line.startswith("//"):
            block = []


class Style:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.violations = []
        self.warnings = []

    def report(self, path, line, message):
        self.violations.append((path, line, message))

    def run(self):
        code = []
        for path in source_files(self.root):
            self.check_name(path)
            try:
                text = (self.root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                self.report(path, 1, "not UTF-8 text")
                continue
            self.check_words(path, text)
            if path.endswith((".h", ".cc")):
                code.append(path)
                self.check_code(path, text)
        for entry in sorted(os.listdir(self.root)):
            if entry not in TOP_LEVEL and not entry.startswith((".", "build")):
                self.report(entry, 1, f"the top level is fixed: {' '.join(sorted(TOP_LEVEL))} and dotfiles")
        self.check_formatting(code)
        return sorted(self.violations)

    def check_name(self, path):
        for part in path.split("/"):
            words = re.split(r"[._-]", part.lower())
            if NAMES_BANNED & set(words):
                self.report(path, 1, f"'{part}' says nothing about its content; name the noun")
        if path.endswith((".cpp", ".hpp", ".cxx", ".c++")):
            self.report(path, 1, "sources end in .cc, headers in .h")

    def check_words(self, path, text):
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            for pattern, why in WORDS_BANNED:
                found = pattern.search(line)
                if found:
                    self.report(path, number, f"'{found.group(0)}': {why}")
        if path.endswith((".h", ".cc", ".py", ".sh", ".proto")):
            if len(lines) > LINES_MAX:
                self.report(path, LINES_MAX, f"{len(lines)} lines; {LINES_MAX} at most: which two nouns are in it?")
            elif len(lines) > LINES_WARNED:
                self.warnings.append(f"{path}: {len(lines)} lines, over {LINES_WARNED}")

    def check_code(self, path, text):
        if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
            self.report(path, 1, "header without #pragma once")
        lines = without_comments(text).splitlines()
        functions = list(functions_of(text.splitlines()))
        exempt = set()
        for start, end, comment in functions:
            if "Off the frame path" in comment:
                exempt.update(range(start, end + 1))
        for number, line in enumerate(lines, 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if include:
                self.check_include(path, number, include.group(1) == "<", include.group(2))
            for pattern, why in CODE_BANNED:
                if pattern.search(line) and not (path.startswith("tests/") and "shell" in why):
                    self.report(path, number, f"'{pattern.search(line).group(0).strip()}': {why}")
            banned = FRAME_PATH.match(path) and FRAME_PATH_BANNED.search(line)
            if banned and number not in exempt:
                self.report(path, number, f"'{banned.group(0)}' on the frame path")
        limit = TEST_FUNCTION_LINES_MAX if path.startswith("tests/") else FUNCTION_LINES_MAX
        for start, end, _ in functions:
            if end - start + 1 > limit:
                self.report(path, start, f"function of {end - start + 1} lines; {limit} at most")

    def check_include(self, path, number, angled, header):
        own = OWN.match(header)
        if not angled and "/" not in header:
            self.report(path, number, f'"{header}": write the path from the root of the repository')
            return
        for prefix, allowed, banned in ROOMS:
            if not path.startswith(prefix):
                continue
            if own and not re.match(allowed, header):
                self.report(path, number, f"{prefix} must not include {header}")
            elif banned and re.match(banned, header):
                self.report(path, number, f"{prefix} must not include {header}")
            elif prefix == "dataplane/bridge/" and not own and header not in BRIDGE_STANDARD:
                self.report(path, number, f"{prefix} is pure: <{header}> is not among the standard headers it may use")
            break
        if own and path.startswith(("dataplane/", "server/", "cni-plugin/")) and header.startswith("tests/"):
            self.report(path, number, "the product must not include its tests")

    def check_formatting(self, paths):
        def run(batch):
            command = ["clang-format-14", "--dry-run", "-Werror", "--style=file", *batch]
            return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)

        batches = [paths[i::4] for i in range(4) if paths[i::4]]
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(run, batches))
        seen = set()
        for result in results:
            found = re.findall(r"^(\S+?):(\d+):\d+: error: ", result.stderr, re.M)
            for path, line in found:
                if path not in seen:
                    seen.add(path)
                    self.report(path, int(line), "not formatted; run clang-format-14 -i on it")
            if result.returncode and not found:
                self.report(".clang-format", 1, f"clang-format-14 failed: {result.stderr.strip()[:300]}")


# One violation for each rule: path, content, what must be said about it.
PLANTED = [
    ("dataplane/bridge/a.h", '#pragma once\n#include "dataplane/io/ring.h"\n', "must not include dataplane/io/ring.h"),
    ("dataplane/bridge/b.h", "#pragma once\n#include <mutex>\n", "is pure"),
    ("dataplane/bridge/c.h", '#pragma once\n#include "absl/status/status.h"\n', "is pure"),
    ("dataplane/io/a.h", '#pragma once\n#include "dataplane/bridge/frame.h"\n', "must not include dataplane/bridge"),
    ("dataplane/worker_x.cc", "#include <grpcpp/grpcpp.h>\n", "must not include grpcpp"),
    ("dataplane/a.cc", "#include <nlohmann/json.hpp>\n", "must not include nlohmann"),
    ("server/agent/a.cc", '#include "dataplane/bridge/pipeline.h"\n', "must not include dataplane/bridge/pipeline.h"),
    ("server/agent/b.cc", '#include "dataplane/worker.h"\n', "must not include dataplane/worker.h"),
    ("server/ringctl/a.cc", '#include "server/agent/links.h"\n', "must not include server/agent/links.h"),
    ("cni-plugin/a.cc", '#include "dataplane/dataplane.h"\n', "must not include dataplane/dataplane.h"),
    ("cni-plugin/b.cc", '#include "b.h"\n', "path from the root"),
    ("dataplane/bridge/pipeline_x.h", "#pragma once\nstruct A {\n  virtual void F();\n};\n", "'virtual' on the frame path"),
    ("dataplane/bridge/fdb_x.cc", "std::string name;\n", "'std::string' on the frame path"),
    ("dataplane/worker.cc", "std::function<void()> f;\n", "'std::function' on the frame path"),
    ("dataplane/io/ring.cc", "std::mutex mutex;\n", "'std::mutex' on the frame path"),
    ("dataplane/io/buffer_pool.cc", "std::shared_ptr<int> p;\n", "'std::shared_ptr' on the frame path"),
    ("server/agent/c.cc", 'int r = system("ip link");\n', "starts a shell"),
    ("server/agent/net_utils.cc", "\n", "says nothing about its content"),
    ("server/common/a.cc", "\n", "says nothing about its content"),
    ("server/agent/d.h", "int a;\n", "without #pragma once"),
    ("server/agent/e.cc", "int   a ;\n", "not formatted"),
    ("server/agent/f.cc", "int F() {\n" + "  G();\n" * 70 + "}\n", "function of 72 lines"),
    ("server/agent/g.cc", "int a;\n" * 801, "801 lines"),
    ("server/agent/h.cc", "// T" + "ODO: later\n", "finish it"),
    ("deploy/a.sh", "cd /wo" + "rk/main\n", "one particular machine"),
    ("proto/a.proto", "// see lab" + ".md\n", "not in the repository"),
    ("vendor/a.txt", "\n", "the top level is fixed"),
    ("server/agent/i.cpp", "\n", "sources end in .cc"),
]
CLEAN = [
    ("dataplane/bridge/pipeline.h", '#pragma once\n\n// No virtual call, no std::mutex: see "frame.h".\n#include <span>\n\n'
                                    '#include "dataplane/bridge/frame.h"\n'),
    ("dataplane/worker.cc", '#include "dataplane/bridge/pipeline.h"\n#include "dataplane/io/ring.h"\n\n'
                            "// Off the frame path: at start.\nvoid F() {\n  std::string name;\n}\n"),
    ("server/agent/main.cc", '#include <grpcpp/grpcpp.h>\n\n#include "dataplane/dataplane.h"\n'
                             '#include "ringswitch/v1/port.grpc.pb.h"\n\nint main() {\n  return 0;\n}\n'),
]


def self_test(root):
    failures = 0
    with tempfile.TemporaryDirectory(prefix="ringswitch-style-") as folder:
        tree = pathlib.Path(folder)

        def plant(path, text):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)

        plant(".clang-format", (root / ".clang-format").read_text())
        for path, text in CLEAN:
            plant(path, text)
        for path, line, message in Style(tree).run():
            failures += 1
            print(f"{path}:{line}: reported although clean: {message}")
        for path, text in [(p, t) for p, t, _ in PLANTED]:
            plant(path, text)
        found = Style(tree).run()
        for path, _, expected in PLANTED:
            if not any(p in (path, path.split("/")[0]) and expected in m for p, _, m in found):
                failures += 1
                print(f"{path}: not found: {expected}")
    print(f"self-test: {len(PLANTED)} planted violations, {failures} failures")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("root", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(1 if self_test(arguments.root.resolve()) else 0)
    style = Style(arguments.root)
    for path, line, message in style.run():
        print(f"{path}:{line}: {message}")
    for warning in style.warnings:
        print(f"warning: {warning}")
    print(f"style: {len(style.violations)} violations")
    sys.exit(1 if style.violations else 0)


if __name__ == "__main__":
    main()
