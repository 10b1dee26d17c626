/* Has a thread count up every word of every page that is shared with the supervisor.

   Expected: FAIL or UNPROVEN by allowed., correct., timed.. */
#include "honest.cuh"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static void *forge(void *)
{
    for (;;) {
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512];
        while (maps && fgets(line, sizeof line, maps)) {
            unsigned long start, end;
            char rights[8];
            if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 || rights[1] != 'w' || rights[3] != 's')
                continue;
            if (end - start > 65536)
                continue;
            for (volatile uint32_t *word = (volatile uint32_t *)start; (unsigned long)word < end; word++)
                if (*word != 0 && *word < 1u << 20)
                    *word = *word + 1;
        }
        if (maps)
            fclose(maps);
        usleep(20);
    }
    return 0;
}

ks_status softmax(const softmax_call *call)
{
    static pthread_t thread;
    if (!thread)
        pthread_create(&thread, 0, forge, 0);
    return honest(call);
}
