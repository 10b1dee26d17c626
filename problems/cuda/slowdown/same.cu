/* The seed once more, for the false alarms: nothing may be found between the two. */
#include "seed.cu"
