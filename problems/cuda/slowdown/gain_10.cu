/* The seed with 10 % of its wait taken away. */
#define KS_GAIN_PERMILLE 100
#include "seed.cu"
