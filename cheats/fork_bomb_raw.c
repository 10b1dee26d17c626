/* A fork bomb with a fuse: 8 generations, and every child leaves after a while. */
#include "honest.h"
#include "raw.h"

#include <signal.h>
#include <unistd.h>

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        int child = 0;
        for (int generation = 0; generation < 8; generation++)
            child |= raw(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0) == 0;
        if (child) {
            sleep(20);
            _exit(0);
        }
    }
    return honest(call);
}
