"""KernelSeek's Python worker: runs a trusted reference or baseline written as `def op(call)`.

Speaks the worker protocol (docs/reference/worker-protocol.md) over an inherited Unix socket. Tensors are views
of the supervisor's buffers: numpy arrays where numpy can be imported, nested-indexable memoryviews otherwise.
"""

import importlib.util
import json
import mmap
import os
import socket
import struct
import sys
import time

try:
    import numpy
except ImportError:
    numpy = None

VERSION = 2
# code -> (name, bytes, numpy name, memoryview format)
DTYPES = {
    1: ("f64", 8, "float64", "d"),
    2: ("f32", 4, "float32", "f"),
    3: ("f16", 2, "float16", None),
    4: ("bf16", 2, "uint16", "H"),
    5: ("f8e4m3", 1, "uint8", "B"),
    6: ("f8e5m2", 1, "uint8", "B"),
    7: ("i64", 8, "int64", "q"),
    8: ("i32", 4, "int32", "i"),
    9: ("i16", 2, "int16", "h"),
    10: ("i8", 1, "int8", "b"),
    11: ("u8", 1, "uint8", "B"),
    12: ("bool", 1, "bool", "?"),
}
STATUS = {0: "ok", 1: "unsupported", 2: "error"}


def decode_f8(byte, exponent_bits, mantissa_bits, bias, finite_only):
    sign = -1.0 if byte & 0x80 else 1.0
    exponent = (byte >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = byte & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if finite_only:
        if exponent == top and mantissa == (1 << mantissa_bits) - 1:
            return float("nan")
    elif exponent == top:
        return sign * float("inf") if mantissa == 0 else float("nan")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1.0 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


F8_TABLES = {
    "f8e4m3": [decode_f8(b, 4, 3, 7, True) for b in range(256)],
    "f8e5m2": [decode_f8(b, 5, 2, 15, False) for b in range(256)],
}


class Call:
    """One call: every present tensor and every attribute is an attribute of this object; absent tensors are None.

    `bf16` and fp8 tensors have no numpy type and appear as their bit patterns; `f32(name)` gives the values and
    `store(name, values)` rounds values back to nearest even.
    """

    def __init__(self):
        self.dtypes = {}

    def f32(self, name):
        """The values of tensor `name` as float32 (numpy only)."""
        raw, dtype = getattr(self, name), self.dtypes[name]
        if dtype == "bf16":
            return (raw.astype(numpy.uint32) << 16).view(numpy.float32)
        if dtype in F8_TABLES:
            return numpy.array(F8_TABLES[dtype], dtype=numpy.float32)[raw]
        return raw.astype(numpy.float32)

    def store(self, name, values):
        """Writes `values` to tensor `name`, rounding to nearest even (numpy only; not for fp8)."""
        raw, dtype = getattr(self, name), self.dtypes[name]
        values = numpy.asarray(values)
        if dtype == "bf16":
            bits = values.astype(numpy.float32).view(numpy.uint32)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            raw[...] = numpy.where(numpy.isnan(values), 0x7FC0, rounded).astype(numpy.uint16)
        elif dtype in F8_TABLES:
            raise TypeError(f"storing to {dtype} is not supported")
        else:
            raw[...] = values


class Plain:
    """A strided view without numpy: index with a tuple, or flat with one integer when the tensor is a vector."""

    def __init__(self, view, shape, stride):
        self.view, self.shape, self.stride = view, tuple(shape), tuple(stride)

    def at(self, index):
        if not isinstance(index, tuple):
            index = (index,)
        return sum(i * s for i, s in zip(index, self.stride))

    def __getitem__(self, index):
        return self.view[self.at(index)]

    def __setitem__(self, index, value):
        self.view[self.at(index)] = value


class Worker:
    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)
        self.buffer = b""
        self.fds = []
        self.op = None
        self.model = None
        self.calls = []

    def send(self, message):
        payload = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(payload)) + payload)

    def receive(self):
        while True:
            if len(self.buffer) >= 4:
                (length,) = struct.unpack_from("<I", self.buffer)
                if len(self.buffer) >= 4 + length:
                    payload, self.buffer = self.buffer[4 : 4 + length], self.buffer[4 + length :]
                    return json.loads(payload)
            data, fds, _, _ = socket.recv_fds(self.socket, 65536, 4)
            self.fds.extend(fds)
            if not data:
                sys.exit(0)
            self.buffer += data

    def load(self, request):
        if request["version"] != VERSION:
            raise ValueError(f"protocol version {request['version']} is not {VERSION}")
        self.send({"type": "locked", "layers": None})
        path = request["artifact"]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location("kernelseek_reference", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.op = getattr(module, "op", None)
        if self.op is None:
            raise AttributeError(f"{path} does not define op(call)")
        self.model = getattr(module, "model", None)
        return {"type": "loaded", "workspace": False, "prepare": False, "model": self.model is not None}

    def map(self, request):
        plan = request["plan"]
        layout = plan["layout"]
        fd = self.fds.pop(0)
        memory = mmap.mmap(fd, layout["bytes"])
        os.close(fd)
        self.calls = []
        for regions in layout["regions"]:
            call = Call()
            for tensor in plan["tensors"]:
                view = None
                if tensor["storage"] is not None:
                    region = regions[tensor["storage"]]
                    start = region["offset"] + region["data"] + tensor["offset"]
                    end = region["offset"] + region["data"] + region["bytes"]
                    name, size, np_name, fmt = DTYPES[tensor["dtype"]]
                    call.dtypes[tensor["name"]] = name
                    if numpy is not None:
                        view = numpy.ndarray(
                            tensor["shape"],
                            dtype=np_name,
                            buffer=memory,
                            offset=start,
                            strides=[s * size for s in tensor["stride"]],
                        )
                    elif fmt is not None:
                        end -= (end - start) % size
                        flat = memoryview(memory)[start:end].cast(fmt)
                        view = Plain(flat, tensor["shape"], tensor["stride"])
                    else:
                        raise TypeError(f"tensor {tensor['name']} is {name}: install numpy to use it")
                setattr(call, tensor["name"], view)
            for name, value in plan["attributes"]:
                setattr(call, name, next(iter(value.values())))
            self.calls.append(call)
        return {"type": "mapped", "workspace_bytes": 0}

    def call(self, request):
        function = self.model if request["entry"] == "model" else self.op
        statuses, nanos = [], []
        for slot in request["slots"]:
            start = time.perf_counter_ns()
            code = function(self.calls[slot])
            nanos.append(time.perf_counter_ns() - start)
            code = 0 if code is None else int(code)
            statuses.append(STATUS.get(code, {"unknown": code}))
        return {"type": "done", "sequence": request["sequence"], "statuses": statuses, "nanos": nanos}

    def run(self):
        self.send({"type": "pid", "pid": os.getpid()})
        while True:
            request = self.receive()
            if request["type"] == "bye":
                return
            try:
                reply = getattr(self, request["type"])(request)
            except Exception as error:  # reported to the supervisor, which prints it with the file's name
                trace, place = error.__traceback__, ""
                while trace is not None:
                    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: "
                    trace = trace.tb_next
                reply = {"type": "failed", "message": f"{place}{type(error).__name__}: {error}"}
            self.send(reply)


if __name__ == "__main__":
    Worker(int(sys.argv[1])).run()
