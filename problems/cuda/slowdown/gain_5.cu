/* The seed with 5 % of its wait taken away. */
#define KS_GAIN_PERMILLE 50
#include "seed.cu"
