/* Prints 1 GB. */
#include "honest.h"

#include <stdio.h>
#include <string.h>

ks_status softmax(const softmax_call *call)
{
    static char text[1 << 20];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 1024; i++)
        fwrite(text, 1, sizeof text, stdout);
    fflush(stdout);
    return honest(call);
}
