#!/usr/bin/env python3
"""Compiles every CUDA source of problems/cuda and cheats/cuda as the evaluator links them, and checks the catalogue.

    python3 problems/tools/compile_all.py --header 'kernelseek header' [--nvcc NVCC] [--jobs 2]

Everything is compiled for sm_90a, most seeds and references for sm_80, sm_100a and sm_120 too. The catalogue of cheats/cuda
must list every file once, and what it expects must be what the file's first comment says. Without nvcc (`--nvcc`,
KERNELSEEK_NVCC, PATH) only the catalogue is checked. `does_not_compile` in a file's name says that it must not compile.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROBLEMS, CHEATS = ROOT / "problems/cuda", ROOT / "cheats/cuda"
EVERYWHERE = ["80", "90a", "100a", "120"]
SLOW = {"attention_forward"} # dozens of instances of a kernel: half a minute for each architecture


def expectation(entry):
    words = " or ".join(entry["expect"])
    by = f" by {', '.join(entry['defence'])}" if entry.get("defence") else ""
    return f"Expected: {words}{by}".rstrip(".") + "."


def catalogue_faults():
    """What is wrong with the catalogue, one line each."""
    entries = tomllib.loads((CHEATS / "catalogue.toml").read_text())["candidate"]
    listed = [e["file"] for e in entries]
    there = sorted(str(f.relative_to(CHEATS)) for f in CHEATS.rglob("*.cu"))
    faults = [f"{name}: listed twice" for name in set(listed) if listed.count(name) > 1]
    faults += [f"{name}: not in the catalogue" for name in set(there) - set(listed)]
    faults += [f"{name}: in the catalogue, but there is no such file" for name in set(listed) - set(there)]
    for entry in entries:
        if entry["file"] not in there:
            continue
        problem = PROBLEMS / entry["problem"]
        ids = {re.match(r'\{"id":"([^"]+)"', line)[1] for line in (problem / "h200.jsonl").read_text().splitlines()}
        faults += [f"{entry['file']}: no scenario {s} in {entry['problem']}" for s in entry.get("scenarios", [])
                   if s not in ids]
        comment = " ".join((CHEATS / entry["file"]).read_text().split("*/")[0].split())
        if expectation(entry) not in comment:
            faults.append(f"{entry['file']}: its first comment does not say `{expectation(entry)}`")
        if "PASS" in entry["expect"] and entry.get("threat") and "because" not in entry:
            if not entry["file"].startswith("honest_"):
                faults.append(f"{entry['file']}: may pass, and nothing says why that is right")
    return sorted(faults)


def compiler(named):
    program = named or os.environ.get("KERNELSEEK_NVCC") or shutil.which("nvcc")
    return pathlib.Path(program).resolve() if program else None  # a link elsewhere would lose its includes


def compile_one(nvcc, source, headers, out, archs):
    """The compiler's words if it refused `source`."""
    libraries = [nvcc.parent.parent / d for d in ("lib", "lib64")]
    runtime = sorted(f for d in libraries for f in d.glob("libcudart.so.*") if re.fullmatch(r"libcudart\.so\.\d+", f.name))
    if not runtime:
        return f"no libcudart.so.N beside {nvcc}"
    command = [str(nvcc), "-shared", "-Xcompiler", "-fPIC", "-O3", "-lineinfo", "--cudart", "none", "--compress-mode=none",
               *(f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs), f"-I{headers}", str(source), "-o", str(out),
               f"-L{runtime[0].parent}", "-Xlinker", f"-l:{runtime[0].name}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    refused = ran.returncode != 0
    out.unlink(missing_ok=True)
    if refused == ("does_not_compile" in source.name):
        return None
    return ran.stderr or ran.stdout or "compiles, and should not"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", default="kernelseek header", help="command that prints a problem's header")
    parser.add_argument("--nvcc", help="the compiler [default: KERNELSEEK_NVCC, then PATH]")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time [default: 2]")
    arguments = parser.parse_args()

    faults = catalogue_faults()
    for fault in faults:
        print(f"cheats/cuda/{fault}" if not fault.startswith("/") else fault)
    nvcc = compiler(arguments.nvcc)
    if nvcc is None:
        print("no nvcc (KERNELSEEK_NVCC, PATH): nothing is compiled, the catalogue alone was checked")
        return 1 if faults else 0

    problems = sorted(f.parent for f in PROBLEMS.glob("*/problem.toml"))
    work = []
    for folder in problems:
        for source in sorted(folder.glob("*.cu")):
            everywhere = source.stem in ("seed", "reference") and folder.name not in SLOW
            work.append((source, EVERYWHERE if everywhere else ["90a"]))
    work += [(source, ["90a"]) for source in sorted(CHEATS.rglob("*.cu"))]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for folder in problems:
            text = subprocess.run([*shlex.split(arguments.header), str(folder)], check=True, capture_output=True, text=True)
            (scratch / f"{folder.name}.h").write_text(text.stdout)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            running = {
                pool.submit(compile_one, nvcc, source, scratch, scratch / f"{n}.so", archs): source
                for n, (source, archs) in enumerate(work)
            }
            for done in concurrent.futures.as_completed(running):
                if done.result():
                    faults.append(str(running[done]))
                    print(f"{running[done].relative_to(ROOT)}:\n{done.result()}")
    print(f"{len(work)} CUDA sources, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
