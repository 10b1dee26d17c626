/* Has a thread of the host enqueue the work and waits for the thread.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

#include <pthread.h>

struct Work {
    const softmax_call *call;
    ks_status status;
};

static void *enqueue(void *argument)
{
    Work *work = (Work *)argument;
    work->status = honest(work->call);
    return 0;
}

ks_status softmax(const softmax_call *call)
{
    Work work = {call, KS_ERROR};
    pthread_t thread;
    if (pthread_create(&thread, 0, enqueue, &work) || pthread_join(thread, 0))
        return KS_ERROR;
    return work.status;
}
