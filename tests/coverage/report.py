#!/usr/bin/python3
"""Prints what gcovr has counted: lines and branches of each file, and every line that no test executes, with the reason for it.

  report.py COVERAGE.json

Reasons are in explained.toml beside this file: a file, the text of one line of it or of several in a row, and why no test executes
it. Exit 1 where a line that was not executed has no reason, or a reason has no line: its text must be in the file, whatever its number.
"""
import json
import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def explained_lines(problems):
    """By file: number of the line, reason."""
    lines = {}
    for reason in tomllib.loads((HERE / "explained.toml").read_text(encoding="utf-8")).get("lines", []):
        path = ROOT / reason["file"]
        source = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        text = [line.strip() for line in reason["text"].strip().splitlines()]
        starts = [i for i in range(len(source)) if source[i:i + len(text)] == text]
        if len(starts) != 1:
            problems.append(f"explained.toml: found {len(starts)} times in {reason['file']}, must be once: {reason['text'].strip()}")
            continue
        for number in range(starts[0] + 1, starts[0] + 1 + len(text)):
            lines.setdefault(reason["file"], {})[number] = reason["why"]
    return lines


def percent(part, whole):
    return f"{100 * part / whole:6.1f} %" if whole else "     - "


def main():
    problems = []
    explained = explained_lines(problems)
    files = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]
    total = [0, 0, 0, 0, 0]
    uncovered = []
    print(f"{'file':<44} {'lines':>13} {'executed':>9} {'branches':>13} {'taken':>9}")
    for entry in sorted(files, key=lambda entry: entry["file"]):
        name = entry["file"]
        code = [line for line in entry["lines"] if not line.get("gcovr/noncode")]
        branches = [branch for line in code for branch in line["branches"] if not branch.get("throw")]
        executed = sum(line["count"] > 0 for line in code)
        taken = sum(branch["count"] > 0 for branch in branches)
        missed = [line["line_number"] for line in code if line["count"] == 0]
        reasons = explained.get(name, {})
        uncovered += [(name, number, reasons.get(number)) for number in missed]
        row = [executed, len(code), taken, len(branches), sum(number in reasons for number in missed)]
        total = [a + b for a, b in zip(total, row)]
        print(f"{name:<44} {row[0]:6}/{row[1]:<6} {percent(row[0], row[1])} {row[2]:6}/{row[3]:<6} {percent(row[2], row[3])}")
    print(f"{'all of dataplane/':<44} {total[0]:6}/{total[1]:<6} {percent(total[0], total[1])} {total[2]:6}/{total[3]:<6} "
          f"{percent(total[2], total[3])}\n")
    for name, number, why in uncovered:
        text = (ROOT / name).read_text(encoding="utf-8").splitlines()[number - 1].strip()
        print(f"{name}:{number}: {text}\n    {why or '*** NOT EXECUTED, NOT EXPLAINED ***'}")
    print(f"\n{total[1] - total[0]} lines are not executed, {total[4]} of them explained")
    if problems:
        print("\n" + "\n".join(problems))
    return 1 if problems or any(why is None for _, _, why in uncovered) else 0


if __name__ == "__main__":
    sys.exit(main())
