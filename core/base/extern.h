/* extern.h - headers are for C and for C++, which CUDA files are: declarations of C functions stand
 * between these two.
 */
#pragma once

#ifdef __cplusplus
#define SR_BEGIN_C extern "C" {
#define SR_END_C }
#else
#define SR_BEGIN_C
#define SR_END_C
#endif
