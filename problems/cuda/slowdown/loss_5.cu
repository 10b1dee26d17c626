/* The seed with 5 % more to wait. */
#define KS_GAIN_PERMILLE (-50)
#include "seed.cu"
