// The avx512 level over plain arrays, under its own name.
#define INTERLACE_EMULATE_AVX512
#include "../simd/avx512.cpp"
