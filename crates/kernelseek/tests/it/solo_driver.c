/* The functions of the CUDA driver that `solo` calls, on memory of the C library. */
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
typedef int R; typedef uint64_t D;
R cuInit(unsigned f){return 0;}
R cuDeviceGetCount(int*n){*n=1;return 0;}
R cuDeviceGet(int*d,int o){*d=o;return 0;}
R cuDeviceGetAttribute(int*v,int a,int d){*v=1;return 0;}
R cuDeviceGetName(char*n,int l,int d){strncpy(n,"fake",l);return 0;}
R cuDeviceGetUuid_v2(char*u,int d){memset(u,1,16);return 0;}
R cuDeviceTotalMem_v2(size_t*b,int d){*b=1<<30;return 0;}
R cuDriverGetVersion(int*v){*v=13000;return 0;}
R cuDevicePrimaryCtxRetain(void**c,int d){*c=(void*)1;return 0;}
R cuDevicePrimaryCtxRelease_v2(int d){return 0;}
R cuCtxSetCurrent(void*c){return 0;}
R cuCtxSynchronize(void){return 0;}
R cuStreamCreate(void**s,unsigned f){*s=(void*)7;return 0;}
R cuStreamDestroy_v2(void*s){return 0;}
R cuStreamSynchronize(void*s){return 0;}
R cuMemAlloc_v2(D*p,size_t n){void*q=0;if(posix_memalign(&q,256,n+256))return 2;memset(q,0xEE,n);*p=(D)q;return 0;}
R cuMemFree_v2(D p){free((void*)p);return 0;}
R cuMemcpyHtoDAsync_v2(D t,const void*f,size_t n,void*s){memcpy((void*)t,f,n);return 0;}
R cuMemcpyDtoHAsync_v2(void*t,D f,size_t n,void*s){memcpy(t,(void*)f,n);return 0;}
R cuMemsetD8Async(D t,unsigned char v,size_t n,void*s){memset((void*)t,v,n);return 0;}
