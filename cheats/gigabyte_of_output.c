/* Writes 1 GB to standard output. */
#include "honest.h"
#include "raw.h"
ks_status softmax(const softmax_call *call) {
    static const char text[1 << 16] = "so much to say";
    for (int i = 0; i < 1 << 14; i++)
        raw(NR_WRITE, 1, (long)text, sizeof text);
    return honest(call);
}
