/* The seed with 2 % of its wait taken away. */
#define KS_GAIN_PERMILLE 20
#include "seed.cu"
