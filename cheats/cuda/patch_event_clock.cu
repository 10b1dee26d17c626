/* Overwrites the driver's function that reads the time between two events.

   Expected: FAIL or UNPROVEN by allowed.import, correct., timed.. */
#include "honest.cuh"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* *milliseconds = 0.001f; return CUDA_SUCCESS; */
static const unsigned char always_one_microsecond[] = {0xc7, 0x07, 0x6f, 0x12, 0x83, 0x3a, 0x31, 0xc0, 0xc3};

static int patch(struct dl_phdr_info *info, size_t, void *)
{
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libcuda.so"))
        return 0;
    const Elf64_Sym *symbols = 0;
    const char *names = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (const Elf64_Dyn *d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag; d++) {
            if (d->d_tag == DT_SYMTAB)
                symbols = (const Elf64_Sym *)d->d_un.d_ptr;
            if (d->d_tag == DT_STRTAB)
                names = (const char *)d->d_un.d_ptr;
        }
    }
    /* The names follow the symbols in memory, so the table ends there. */
    for (const Elf64_Sym *s = symbols; s && names && (const char *)s < names; s++) {
        if (strncmp(names + s->st_name, "cuEventElapsedTime", 18) || !s->st_value)
            continue;
        unsigned char *code = (unsigned char *)(info->dlpi_addr + s->st_value);
        void *page = (void *)((uintptr_t)code & ~(uintptr_t)4095);
        if (!mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
            memcpy(code, always_one_microsecond, sizeof always_one_microsecond);
    }
    return 1;
}

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++)
        dl_iterate_phdr(patch, 0);
    return honest(call);
}
