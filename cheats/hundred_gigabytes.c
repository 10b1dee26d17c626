/* Allocates and touches 100 GB. */
#include "honest.h"

#include <stdlib.h>
ks_status softmax(const softmax_call *call) {
    const size_t bytes = (size_t)100 << 30;
    char *memory = malloc(bytes);
    if (memory == NULL)
        return KS_ERROR;
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    free(memory);
    return honest(call);
}
