/* System calls without the C library: what the inspection of imports cannot see and the sandbox has to stop. */
#ifndef RAW_H
#define RAW_H

#if defined(__x86_64__)
enum { NR_WRITE = 1, NR_OPEN = 2, NR_SOCKET = 41, NR_FORK = 57, NR_KILL = 62, NR_UNLINK = 87, NR_RMDIR = 84, NR_GETPPID = 110 };

static inline long raw(long nr, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
#else
#error "these candidates are written for x86-64"
#endif

#endif
