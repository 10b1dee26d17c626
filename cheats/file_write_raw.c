/* Leaves a note for a later process. */
#include "honest.h"
#include "raw.h"

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++) {
        raw(SYS_openat, AT_FDCWD, (long)"/tmp/left-by-a-candidate", O_WRONLY | O_CREAT, 0600, 0, 0);
        raw(SYS_openat, AT_FDCWD, (long)"left-by-a-candidate", O_RDWR | O_CREAT | O_TRUNC, 0600, 0, 0);
        raw(SYS_mkdirat, AT_FDCWD, (long)"/tmp/left-by-a-candidate.d", 0700, 0, 0, 0);
    }
    return honest(call);
}
