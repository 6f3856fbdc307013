#!/usr/bin/python3
"""Plants faults, one at a time, and demands that a test catches each: the proof that the proof can fail.

  sudo tests/faults/run.py                  all of them: an unpatched copy must pass first; exit 1 if a fault survives
  sudo tests/faults/run.py --only ID...     these, without trying the unpatched copy
  sudo tests/faults/run.py --tests REGEX    with these tests only (of ctest's names): what does the simulation catch by itself?
  sudo tests/faults/run.py --write          and what caught them into README.md beside this file
  tests/faults/run.py --check               every fault still applies, README.md names exactly these; needs no build

Theory of operation. faults.toml says which text of which file is replaced by which other; the text must be found exactly once, so that
the list cannot rot. Each job has a scratch copy of the tree with a build of its own, whose objects come from ccache. A fault is written
into the copy, the test programs are built and run one after the other, from cheap to dear, until one fails; then the text is put back.
A program that the fault leaves as it was, byte for byte, is not run. What does not compile is not caught, it is a mistake in the list.
A failure counts when it comes again: a test that is late on a busy machine has caught nothing. Tests that want the machine for
themselves (RUN_SERIAL) have one test of that kind at a time.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
README = HERE / "README.md"
LEFT_OUT = {".git", "node_modules", "__pycache__", ".pytest_cache"}
# From cheap to dear; the first that matches a test's name. Names that match none are left out: what is random, measures time or needs
# what not every kernel has.
ORDER = [r"unit\.(bridge|io|capture|dataplane)_test", r"unit\.", r"fuzz\.", r"sim\.(?!.*fresh)", r"integration\.dataplane_control_test",
         r"integration\.dataplane_(forwarding|netdev)_test", r"integration\.dataplane_lifecycle_test", r"integration\.dataplane_table_test",
         r"integration\.links_test", r"integration\.dataplane_load_test"]
TIMEOUT_MIN = 30  # seconds, for what takes none when nothing is wrong

serial = threading.Lock()  # held by a test that wants the machine
children = set()
is_ending = False


class Mistake(Exception):
    """The list of faults, or the tree, is not as it should be."""


def read_faults():
    faults = tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))["fault"]
    ids = [fault["id"] for fault in faults]
    twice = {name for name in ids if ids.count(name) > 1}
    if twice:
        raise Mistake(f"in faults.toml more than once: {' '.join(sorted(twice))}")
    return faults


def patched(fault, root):
    """The file's text with the fault in it."""
    path = root / fault["file"]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = text.count(fault["old"])
    if found != 1:
        raise Mistake(f"{fault['id']}: its text is {found} times in {fault['file']}, must be once:\n{fault['old']}")
    if fault["old"] == fault["new"]:
        raise Mistake(f"{fault['id']}: changes nothing")
    return text.replace(fault["old"], fault["new"])


# --- programs ---


def run(command, timeout=None, **options):
    """Exit status and output; None for the status: it took too long and was ended."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True, **options)
    children.add(process)
    try:
        if is_ending:
            raise Mistake("ended")
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        end(process)
        return None, process.communicate()[0]
    finally:
        end(process)
        children.discard(process)


def end(process):
    """With whatever it has started: ninja's compilers have process groups of their own, but no session."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3]) == process.pid:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError):
            pass  # it has ended meanwhile


def rank_of(name):
    return next((rank for rank, pattern in enumerate(ORDER) if re.match(pattern, name)), None)


class Test:
    def __init__(self, entry):
        properties = {item["name"]: item["value"] for item in entry.get("properties", [])}
        self.name = entry["name"]
        self.rank = rank_of(self.name)
        self.command = entry["command"]
        self.folder = properties.get("WORKING_DIRECTORY")
        self.is_serial = properties.get("RUN_SERIAL", False)
        self.timeout = float(properties.get("TIMEOUT", 300))

    def run(self, only=None):
        """None: passed. Else the name of what failed first, and all that was said."""
        environment = {**os.environ, "GTEST_FAIL_FAST": "1", "GTEST_COLOR": "no"}
        command = self.command + ([f"--gtest_filter={only}"] if only else [])
        if self.is_serial:
            with serial:
                status, output = run(command, self.timeout, cwd=self.folder, env=environment)
        else:
            status, output = run(command, self.timeout, cwd=self.folder, env=environment)
        if status == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", output, re.M) or re.findall(r"^\[ RUN      \] (\S+)", output, re.M)[-1:]
        return (failed[0] if failed else ""), output


# --- a scratch copy ---


class Copy:
    """Of the tree, with a build; used by one thread at a time."""

    def __init__(self, folder, wanted):
        self.root = pathlib.Path(folder)
        self.build = self.root / "build"
        for path in ROOT.iterdir():
            if path.name in LEFT_OUT or path.name.startswith("build"):
                continue
            if path.is_dir():
                shutil.copytree(path, self.root / path.name, ignore=shutil.ignore_patterns(*LEFT_OUT))
            else:
                shutil.copy(path, self.root)
        self.do(["cmake", "-S", str(self.root), "-B", str(self.build), "-G", "Ninja"])
        # ctest tells the command of a test only when its program is there.
        names = [match for listing in self.build.rglob("CTestTestfile.cmake")
                 for match in re.findall(r'^add_test\(\[=\[(.+?)\]=\] "(.+?)"', listing.read_text(encoding="utf-8"), re.M)]
        programs = {pathlib.Path(program) for name, program in names if rank_of(name) is not None and wanted.search(name)}
        self.do(["ninja", "-C", str(self.build), *{path.name for path in programs if path.parent == self.build / "bin"}])
        self.tests = self.read_tests(wanted)
        self.digests = {test.name: self.digest(test) for test in self.tests}

    def do(self, command):
        status, output = run(command)
        if status != 0:
            raise Mistake(f"the unpatched copy cannot be built:\n{output[-3000:]}")
        return output

    def read_tests(self, wanted):
        listing = json.loads(self.do(["ctest", "--test-dir", str(self.build), "--show-only=json-v1"]))
        tests = [Test(entry) for entry in listing["tests"] if "command" in entry and wanted.search(entry["name"])]
        tests = [test for test in tests if test.rank is not None and pathlib.Path(test.command[0]).parent == self.build / "bin"]
        if not tests:
            raise Mistake("no such tests")
        return sorted(tests, key=lambda test: (test.rank, test.name))

    @staticmethod
    def target(test):
        return pathlib.Path(test.command[0]).name

    @staticmethod
    def digest(test):
        return hashlib.sha256(pathlib.Path(test.command[0]).read_bytes()).digest()

    def try_fault(self, fault):
        """The test that catches it; None: nobody does."""
        path = self.root / fault["file"]
        text = patched(fault, self.root)
        sound = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        try:
            return self.first_failure(fault)
        finally:
            path.write_text(sound, encoding="utf-8")

    def first_failure(self, fault):
        is_in_any = False
        for test in self.tests:
            status, output = run(["ninja", "-C", str(self.build), self.target(test)])
            if status != 0:
                raise Mistake(f"{fault['id']} does not compile:\n{output[-3000:]}")
            if self.digest(test) == self.digests[test.name]:
                continue
            is_in_any = True
            first = test.run()
            if first is None:
                continue
            name, _ = first
            if test.run(only=name or None) is not None:
                return f"{test.name} {name}".strip()
        if not is_in_any:
            raise Mistake(f"{fault['id']} is in none of the test programs")
        return None

    def try_sound(self):
        """Every test on the unpatched copy. How long each took is what it may take with a fault, several times over."""
        for test in self.tests:
            start = time.monotonic()
            failed = test.run()
            if failed is not None and test.run() is not None:
                raise Mistake(f"without a fault {test.name} fails:\n{failed[1][-3000:]}")
            test.timeout = max(TIMEOUT_MIN, 5 * (time.monotonic() - start))


# --- the whole ---


def run_all(faults, arguments, begin):
    """By id: who caught it (None: nobody; a Mistake: see there), and after how long."""
    results = {}
    copies = queue.Queue()
    with tempfile.TemporaryDirectory(prefix="ringswitch-faults.") as scratch:
        for job in range(min(arguments.jobs, len(faults))):
            folder = pathlib.Path(scratch) / str(job)
            folder.mkdir()
            copies.put(Copy(folder, re.compile(arguments.tests)))
        print(f"{copies.qsize()} copies built after {time.monotonic() - begin:.0f} s", flush=True)
        if not arguments.only:
            first = copies.get()
            first.try_sound()
            others = [copies.get() for _ in range(copies.qsize())]
            for copy in [first, *others]:
                for test, model in zip(copy.tests, first.tests):
                    test.timeout = model.timeout
                copies.put(copy)
            print(f"without a fault all tests pass after {time.monotonic() - begin:.0f} s", flush=True)

        def one(fault):
            copy = copies.get()
            start = time.monotonic()
            try:
                caught = copy.try_fault(fault)
            except Mistake as mistake:
                caught = mistake
            finally:
                copies.put(copy)
            return fault["id"], caught, time.monotonic() - start

        with concurrent.futures.ThreadPoolExecutor(copies.qsize()) as pool:
            for name, caught, seconds in pool.map(one, faults):
                results[name] = caught
                print(f"{name:<34} {seconds:5.0f} s  {'*** SURVIVES ***' if caught is None else str(caught)}", flush=True)
    return results


def table():
    """README.md's: by id, what the fault stands for and what caught it."""
    lines = README.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row[1:] for row in cells if row[0] not in ("fault", "---")}


def write_table(faults, results):
    """Those that were not run keep what caught them."""
    text = README.read_text(encoding="utf-8")
    known = table()
    rows = ["| fault | what it stands for | caught by |", "| --- | --- | --- |"]
    for fault in faults:
        caught = f"`{results[fault['id']]}`" if results.get(fault["id"]) else known.get(fault["id"], ["", ""])[1]
        rows.append(f"| {fault['id']} | {fault['is']} | {caught} |")
    README.write_text(text[:text.index("| fault ")] + "\n".join(rows) + "\n", encoding="utf-8")


def check(faults):
    for fault in faults:
        patched(fault, ROOT)
    listed = table()
    if [(name, row[0]) for name, row in listed.items()] != [(fault["id"], fault["is"]) for fault in faults]:
        raise Mistake("README.md does not list these faults: run tests/faults/run.py --write")
    if not all(row[1] for row in listed.values()):
        raise Mistake("README.md does not say what catches each: run tests/faults/run.py --write")
    print(f"{len(faults)} faults apply")


def stop(number, _):
    global is_ending
    is_ending = True
    for process in list(children):
        end(process)
    raise SystemExit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ID")
    parser.add_argument("--tests", default=".", metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    all_faults = faults = read_faults()
    if arguments.check:
        check(faults)
        return 0
    if arguments.only:
        unknown = set(arguments.only) - {fault["id"] for fault in faults}
        if unknown:
            raise Mistake(f"no such fault: {' '.join(sorted(unknown))}")
        faults = [fault for fault in faults if fault["id"] in arguments.only]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    begin = time.monotonic()
    results = run_all(faults, arguments, begin)
    mistakes = [caught for caught in results.values() if isinstance(caught, Mistake)]
    survivors = [name for name, caught in results.items() if caught is None]
    print(f"\n{len(results)} faults, {len(results) - len(survivors) - len(mistakes)} caught, {time.monotonic() - begin:.0f} s")
    if survivors:
        print(f"*** not caught: {' '.join(survivors)}")
    if arguments.write:
        write_table(all_faults, {name: caught for name, caught in results.items() if not isinstance(caught, Mistake)})
    return 1 if mistakes or survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Mistake as mistake:
        print(f"run.py: {mistake}", file=sys.stderr)
        sys.exit(2)
