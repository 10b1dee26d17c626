/* Runs the threads of emulated kernels. One launch at a time in a process: whoever runs several holds a lock. */
#ifndef KS_EMULATE_SCHEDULER_H
#define KS_EMULATE_SCHEDULER_H

#include "machine.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

namespace emu {
constexpr size_t STACK = 64 << 10;
struct Fiber {
    jmp_buf here;
    Thread thread;
    Wait wait;
    bool started;
    std::unique_ptr<char[]> stack;
};

class Scheduler {
public:
    Machine machine{};
    const char *died = nullptr; /* why the last launch ended early */

    explicit Scheduler(void (*die)(const char *)) { machine.pause = &Scheduler::pause; machine.die = die; the = this; }

    /* False if the kernel died. */
    bool run(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel)
    {
        const unsigned n = block.x * block.y * block.z;
        machine.grid = grid;
        machine.block = block;
        dynamic.assign((shared + 15) / 8 + 2, 0);
        machine.dynamic = (void *)(((uintptr_t)dynamic.data() + 15) & ~(uintptr_t)15);
        warps.resize((n + 31) / 32);
        machine.warps = warps.data();
        if (fibers.empty())
            fibers.resize(1024);
        threads = n;
        body = &kernel;
        died = nullptr;
        if (_setjmp(end)) {
            fibers.clear(); /* what they were in the middle of is gone */
            return false;
        }
        unsigned pass = 0;
        dim3 &at = machine.block_index;
        for (at.z = 0; at.z < grid.z; at.z++)
            for (at.y = 0; at.y < grid.y; at.y++)
                for (at.x = 0; at.x < grid.x; at.x++)
                    run_block(pass++);
        return true;
    }

    /* Ends the launch from within a kernel. */
    [[noreturn]] void abandon(const char *why)
    {
        died = why;
        _longjmp(end, 1);
    }

private:
    static inline Scheduler *the; /* what `pause` and a new fiber belong to */
    jmp_buf back, end;
    std::vector<Fiber> fibers; /* kept from launch to launch */
    std::vector<Warp> warps;
    std::vector<uint64_t> dynamic;
    const std::function<void()> *body = nullptr;
    Fiber *current = nullptr;
    unsigned threads = 0;

    /* Back to the scheduler. Jumps instead of swapcontext: no system call for each of some million switches. */
    static void pause(Wait w)
    {
        Fiber *me = the->current;
        me->wait = w;
        if (!_setjmp(me->here))
            _longjmp(the->back, 1);
    }
    static void enter()
    {
        for (;;) { /* once for each block that has this thread */
            (*the->body)();
            pause(Wait::Done);
        }
    }
    void resume(Fiber &f)
    {
        current = &f;
        machine.thread = &f.thread;
        if (_setjmp(back))
            return;
        if (f.started)
            _longjmp(f.here, 1);
        f.started = true;
        f.stack.reset(new char[STACK]);
        ucontext_t start;
        getcontext(&start);
        start.uc_stack.ss_sp = f.stack.get();
        start.uc_stack.ss_size = STACK;
        start.uc_link = nullptr;
        makecontext(&start, enter, 0);
        setcontext(&start);
    }
    void release()
    {
        bool all_block = true, moved = false;
        for (unsigned w = 0; w * 32 < threads; w++) {
            bool all_warp = true, any = false; /* a thread that has left does not take part in an exchange of all lanes */
            for (unsigned t = w * 32; t < threads && t < w * 32 + 32; t++) {
                const Wait s = fibers[t].wait;
                any |= s == Wait::Warp;
                all_warp &= s == Wait::Warp;
                all_block &= s == Wait::Block || s == Wait::Done;
            }
            if (any && all_warp) {
                moved = true;
                for (unsigned t = w * 32; t < threads && t < w * 32 + 32; t++)
                    fibers[t].wait = Wait::None;
            }
        }
        if (moved)
            return;
        if (!all_block)
            machine.die("threads wait for each other: a barrier or an exchange that not every thread reaches");
        for (auto &f : fibers)
            if (f.wait == Wait::Block)
                f.wait = Wait::None;
    }
    void run_block(unsigned pass)
    {
        const dim3 block = machine.block;
        std::fill(dynamic.begin(), dynamic.end(), 0x7ff7dead7fc1deadull); /* nothing may count on zeros */
        for (unsigned t = 0; t < threads; t++) {
            Fiber &f = fibers[t];
            f.thread = {dim3(t % block.x, t / block.x % block.y, t / block.x / block.y), t};
            f.wait = Wait::None;
        }
        for (;; pass++) {
            bool ran = false, alive = false;
            for (unsigned i = 0; i < threads; i++) {
                Fiber &f = fibers[pass % 2 ? threads - 1 - i : i];
                if (f.wait == Wait::None) {
                    ran = true;
                    resume(f);
                }
                alive |= f.wait != Wait::Done;
            }
            if (!alive)
                return;
            if (!ran)
                release();
        }
    }
};
} // namespace emu

#endif
