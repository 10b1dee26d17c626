"""Builds the problem's sources and calls what they export on torch tensors."""

import ctypes
import pathlib
import shlex
import subprocess
import time
import tomllib

import torch

from .inputs import Outputs

NAME = "attention_forward"
CODES = {torch.float32: 2, torch.float16: 3, torch.bfloat16: 4, torch.float8_e4m3fn: 5, torch.int32: 8}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8)]

    @classmethod
    def of(cls, t):
        if t is None:
            return cls()
        made = cls(t.data_ptr(), CODES[t.dtype], t.dim())
        made.shape[:t.dim()], made.stride[:t.dim()] = t.shape, t.stride()
        return made


class Sample(ctypes.Structure):
    """Which rows a sampled call answers: those that the key picks, about one in `one_in`."""
    _fields_ = [("key", ctypes.c_uint64), ("one_in", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class Contract:
    """The call struct and the header of the problem in `folder`."""

    def __init__(self, folder, scratch, header_command, header_file):
        problem = tomllib.loads((folder / "problem.toml").read_text())
        self.tensors = [t["name"] for t in problem["tensor"]]
        attributes = [(a["name"], {"f64": ctypes.c_double, "i64": ctypes.c_int64}[a["type"]]) for a in problem["attribute"]]
        fields = [("struct_size", ctypes.c_uint32), ("abi", ctypes.c_uint32), *((name, Tensor) for name in self.tensors),
                  *attributes, ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t),
                  ("stream", ctypes.c_void_p), ("device", ctypes.c_int32)]
        self.call = type("Call", (ctypes.Structure,), {"_fields_": fields})
        self.flags, self.scratch = problem.get("build", {}).get("flags", ["-O3"]), scratch
        command = [*shlex.split(header_command), str(folder)]
        text = pathlib.Path(header_file).read_text() if header_file else \
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
        (scratch / f"{NAME}.h").write_text(text)

    def compile(self, source, stem):
        """Starts a build: (library, the process or None). A source that is a library already is taken as it is."""
        library = self.scratch / f"{stem}.so"
        if source.suffix == ".so":
            return source.resolve(), None
        if source.suffix == ".cu":
            major, minor = torch.cuda.get_device_capability()
            architecture = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
            command = ["nvcc", *self.flags, f"-arch={architecture}", "-shared", "-Xcompiler", "-fPIC"]
        else:
            command = ["gcc", "-O2", "-shared", "-fPIC"]
        command += [f"-I{self.scratch}", f"-I{source.resolve().parent}", str(source), "-o", str(library), "-lm"]
        return library, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def load(self, building):
        library, process = building
        if process:
            said = process.communicate()[1]
            if process.returncode:
                raise RuntimeError(f"{library.stem} does not build:\n{said}")
        return Library(library, self)


class Library:
    def __init__(self, path, contract):
        self.dll, self.contract = ctypes.CDLL(str(path)), contract

    def has(self, suffix):
        return hasattr(self.dll, NAME + suffix)

    def bind(self, inputs, outputs):
        return Bound(self, inputs, outputs)

    def run(self, inputs, suffix=""):
        """Fresh outputs of one call."""
        outputs = Outputs(inputs.scenario, inputs.device)
        self.bind(inputs, outputs).run(suffix)
        return outputs


class Bound:
    """A library with the arguments of one call."""

    def __init__(self, library, inputs, outputs):
        kind, self.library, self.device = library.contract.call, library, inputs.device
        self.call, self.keep = kind(ctypes.sizeof(kind), 1), [inputs, outputs]
        for name in library.contract.tensors:
            found = getattr(outputs, name) if name in ("out", "lse") else inputs.t.get(name)
            setattr(self.call, name, Tensor.of(found))
        for name, value in inputs.scenario.attributes().items():
            setattr(self.call, name, value)
        if self.device.type == "cuda":
            self.call.stream = torch.cuda.current_stream().cuda_stream
            self.call.device = torch.cuda.current_device()
        if library.has("_workspace"):
            size = getattr(library.dll, f"{NAME}_workspace")
            size.restype = ctypes.c_size_t
            amount = size(ctypes.byref(self.call))
            if amount:
                workspace = torch.zeros(amount, dtype=torch.uint8, device=self.device)
                self.keep.append(workspace)
                self.call.workspace, self.call.workspace_bytes = workspace.data_ptr(), amount
        if library.has("_prepare"):
            self.run("_prepare")

    def run(self, suffix="", sample=None):
        arguments = [ctypes.byref(self.call)] + ([ctypes.byref(sample)] if sample else [])
        status = getattr(self.library.dll, NAME + suffix)(*arguments)
        if status != 0:
            raise RuntimeError(f"{NAME}{suffix}: status {status}")

    def timed(self, suffix="", sample=None, again=True):
        """Milliseconds of a call: of a second one where the first was short, since that one sets things up."""
        if self.device.type != "cuda":
            start = time.perf_counter()
            self.run(suffix, sample)
            return 1e3 * (time.perf_counter() - start)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.run(suffix, sample)
        end.record()
        end.synchronize()
        took = begin.elapsed_time(end)
        return self.timed(suffix, sample, again=False) if again and took < 50 else took
