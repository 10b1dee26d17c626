// Stands in for libcuda.so.1 where there is no GPU: streams are threads, device memory is shared memory, kernels run on
// the CPU. It shows that calls come in an order that a driver takes and that each side sees what it should. It shows
// nothing about time, and little about what a driver does wrong.
//
// What is as on a GPU: work of a stream runs in order and beside the host; an allocation is mapped by itself, so that an
// access beside it fails; after a failed kernel every call gives its error until the process ends; memory is opened by
// handle in a process that cannot open files any more.
#include "driver.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>

#include "pool.h"
#include "scheduler.h"

namespace stand_in {
namespace {
std::atomic<int> failed{OK}; // what the device died of in this process

// ---- kernels

thread_local bool in_kernel = false;
[[noreturn]] void die(const char *why);
emu::Scheduler &scheduler()
{
    static emu::Scheduler one(die);
    return one;
}
[[noreturn]] void die(const char *why) { scheduler().abandon(why); }

struct sigaction before[NSIG];
void on_fault(int signal, siginfo_t *info, void *context)
{
    if (in_kernel)
        scheduler().abandon("an illegal address");
    // Not a kernel's: as whoever handled it before would have it.
    sigaction(signal, &before[signal], nullptr);
    const struct sigaction &b = before[signal];
    if (b.sa_flags & SA_SIGINFO)
        b.sa_sigaction(signal, info, context);
}
void catch_faults()
{
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE}) {
        struct sigaction a{};
        a.sa_sigaction = on_fault;
        a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(signal, &a, &before[signal]);
    }
}

std::mutex gpu; // one kernel at a time
int run_kernel(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel)
{
    std::lock_guard<std::mutex> one(gpu);
    in_kernel = true;
    const bool whole = scheduler().run(grid, block, shared, kernel);
    in_kernel = false;
    if (whole)
        return OK;
    return strstr(scheduler().died, "address") ? ILLEGAL_ADDRESS : LAUNCH_FAILED;
}

// ---- streams

typedef std::function<int()> Work;

class Stream {
public:
    Stream() : thread([this] { work(); }) { thread.detach(); }
    int add(Work w)
    {
        std::lock_guard<std::mutex> hold(lock);
        if (recording) {
            recorded.push_back(std::move(w));
            return OK;
        }
        queue.push_back(std::move(w));
        changed.notify_all();
        return OK;
    }
    void wait()
    {
        std::unique_lock<std::mutex> hold(lock);
        changed.wait(hold, [this] { return queue.empty() && !busy; });
    }
    bool idle()
    {
        std::lock_guard<std::mutex> hold(lock);
        return queue.empty() && !busy;
    }
    bool records()
    {
        std::lock_guard<std::mutex> hold(lock);
        return recording;
    }
    void begin()
    {
        std::lock_guard<std::mutex> hold(lock);
        recording = true;
        recorded.clear();
    }
    std::vector<Work> end()
    {
        std::lock_guard<std::mutex> hold(lock);
        recording = false;
        return std::move(recorded);
    }

private:
    std::mutex lock;
    std::condition_variable changed;
    std::deque<Work> queue;
    std::vector<Work> recorded;
    bool busy = false, recording = false;
    std::thread thread;

    void work()
    {
        for (;;) {
            Work next;
            {
                std::unique_lock<std::mutex> hold(lock);
                busy = false;
                changed.notify_all();
                changed.wait(hold, [this] { return !queue.empty(); });
                next = std::move(queue.front());
                queue.pop_front();
                busy = true;
            }
            if (failed != OK)
                continue;
            const int answer = next();
            int none = OK;
            if (answer != OK)
                failed.compare_exchange_strong(none, answer);
        }
    }
};

std::mutex tables;
std::map<Stream *, std::shared_ptr<Stream>> streams;
Stream *legacy = nullptr;

Stream *stream_of(void *handle)
{
    // 1 and 2 name the legacy and the per-thread default stream.
    return (uintptr_t)handle <= 2 ? legacy : (Stream *)handle;
}
bool known(Stream *s)
{
    std::lock_guard<std::mutex> hold(tables);
    return streams.count(s) != 0;
}

// ---- memory

struct Piece {
    uint64_t offset;
    size_t bytes;
    bool own;
};
std::map<uint64_t, Piece> pieces;

int map_piece(uint64_t *address, const Piece &piece)
{
    void *at = pool::map(piece.offset, piece.bytes);
    if (!at)
        return OUT_OF_MEMORY;
    *address = (uint64_t)at;
    std::lock_guard<std::mutex> hold(tables);
    pieces[*address] = piece;
    return OK;
}
} // namespace

int enqueue(void *stream, std::function<int()> work)
{
    if (failed != OK)
        return failed;
    Stream *s = stream_of(stream);
    return known(s) ? s->add(std::move(work)) : INVALID_VALUE;
}

int launch(void *stream, dim3 grid, dim3 block, size_t shared, std::function<void()> kernel)
{
    const unsigned threads = block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || !threads || threads > 1024 ||
        shared > emu::SHARED_MOST)
        return INVALID_VALUE;
    return enqueue(stream, [=] { return run_kernel(grid, block, shared, kernel); });
}

int wait(void *stream)
{
    Stream *s = stream_of(stream);
    if (!known(s))
        return INVALID_VALUE;
    if (s->records())
        return CAPTURE_UNSUPPORTED;
    s->wait();
    return failed;
}

int wait_for_all()
{
    std::vector<std::shared_ptr<Stream>> all;
    {
        std::lock_guard<std::mutex> hold(tables);
        for (auto &s : streams)
            all.push_back(s.second);
    }
    for (auto &s : all) {
        if (s->records())
            return CAPTURE_UNSUPPORTED;
        s->wait();
    }
    return failed;
}

void *new_stream()
{
    auto made = std::make_shared<Stream>();
    std::lock_guard<std::mutex> hold(tables);
    streams[made.get()] = made;
    // Its thread never ends, so the object must not either.
    static auto *kept = new std::vector<std::shared_ptr<Stream>>;
    kept->push_back(made);
    return made.get();
}

int drop_stream(void *stream)
{
    Stream *s = (Stream *)stream;
    if (!known(s))
        return INVALID_VALUE;
    s->wait();
    std::lock_guard<std::mutex> hold(tables);
    streams.erase(s);
    return OK;
}

int allocate(uint64_t *address, size_t bytes)
{
    if (failed != OK)
        return failed;
    bytes = (bytes + pool::PAGE - 1) / pool::PAGE * pool::PAGE;
    const uint64_t offset = pool::take(bytes);
    return offset == 0 ? (int)OUT_OF_MEMORY : map_piece(address, {offset, bytes, true});
}

int release(uint64_t address)
{
    wait_for_all();
    std::lock_guard<std::mutex> hold(tables);
    auto found = pieces.find(address);
    if (found == pieces.end())
        return INVALID_VALUE;
    const Piece piece = found->second;
    pieces.erase(found);
    if (piece.own)
        pool::give_back(piece.offset, piece.bytes);
    munmap((void *)address, piece.bytes);
    return failed;
}

emu::Machine *machine() { return &scheduler().machine; }

int start()
{
    static std::once_flag once;
    static int answer = OK;
    std::call_once(once, [] {
        catch_faults();
        answer = pool::open() ? OK : NOT_FOUND;
        legacy = (Stream *)new_stream();
    });
    return answer;
}

const char *name_of(int answer)
{
    switch (answer) {
    case OK: return "CUDA_SUCCESS";
    case INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case NOT_FOUND: return "CUDA_ERROR_NOT_FOUND";
    case NOT_READY: return "CUDA_ERROR_NOT_READY";
    case ILLEGAL_STATE: return "CUDA_ERROR_ILLEGAL_STATE";
    case ILLEGAL_ADDRESS: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case LAUNCH_FAILED: return "CUDA_ERROR_LAUNCH_FAILED";
    case CAPTURE_UNSUPPORTED: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    default: return "CUDA_ERROR_UNKNOWN";
    }
}
const char *text_of(int answer)
{
    switch (answer) {
    case OK: return "no error";
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case NOT_FOUND: return "named symbol not found";
    case NOT_READY: return "device not ready";
    case ILLEGAL_STATE: return "the operation cannot be performed in the present state";
    case ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
    case LAUNCH_FAILED: return "unspecified launch failure";
    case CAPTURE_UNSUPPORTED: return "operation not permitted when stream is capturing";
    default: return "unknown error";
    }
}
} // namespace stand_in

// ---- the driver API, as far as the project calls it

using namespace stand_in;
typedef uint64_t Address;

namespace {
struct Handle { // of an allocation, 64 bytes in all
    uint64_t magic, offset, bytes, rest[5];
};
constexpr uint64_t MAGIC = 0x6b73207374616e64;

struct Event {
    std::atomic<bool> passed{false};
    double milliseconds = 0;
};
double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
struct Graph {
    std::vector<Work> work;
};
Graph *copied(const Graph *g) { return new Graph(*g); }
int attribute(int which)
{
    switch (which) {
    case 13: return 1000000;      // clock rate, kHz: that of `clock64`
    case 16: return 2;            // multiprocessors
    case 38: return 1 << 20;      // L2 bytes
    case 75: return 9;            // compute capability
    case 76: return 0;
    case 108: return 0;           // persisting L2
    default: return 1;
    }
}
} // namespace

// One entry of `helpers.cpp`: a kernel by name and how its parameters are read.
namespace stand_in {
std::function<void()> helper(void *function, void **parameters);
void *find_helper(const char *name);
} // namespace stand_in

extern "C" {
int cuInit(unsigned) { return start(); }
int cuDriverGetVersion(int *v) { *v = 13000; return OK; }
int cuDeviceGetCount(int *n) { *n = 1; return OK; }
int cuDeviceGet(int *d, int ordinal) { *d = 0; return ordinal == 0 ? OK : INVALID_VALUE; }
int cuDeviceGetName(char *name, int room, int) { snprintf(name, (size_t)room, "stand-in GPU"); return OK; }
int cuDeviceGetAttribute(int *value, int which, int) { *value = attribute(which); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int) { *bytes = pool::MEMORY; return OK; }
int cuDeviceGetUuid_v2(unsigned char *bytes, int)
{
    const unsigned char uuid[16] = {0x11, 0x11, 0x11, 0x11, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 1};
    memcpy(bytes, uuid, sizeof uuid);
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int) { *context = (void *)1; return OK; }
int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
int cuCtxSetCurrent(void *) { return OK; }
int cuCtxGetDevice(int *d) { *d = 0; return OK; }
int cuCtxSetLimit(int, size_t) { return OK; }
int cuCtxResetPersistingL2Cache() { return OK; }
int cuCtxSynchronize() { return wait_for_all(); }
int cuGetErrorName(int answer, const char **text) { *text = name_of(answer); return OK; }
int cuGetErrorString(int answer, const char **text) { *text = text_of(answer); return OK; }

int cuMemAlloc_v2(Address *address, size_t bytes) { return allocate(address, bytes); }
int cuMemFree_v2(Address address) { return release(address); }
int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    *total = pool::MEMORY;
    *free = pool::free_bytes();
    return OK;
}
int cuMemAllocAsync(Address *address, size_t bytes, void *) { return allocate(address, bytes); }
int cuMemFreeAsync(Address address, void *) { return release(address); }
int cuDeviceGetDefaultMemPool(void **pool, int) { *pool = (void *)1; return OK; }
int cuMemPoolSetAttribute(void *, int, void *) { return OK; }
int cuMemPoolTrimTo(void *, size_t) { return OK; }
int cuMemHostRegister_v2(void *, size_t, unsigned) { return OK; }
int cuMemHostGetDevicePointer_v2(Address *address, void *host, unsigned) { *address = (Address)host; return OK; }

int cuIpcGetMemHandle(Handle *handle, Address address)
{
    std::lock_guard<std::mutex> hold(tables);
    auto found = pieces.find(address);
    if (found == pieces.end() || !found->second.own)
        return INVALID_VALUE;
    *handle = {MAGIC, found->second.offset, found->second.bytes, {}};
    return OK;
}
int cuIpcOpenMemHandle_v2(Address *address, Handle handle, unsigned)
{
    if (handle.magic != MAGIC)
        return INVALID_VALUE;
    return map_piece(address, {handle.offset, (size_t)handle.bytes, false});
}
int cuIpcCloseMemHandle(Address address) { return release(address); }

int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void *stream)
{
    return enqueue(stream, [=] { memset((void *)to, value, bytes); return OK; });
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream)
{
    return enqueue(stream, [=] { memcpy((void *)to, (const void *)from, bytes); return OK; });
}
int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream)
{
    // Pageable memory is staged before the call returns.
    auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
    return enqueue(stream, [=] { memcpy((void *)to, staged->data(), staged->size()); return OK; });
}
int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream)
{
    const int answer = enqueue(stream, [=] { memcpy(to, (const void *)from, bytes); return OK; });
    return answer ? answer : wait(stream);
}

int cuStreamCreate(void **stream, unsigned) { *stream = new_stream(); return failed; }
int cuStreamDestroy_v2(void *stream) { return drop_stream(stream); }
int cuStreamSynchronize(void *stream) { return wait(stream); }
int cuStreamQuery(void *stream)
{
    if (failed != OK)
        return failed;
    Stream *s = stream_of(stream);
    return !known(s) ? INVALID_VALUE : s->idle() ? OK : NOT_READY;
}
int cuStreamWaitValue32_v2(void *stream, Address address, uint32_t value, unsigned)
{
    return enqueue(stream, [=] {
        auto word = (const std::atomic<uint32_t> *)address;
        while (word->load(std::memory_order_acquire) != value)
            sched_yield();
        return OK;
    });
}
int cuStreamWriteValue32_v2(void *stream, Address address, uint32_t value, unsigned)
{
    return enqueue(stream, [=] {
        ((std::atomic<uint32_t> *)address)->store(value, std::memory_order_release);
        return OK;
    });
}

int cuEventCreate(void **event, unsigned) { *event = new Event; return OK; }
int cuEventDestroy_v2(void *event)
{
    (void)event; // work that names it may be on its way
    return OK;
}
int cuEventRecord(void *event, void *stream)
{
    auto e = (Event *)event;
    e->passed = false;
    return enqueue(stream, [=] { e->milliseconds = now(); e->passed = true; return OK; });
}
int cuEventElapsedTime(float *milliseconds, void *first, void *last)
{
    if (failed != OK)
        return failed;
    auto a = (Event *)first, b = (Event *)last;
    if (!a->passed || !b->passed)
        return NOT_READY;
    *milliseconds = (float)(b->milliseconds - a->milliseconds);
    return OK;
}

int cuStreamBeginCapture_v2(void *stream, int)
{
    Stream *s = stream_of(stream);
    if (!known(s) || s == legacy || s->records())
        return ILLEGAL_STATE;
    s->begin();
    return OK;
}
int cuStreamEndCapture(void *stream, void **graph)
{
    Stream *s = stream_of(stream);
    if (!known(s) || !s->records())
        return ILLEGAL_STATE;
    *graph = new Graph{s->end()};
    return OK;
}
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long)
{
    *exec = copied((Graph *)graph);
    return OK;
}
int cuGraphDestroy(void *graph) { delete (Graph *)graph; return OK; }
int cuGraphExecDestroy(void *graph) { delete (Graph *)graph; return OK; }
int cuGraphUpload(void *, void *) { return failed; }
int cuGraphLaunch(void *graph, void *stream)
{
    for (const Work &w : ((Graph *)graph)->work)
        if (const int answer = enqueue(stream, w))
            return answer;
    return OK;
}

int cuModuleLoadData(void **module, const void *) { *module = (void *)1; return OK; }
int cuModuleUnload(void *) { return OK; }
int cuModuleGetFunction(void **function, void *, const char *name)
{
    *function = find_helper(name);
    return *function ? OK : NOT_FOUND;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **)
{
    return launch(stream, dim3(gx, gy, gz), dim3(bx, by, bz), shared, helper(function, parameters));
}
}
