"""KernelSeek's Python worker: runs a trusted reference or baseline written as `def op(call)`.

Speaks the worker protocol (docs/reference/worker-protocol.md) over an inherited Unix socket. Tensors are views
of the supervisor's buffers: on the cpu target numpy arrays where numpy can be imported, nested-indexable memoryviews
otherwise; on the cuda target torch tensors on the GPU.
"""

import ctypes
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
# name -> (type of the array interface, torch dtype that the bits are viewed as)
CUDA_TYPES = {
    "f64": ("<f8", None),
    "f32": ("<f4", None),
    "f16": ("<f2", None),
    "bf16": ("<i2", "bfloat16"),
    "f8e4m3": ("|u1", "float8_e4m3fn"),
    "f8e5m2": ("|u1", "float8_e5m2"),
    "i64": ("<i8", None),
    "i32": ("<i4", None),
    "i16": ("<i2", None),
    "i8": ("|i1", None),
    "u8": ("|u1", None),
    "bool": ("|b1", None),
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


class CudaCall(Call):
    """A call whose tensors are torch tensors on the GPU, of their own dtypes."""

    def f32(self, name):
        """The values of tensor `name` as float32."""
        return getattr(self, name).float()

    def store(self, name, values):
        """Writes `values` to tensor `name`, rounding to its dtype."""
        tensor = getattr(self, name)
        tensor.copy_(values.to(tensor.dtype))


class CudaView:
    """Strided memory on the GPU, in the form that torch takes without a copy."""

    def __init__(self, address, shape, strides, typestr):
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "strides": tuple(strides),
            "typestr": typestr,
        }


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class Driver:
    """The calls of the CUDA driver that opening the supervisor's memory takes."""

    def __init__(self, library=None):
        if library is None:
            try:
                library = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                raise RuntimeError(f"the NVIDIA driver's library cannot be loaded: {error}") from error
        self.library = library
        self.must("cuInit", 0)

    def must(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else 'error'} ({code})")

    def ordinal(self, device):
        """The number of a GPU among those that this process sees: a number as it is, a UUID looked up."""
        if isinstance(device, int):
            return device
        wanted = bytes.fromhex(device.removeprefix("GPU-").replace("-", ""))
        count = ctypes.c_int()
        self.must("cuDeviceGetCount", ctypes.byref(count))
        for ordinal in range(count.value):
            handle, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            self.must("cuDeviceGet", ctypes.byref(handle), ordinal)
            self.must("cuDeviceGetUuid_v2", ctypes.byref(uuid), handle)
            if bytes(uuid) == wanted:
                return ordinal
        raise RuntimeError(f"this process sees no GPU {device}")

    def open(self, ordinal, handle):
        """The address of the supervisor's memory in the primary context of GPU `ordinal`, which torch uses too."""
        device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        self.must("cuDeviceGet", ctypes.byref(device), ordinal)
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.must("cuCtxSetCurrent", context)
        ipc = IpcHandle((ctypes.c_ubyte * 64)(*handle))
        lazy_peer_access = 1
        self.must("cuIpcOpenMemHandle_v2", ctypes.byref(address), ipc, ctypes.c_uint(lazy_peer_access))
        return address.value

    def close(self, address):
        self.must("cuIpcCloseMemHandle", ctypes.c_uint64(address))


class CudaArena:
    """The supervisor's allocation on the GPU, and its tensors as torch sees them."""

    def __init__(self, torch, driver=None):
        self.torch, self.driver = torch, driver or Driver()
        self.opened = None  # handle, address, bytes
        self.device = None

    def map(self, cuda):
        handle = bytes(byte for part in cuda["handle"] for byte in part)
        if len(handle) != 64:
            raise ValueError(f"an IPC handle has 64 bytes, not {len(handle)}")
        if self.opened is not None and self.opened[0] == handle:
            return
        self.release()
        ordinal = self.driver.ordinal(cuda.get("device", 0))
        address = self.driver.open(ordinal, handle)
        self.opened = (handle, address, int(cuda["bytes"]))
        self.device = f"cuda:{ordinal}"

    def release(self):
        if self.opened is not None:
            self.torch.cuda.synchronize()
            self.driver.close(self.opened[1])
            self.opened = None

    def view(self, name, size, shape, stride, start):
        """The tensor of dtype `name` (elements of `size` bytes) that begins `start` bytes into the allocation."""
        typestr, seen_as = CUDA_TYPES[name]
        _, address, limit = self.opened
        if all(shape):
            last = start + (1 + sum((n - 1) * s for n, s in zip(shape, stride))) * size
            if start < 0 or last > limit:
                raise ValueError(f"a tensor ends at byte {last} of an allocation of {limit}")
            view = CudaView(address + start, shape, [s * size for s in stride], typestr)
            tensor = self.torch.as_tensor(view, device=self.device)
        else:
            bits = {"<f8": "float64", "<f4": "float32", "<f2": "float16", "<i8": "int64", "<i4": "int32",
                    "<i2": "int16", "|i1": "int8", "|u1": "uint8", "|b1": "bool"}[typestr]
            tensor = self.torch.empty(shape, dtype=getattr(self.torch, bits), device=self.device)
        return tensor if seen_as is None else tensor.view(getattr(self.torch, seen_as))


def import_torch():
    try:
        import torch
    except ImportError as error:
        raise RuntimeError(f"a Python reference on the cuda target needs torch in {sys.executable}: {error}") from error
    if not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} in {sys.executable} cannot use a GPU here")
    return torch


class Worker:
    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)
        self.buffer = b""
        self.fds = []
        self.op = None
        self.model = None
        self.calls = []
        self.cuda = None  # CudaArena, from the first map message of the cuda target on

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
        self.calls = []  # no view may outlive its memory
        if request.get("cuda") is not None:
            if self.cuda is None:
                self.cuda = CudaArena(import_torch())
            self.cuda.map(request["cuda"])
            kind, view_of = CudaCall, self.cuda_view
        else:
            fd = self.fds.pop(0)
            memory = mmap.mmap(fd, layout["bytes"])
            os.close(fd)
            kind, view_of = Call, lambda *place: self.host_view(memory, *place)
        for regions in layout["regions"]:
            call = kind()
            for tensor in plan["tensors"]:
                view = None
                if tensor["storage"] is not None:
                    region = regions[tensor["storage"]]
                    start = region["offset"] + region["data"] + tensor["offset"]
                    end = region["offset"] + region["data"] + region["bytes"]
                    call.dtypes[tensor["name"]] = DTYPES[tensor["dtype"]][0]
                    view = view_of(tensor, start, end)
                setattr(call, tensor["name"], view)
            for name, value in plan["attributes"]:
                setattr(call, name, next(iter(value.values())))
            if kind is CudaCall:
                call.device = self.cuda.device
            self.calls.append(call)
        return {"type": "mapped", "workspace_bytes": 0}

    def cuda_view(self, tensor, start, _end):
        name, size, _, _ = DTYPES[tensor["dtype"]]
        return self.cuda.view(name, size, tensor["shape"], tensor["stride"], start)

    @staticmethod
    def host_view(memory, tensor, start, end):
        name, size, np_name, fmt = DTYPES[tensor["dtype"]]
        if numpy is not None:
            return numpy.ndarray(
                tensor["shape"],
                dtype=np_name,
                buffer=memory,
                offset=start,
                strides=[s * size for s in tensor["stride"]],
            )
        if fmt is None:
            raise TypeError(f"tensor {tensor['name']} is {name}: install numpy to use it")
        end -= (end - start) % size
        return Plain(memoryview(memory)[start:end].cast(fmt), tensor["shape"], tensor["stride"])

    def call(self, request):
        function = self.model if request["entry"] == "model" else self.op
        statuses, nanos = [], []
        for slot in request["slots"]:
            start = time.perf_counter_ns()
            code = function(self.calls[slot])
            if self.cuda is not None:
                self.cuda.torch.cuda.synchronize()
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
