// What the stand-in's libraries know of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "machine.h"

namespace stand_in {
// Answers of the driver that are given here, by their numbers in the driver API.
enum : int {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ASSERT = 710,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
};

// Appends work to a stream (nullptr: the legacy one), or to what it records. `work` says how it ended.
int enqueue(void *stream, std::function<int()> work);
// Appends a launch: the threads of `kernel` on the one GPU that this process has.
int launch(void *stream, dim3 grid, dim3 block, size_t shared, std::function<void()> kernel);
// Waits for one stream, or for all.
int wait(void *stream);
int wait_for_all();
void *new_stream();
int drop_stream(void *stream);
int allocate(uint64_t *address, size_t bytes);
int release(uint64_t address);
emu::Machine *machine();
const char *name_of(int answer);
const char *text_of(int answer);
// Starts the driver in this process, once.
int start();
} // namespace stand_in
