/* Kills the parent process. */
#include "honest.h"

#include <signal.h>
#include <unistd.h>

ks_status softmax(const softmax_call *call)
{
    kill(getppid(), SIGKILL);
    return honest(call);
}
