/* Tries to become a shell. */
#include "honest.h"
#include "raw.h"

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        char *const argv[] = {"sh", "-c", "exit 0", 0}, *const none[] = {0};
        raw(SYS_execve, (long)"/bin/sh", (long)argv, (long)none, 0, 0, 0);
    }
    return honest(call);
}
