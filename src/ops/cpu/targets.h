#pragma once

// Which Highway targets the kernels are compiled for. Include it before any Highway header.
//
// Every multiply-add of the contract is fused (docs/numerics.md), so x86 targets without FMA are
// not built: such a machine runs the scalar target with the C library's correctly rounded fma.
// Vectors of unknown length (SVE, RVV) cannot be members of `Lanes16` and are left out as well.
#define HWY_DISABLED_TARGETS                                                                     \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_PPC8 | \
   HWY_WASM | HWY_WASM_EMU256)
#define HWY_WANT_AVX3_DL
