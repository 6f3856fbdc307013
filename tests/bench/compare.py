#!/usr/bin/python3
"""Ringswitch beside the kernel bridge, in one run: the comparison of the README.

  sudo tests/bench/compare.py                 a few minutes; table on stdout
  sudo tests/bench/compare.py --json FILE     figures of every round too, with commit, kernel and CPU
  sudo tests/bench/compare.py --smoke         seconds: shows that the benchmark works, its figures mean nothing
  sudo tests/bench/compare.py --check         exit 1 where a target is missed

Two pods on each subject: `tap` and `veth` (ports of ringswitchd) and `bridge` (veth, kernel bridge, veth; netfilter off the path). Machines of
this kind drift by 30 % within an hour, so rounds are short and alternate (A B, B A, ...), and what counts is the ratio within
a round: its median, and a 95 % confidence interval by bootstrap over the rounds. `pinned`: sender on CPU 0, switch and receiver on
CPU 1; `unpinned`: the scheduler decides. 64-byte frames are 64 bytes without FCS, counted by the receiving interface.
"""
import argparse
import json
import os
import pathlib
import random
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

import agent as agents  # noqa: E402
from pod import Pod, run  # noqa: E402

MEASURES = {  # name: unit, targets of ours / bridge, whether more is better
    "frames": ("frames/s", {"tap": 0.65, "veth": 0.5}, True),
    "tcp": ("Gbit/s", {"tap": 0.65, "veth": 0.6}, True),
    "round_trip": ("us (p50)", {"tap": 1.7}, False),
}
OURS = ("tap", "veth")
CREATE_TARGET_MS = 5.0
BOOTSTRAP_SAMPLES = 5000


class Subject:
    """Two addressed pods that can reach each other."""

    def __init__(self, name, pods):
        self.name = name
        self.pods = pods
        self.addresses = []
        for number, pod in enumerate(pods, start=1):
            self.addresses.append(f"10.98.1.{number}")
            pod.run("ip", "addr", "add", f"{self.addresses[-1]}/24", "dev", "eth0")
        self.macs = [pod.link()["address"] for pod in pods]
        deadline = time.monotonic() + 5
        while not pods[0].ping(self.addresses[1]):  # teaches the FDB, too
            assert time.monotonic() < deadline, f"{name}: the pods do not reach each other"

    def start(self, number, cpu, job, *arguments):
        pin = ["taskset", "-c", str(cpu)] if cpu is not None else []
        process = self.pods[number].start(*pin, agents.binary("traffic"), job, *map(str, arguments))
        if job in ("echo", "sink"):
            assert select.select([process.stdout], [], [], 10)[0] and process.stdout.readline() == "ready\n"
        return process

    def frames(self, seconds, cpus):
        receiver = self.pods[1]
        before = receiver.counter("rx_packets")
        arguments = ["--destination", self.macs[1], "--source", self.macs[0], "--length", 64, "--seconds", seconds]
        told = result(self.start(0, cpus[0], "send", *arguments))
        return (receiver.counter("rx_packets") - before) / told["seconds"]

    def tcp(self, seconds, cpus):
        target = ["--host", self.addresses[1], "--seconds", seconds]
        sink = self.start(1, cpus[1], "sink", *target)
        result(self.start(0, cpus[0], "source", *target))
        return result(sink)["gbit_per_second"]

    def round_trip(self, seconds, cpus):
        echo = self.start(1, cpus[1], "echo", "--host", self.addresses[1], "--seconds", 60)
        told = result(self.start(0, cpus[0], "ping", "--host", self.addresses[1], "--seconds", seconds))
        echo.terminate()
        result(echo)
        return told["p50_us"]


def result(process):
    stdout, stderr = process.communicate(timeout=90)
    assert process.returncode == 0, stderr
    return json.loads(stdout.splitlines()[-1])


def make_ringswitch(agent, kind):
    switch = f"sw-{kind}"
    agent.client.switches.CreateSwitch(switch={"name": switch})
    pods = [Pod(), Pod()]
    for number, pod in enumerate(pods, start=1):
        place = {"netns": pod.path, "ifname": "eth0"}
        agent.client.ports.CreatePort(port={"name": f"{kind}{number}", "switch_name": switch, kind: place})
    return pods


def make_bridge():
    """The bridge in a namespace of its own, so that nothing of the machine's configuration is in its path."""
    switch, pods = Pod(), [Pod(), Pod()]
    switch.run("ip", "link", "add", "br0", "type", "bridge")
    switch.run("ip", "link", "set", "br0", "up")
    for number, pod in enumerate(pods, start=1):
        switch.run("ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", pod.name)
        switch.run("ip", "link", "set", f"port{number}", "master", "br0", "up")
        pod.run("ip", "link", "set", "eth0", "up")
    for name in ("iptables", "ip6tables", "arptables"):
        if os.path.exists(f"/proc/sys/net/bridge/bridge-nf-call-{name}"):
            switch.sysctl(f"net/bridge/bridge-nf-call-{name}", 0)
    return switch, pods


def pin_agent(agent, cpus):
    listed = "1" if cpus[1] is not None else f"0-{os.cpu_count() - 1}"
    run("taskset", "-a", "-p", "-c", listed, str(agent.process.pid))


def measure_rounds(subjects, agent, options):
    """{placement: {measure: {subject: [figure of each round]}}}"""
    figures = {}
    for placement, cpus in {"pinned": (0, 1), "unpinned": (None, None)}.items():
        if placement == "pinned" and os.cpu_count() < 2:
            continue
        pin_agent(agent, cpus)
        figures[placement] = {measure: {subject.name: [] for subject in subjects} for measure in MEASURES}
        for round_number in range(options.rounds):
            order = subjects if round_number % 2 == 0 else subjects[::-1]
            for measure in MEASURES:
                for subject in order:
                    figure = getattr(subject, measure)(options.seconds, cpus)
                    figures[placement][measure][subject.name].append(figure)
    return figures


def measure_port_life(agent, count):
    """Medians of create and delete of each kind through gRPC, in ms."""
    pod = Pod()
    times = {f"{kind} {step}": [] for kind in OURS for step in ("create", "delete")}
    try:
        for _ in range(count):
            for kind in OURS:
                started = time.perf_counter()
                place = {"netns": pod.path, "ifname": "eth0"}
                agent.client.ports.CreatePort(port={"name": "life", "switch_name": f"sw-{kind}", kind: place})
                times[f"{kind} create"].append((time.perf_counter() - started) * 1e3)
                started = time.perf_counter()
                agent.client.ports.DeletePort(name="life")
                times[f"{kind} delete"].append((time.perf_counter() - started) * 1e3)
    finally:
        pod.delete()
    return {name: summary(values) for name, values in times.items()}


def summary(values):
    median = statistics.median(values)
    return {"median": median, "mad": statistics.median(abs(value - median) for value in values)}


def ratio(ours, theirs):
    """Median of the rounds' ratios and its 95 % confidence interval (percentile bootstrap, seeded)."""
    ratios = [a / b for a, b in zip(ours, theirs)]
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(BOOTSTRAP_SAMPLES))
    low, high = medians[int(0.025 * BOOTSTRAP_SAMPLES)], medians[int(0.975 * BOOTSTRAP_SAMPLES)]
    return {"median": statistics.median(ratios), "ci95": [low, high]}


def machine():
    def text(*command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=agents.REPOSITORY)
        return done.stdout.strip() if done.returncode == 0 else ""

    models = [line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    commit = text("git", "rev-parse", "HEAD") or "none"
    if text("git", "status", "--porcelain"):
        commit += " (changed)"
    return {"commit": commit, "kernel": os.uname().release, "cpu": models[0] if models else "", "cpus": os.cpu_count()}


def report(facts, figures, life):
    """Prints the table; returns the summaries and the list of missed targets."""
    print(f"commit {facts['commit']}, Linux {facts['kernel']}, {facts['cpus']} x {facts['cpu']}")
    print(f"{'':9} {'':10} {'':9} {'ports':6} {'ours':>10} {'MAD':>8} {'bridge':>10} {'MAD':>8}  ratio (95 % CI)      target")
    summaries, missed = {}, []
    for placement, measures in figures.items():
        for measure, values in measures.items():
            unit, targets, more_is_better = MEASURES[measure]
            theirs = summary(values["bridge"])
            summaries.setdefault(placement, {})[measure] = {"bridge": theirs}
            for kind in OURS:
                ours, quotient = summary(values[kind]), ratio(values[kind], values["bridge"])
                summaries[placement][measure][kind] = {**ours, "ratio": quotient}
                verdict, target = "", targets.get(kind)
                if target is not None:
                    reached = quotient["median"] >= target if more_is_better else quotient["median"] <= target
                    verdict = f"{'>=' if more_is_better else '<='} {target} {'reached' if reached else 'MISSED'}"
                    if not reached:
                        missed.append(f"{measure} {kind} {placement}")
                digits = 0 if measure == "frames" else 2
                print(
                    f"{placement:9} {measure:10} {unit:9} {kind:6} {ours['median']:10.{digits}f} {ours['mad']:8.{digits}f} "
                    f"{theirs['median']:10.{digits}f} {theirs['mad']:8.{digits}f}  "
                    f"{quotient['median']:.2f} ({quotient['ci95'][0]:.2f} to {quotient['ci95'][1]:.2f})  {verdict}"
                )
    for name, values in life.items():
        print(f"{name} through gRPC: median {values['median']:.2f} ms, MAD {values['mad']:.2f} ms")
    if life["tap create"]["median"] > CREATE_TARGET_MS:
        missed.append("create")
    return summaries, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="rounds of each measure (11)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement (1)")
    parser.add_argument("--workers", default="1", help="workers of the agent (1)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--smoke", action="store_true", help="seconds instead of minutes; figures mean nothing")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds = 1, 0.2
    if os.geteuid() != 0:
        parser.error("must be root: it makes network namespaces")

    directory = pathlib.Path(tempfile.mkdtemp(prefix="rsw-bench-"))
    pods, agent = [], None
    try:
        agents.generate_protocol(directory)
        agent = agents.Agent(directory / "agent", "--workers", options.workers)
        agent.start()
        subjects = []
        for kind in OURS:
            ours = make_ringswitch(agent, kind)
            pods += ours
            subjects.append(Subject(kind, ours))
        switch, theirs = make_bridge()
        pods += [switch, *theirs]
        subjects.append(Subject("bridge", theirs))
        figures = measure_rounds(subjects, agent, options)
        life = measure_port_life(agent, 5 if options.smoke else 30)
        facts = machine()
        summaries, missed = report(facts, figures, life)
        if options.json:
            everything = {"machine": facts, "options": vars(options), "summary": summaries, "port_life": life, "rounds": figures}
            pathlib.Path(options.json).write_text(json.dumps(everything, indent=1) + "\n")
        if options.check and missed:
            sys.exit(f"missed: {', '.join(missed)}")
    finally:
        for pod in pods:
            pod.delete()
        if agent:
            agent.cleanup()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
