/* products.c - products of bf16 on every instruction set that this processor has. */
#include "tests/c/layer.h"

int main(void) {
    const char *names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
    for (int i = 0; i < 5; i++) {
        setenv("SEQRUN_ISA", names[i], 1);
        if (strcmp(sr_cpu_simd()->name, names[i]) != 0) continue;
        CHECK(sr_cpu_multiplies_bf16(sr_cpu_simd()));
        test_layers(NULL);
    }
    return CHECK_DONE();
}
