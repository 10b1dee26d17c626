"""What the Python worker does on the cuda target, with a driver and a torch that only keep record."""

import ctypes
import importlib.util
import pathlib
import sys
import types
import unittest

PATH = pathlib.Path(__file__).resolve().parent.parent / "src/client/python_worker.py"
spec = importlib.util.spec_from_file_location("python_worker", PATH)
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)

BASE = 0x7F0000000000
HANDLE = bytes(range(64))


class FakeLibrary:
    """libcuda with two GPUs."""

    UUIDS = [bytes([1] * 16), bytes(range(16))]

    def __init__(self):
        self.log, self.fail = [], None

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.log.append(name)
            if name == self.fail:
                return 201
            return getattr(self, "_" + name, lambda *_: 0)(*arguments)

        return call

    def _cuDeviceGetCount(self, out):
        out._obj.value = 2
        return 0

    def _cuDeviceGet(self, out, ordinal):
        out._obj.value = ordinal
        return 0

    def _cuDeviceGetUuid_v2(self, out, device):
        ctypes.memmove(out._obj, self.UUIDS[device.value], 16)
        return 0

    def _cuIpcOpenMemHandle_v2(self, out, handle, flags):
        assert bytes(handle.reserved) in (HANDLE, HANDLE[::-1]) and flags.value == 1
        out._obj.value = BASE
        return 0

    def _cuGetErrorName(self, code, out):
        out._obj.value = b"CUDA_ERROR_INVALID_CONTEXT"
        return 0


class FakeTensor:
    def __init__(self, interface, device, viewed=None):
        self.interface, self.device, self.viewed = interface, device, viewed

    def view(self, dtype):
        return FakeTensor(self.interface, self.device, dtype)


class FakeTorch:
    def __init__(self):
        self.synchronised = 0
        self.cuda = types.SimpleNamespace(synchronize=self.synchronise, is_available=lambda: True)

    def synchronise(self):
        self.synchronised += 1

    def __getattr__(self, name):
        return f"torch.{name}"

    def as_tensor(self, view, device):
        return FakeTensor(view.__cuda_array_interface__, device)

    def empty(self, shape, dtype, device):
        return FakeTensor({"shape": tuple(shape), "empty": dtype}, device)


def arena():
    library = FakeLibrary()
    return worker.CudaArena(FakeTorch(), worker.Driver(library)), library


def message(handle=HANDLE, device="GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", size=1 << 21):
    return {"device": device, "handle": [list(handle[:32]), list(handle[32:])], "bytes": size}


def plan(tensors):
    regions = [[{"offset": 4096 * slot, "size": 4096, "data": 256, "bytes": 1024}] for slot in range(2)]
    return {"layout": {"bytes": 8192, "regions": regions}, "tensors": tensors, "attributes": [["eps", {"f64": 0.5}]]}


def tensor(name="x", dtype=2, shape=(3, 5), stride=(8, 1), storage=0, offset=0):
    return {"name": name, "dtype": dtype, "shape": list(shape), "stride": list(stride), "storage": storage,
            "offset": offset, "writes": False}


class Map(unittest.TestCase):
    def mapped(self, tensors, **cuda):
        process = worker.Worker.__new__(worker.Worker)
        process.fds, process.calls, process.op, process.model = [], [], None, None
        process.cuda, self.library = arena()
        reply = process.map({"plan": plan(tensors), "cuda": message(**cuda)})
        self.assertEqual(reply, {"type": "mapped", "workspace_bytes": 0})
        return process

    def test_views_lie_where_the_plan_says(self):
        process = self.mapped([tensor(offset=4), tensor("bias", storage=None)])
        self.assertEqual(len(process.calls), 2)
        for slot, call in enumerate(process.calls):
            self.assertEqual(call.x.interface["data"], (BASE + 4096 * slot + 256 + 4, False))
            self.assertEqual(call.x.interface["shape"], (3, 5))
            self.assertEqual(call.x.interface["strides"], (32, 4))
            self.assertEqual(call.x.device, "cuda:1")
            self.assertIsNone(call.bias)
            self.assertEqual((call.eps, call.device, call.dtypes["x"]), (0.5, "cuda:1", "f32"))

    def test_every_dtype_has_a_torch_form(self):
        for code, (name, size, _, _) in worker.DTYPES.items():
            call = self.mapped([tensor(dtype=code, shape=(7,), stride=(2,))]).calls[0]
            typestr, seen_as = worker.CUDA_TYPES[name]
            self.assertEqual(call.x.interface["typestr"], typestr)
            self.assertEqual(int(typestr[2:]), size, name)
            self.assertEqual(call.x.interface["strides"], (2 * size,))
            self.assertEqual(call.x.viewed, seen_as and f"torch.{seen_as}")

    def test_an_empty_tensor_has_no_address(self):
        call = self.mapped([tensor(dtype=4, shape=(0, 5), stride=(5, 1))]).calls[0]
        self.assertEqual(call.x.interface, {"shape": (0, 5), "empty": "torch.int16"})
        self.assertEqual(call.x.viewed, "torch.bfloat16")

    def test_a_tensor_beyond_the_allocation_is_refused(self):
        with self.assertRaisesRegex(ValueError, "ends at byte"):
            self.mapped([tensor()], size=300)
        self.mapped([tensor(shape=(1, 5))], size=4096 + 256 + 20)

    def test_a_short_handle_is_refused(self):
        with self.assertRaisesRegex(ValueError, "64 bytes, not 63"):
            self.mapped([tensor()], handle=HANDLE[:63])

    def test_the_same_handle_is_opened_once_and_another_one_replaces_it(self):
        process = self.mapped([tensor()])
        process.map({"plan": plan([tensor()]), "cuda": message()})
        self.assertEqual(self.library.log.count("cuIpcOpenMemHandle_v2"), 1)
        process.map({"plan": plan([tensor()]), "cuda": message(handle=HANDLE[::-1])})
        self.assertEqual(self.library.log.count("cuIpcOpenMemHandle_v2"), 2)
        self.assertEqual(self.library.log.count("cuIpcCloseMemHandle"), 1)
        self.assertLess(self.library.log.index("cuCtxSetCurrent"), self.library.log.index("cuIpcOpenMemHandle_v2"))
        self.assertEqual(process.cuda.torch.synchronised, 1)

    def test_every_call_is_waited_for(self):
        process = self.mapped([tensor()])
        seen = []
        process.op = lambda call: seen.append((call, process.cuda.torch.synchronised))
        reply = process.call({"sequence": 9, "entry": "main", "slots": [1, 0]})
        self.assertEqual(reply["statuses"], ["ok", "ok"])
        self.assertEqual([before for _, before in seen], [0, 1])
        self.assertEqual(process.cuda.torch.synchronised, 2)


class Devices(unittest.TestCase):
    def test_a_device_is_a_number_or_a_uuid(self):
        driver = worker.Driver(FakeLibrary())
        self.assertEqual(driver.ordinal(3), 3)
        self.assertEqual(driver.ordinal("GPU-01010101-0101-0101-0101-010101010101"), 0)
        with self.assertRaisesRegex(RuntimeError, "sees no GPU"):
            driver.ordinal("GPU-ffffffff-ffff-ffff-ffff-ffffffffffff")

    def test_an_error_of_the_driver_has_its_name(self):
        library = FakeLibrary()
        library.fail = "cuIpcOpenMemHandle_v2"
        with self.assertRaisesRegex(RuntimeError, r"cuIpcOpenMemHandle_v2: CUDA_ERROR_INVALID_CONTEXT \(201\)"):
            worker.Driver(library).open(0, HANDLE)


if __name__ == "__main__":
    sys.exit(unittest.main())
