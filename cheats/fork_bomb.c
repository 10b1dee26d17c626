/* A fork bomb with a fuse: 8 generations, and every child leaves after a while. */
#include "honest.h"

#include <unistd.h>

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        const pid_t self = getpid();
        for (int generation = 0; generation < 8; generation++)
            fork();
        if (getpid() != self) {
            sleep(20);
            _exit(0);
        }
    }
    return honest(call);
}
