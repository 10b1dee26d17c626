/* Asks for memory that it can write and execute. */
#define _GNU_SOURCE
#include "honest.h"

#include <sys/mman.h>
ks_status softmax(const softmax_call *call) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED)
        munmap(page, 4096);
    return honest(call);
}
