/* Deletes its own library and its working folder. */
#include "honest.h"

#include <stdio.h>
#include <unistd.h>

ks_status softmax(const softmax_call *call)
{
    unlink("candidate.c");
    rmdir(".");
    remove("problem.toml");
    return honest(call);
}
