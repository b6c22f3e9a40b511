// The loop over the steps of a tile of up to 6 rows by 4 vectors of float, for NEON. It takes all 32 registers: 24
// sums, a vector of A for each row, and two of B. No compiler is sure to place them without a detour through memory, so
// the loop is written in assembly. Each step adds one fused multiply-add to each sum: the bits of the loops in
// gemm_tile.cc.
//
// Registers: v8 + 4 i + j is sum (i, j), v0 to v5 hold A, v6 and v7 two vectors of B. By rows, A's vectors hold four
// steps of a row; by columns, v0 and v1 hold the rows of one step.
#pragma once
#include <cstdint>

#include "cpu/vec/vec.h"

#if defined(__ARM_NEON) && defined(__aarch64__)
#define PADDOCK_NEON_TILE 1

namespace paddock::cpu {

inline constexpr int kNeonTileRows = 6, kNeonTileVecs = 4;
inline constexpr int64_t kNeonTileWidth = 16;  // floats of a step of B, one behind the other
inline constexpr int64_t kNeonTileColumn = 8;  // floats of a step of A by columns

// What there are rows for.
#define PADDOCK_FOR_ROW(i, text) ".if %c[rows] > " #i "\n" text "\n.endif\n"
#define PADDOCK_FOR_ROWS(of)                \
  PADDOCK_FOR_ROW(0, of(0, 8, 9, 10, 11))   \
  PADDOCK_FOR_ROW(1, of(1, 12, 13, 14, 15)) \
  PADDOCK_FOR_ROW(2, of(2, 16, 17, 18, 19)) \
  PADDOCK_FOR_ROW(3, of(3, 20, 21, 22, 23)) \
  PADDOCK_FOR_ROW(4, of(4, 24, 25, 26, 27)) PADDOCK_FOR_ROW(5, of(5, 28, 29, 30, 31))

#define PADDOCK_LANE(v, lane) "v" #v ".s[" #lane "]"
#define PADDOCK_ADD(sum, b, a) "fmla v" #sum ".4s, v" #b ".4s, " a

// A step, with `a0` to `a5` a row's value each.
#define PADDOCK_HALF_STEP(s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5, a0, a1, a2, a3, a4, a5)                   \
  "ldp q6, q7, [%[b]], #32\n" PADDOCK_FOR_ROW(0, PADDOCK_ADD(s0, 6, a0)) PADDOCK_FOR_ROW(1, PADDOCK_ADD(s1, 6, a1)) \
      PADDOCK_FOR_ROW(2, PADDOCK_ADD(s2, 6, a2)) PADDOCK_FOR_ROW(3, PADDOCK_ADD(s3, 6, a3))                         \
          PADDOCK_FOR_ROW(4, PADDOCK_ADD(s4, 6, a4)) PADDOCK_FOR_ROW(5, PADDOCK_ADD(s5, 6, a5))                     \
              PADDOCK_FOR_ROW(0, PADDOCK_ADD(t0, 7, a0)) PADDOCK_FOR_ROW(1, PADDOCK_ADD(t1, 7, a1))                 \
                  PADDOCK_FOR_ROW(2, PADDOCK_ADD(t2, 7, a2)) PADDOCK_FOR_ROW(3, PADDOCK_ADD(t3, 7, a3))             \
                      PADDOCK_FOR_ROW(4, PADDOCK_ADD(t4, 7, a4)) PADDOCK_FOR_ROW(5, PADDOCK_ADD(t5, 7, a5))
#define PADDOCK_STEP(...)                                                      \
  PADDOCK_HALF_STEP(8, 12, 16, 20, 24, 28, 9, 13, 17, 21, 25, 29, __VA_ARGS__) \
  PADDOCK_HALF_STEP(10, 14, 18, 22, 26, 30, 11, 15, 19, 23, 27, 31, __VA_ARGS__)
#define PADDOCK_STEP_BY_ROWS(l)                                                                                    \
  PADDOCK_STEP(PADDOCK_LANE(0, l), PADDOCK_LANE(1, l), PADDOCK_LANE(2, l), PADDOCK_LANE(3, l), PADDOCK_LANE(4, l), \
               PADDOCK_LANE(5, l))
#define PADDOCK_STEP_BY_COLUMNS                                                                                    \
  PADDOCK_STEP(PADDOCK_LANE(0, 0), PADDOCK_LANE(0, 1), PADDOCK_LANE(0, 2), PADDOCK_LANE(0, 3), PADDOCK_LANE(1, 0), \
               PADDOCK_LANE(1, 1))

#define PADDOCK_LOAD_SUMS(i, s, t, u, v) \
  "ldp q" #s ", q" #t ", [%[sums], #64 * " #i "]\nldp q" #u ", q" #v ", [%[sums], #64 * " #i " + 32]"
#define PADDOCK_STORE_SUMS(i, s, t, u, v) \
  "stp q" #s ", q" #t ", [%[sums], #64 * " #i "]\nstp q" #u ", q" #v ", [%[sums], #64 * " #i " + 32]"
#define PADDOCK_LOAD_STEPS(i, s, t, u, v) "ldr q" #i ", [%[a" #i "]], #16"
#define PADDOCK_LOAD_STEP(i, s, t, u, v) "ldr s" #i ", [%[a" #i "]], #4"

#define PADDOCK_ALL_VECTORS                                                                                           \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", \
      "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

// Four steps a turn while there are four, then one a turn. `first` to `fourth` are steps, `one` is the one left over,
// each behind its loads of A; a step asks for one cache line.
#define PADDOCK_STEPS(load, first, second, third, fourth, load_one, one)                          \
  PADDOCK_FOR_ROWS(PADDOCK_LOAD_SUMS)                                                             \
  "subs %[steps], %[steps], #4\n"                                                                 \
  "b.lt 2f\n"                                                                                     \
  "1:\n" load "prfm pldl2keep, [%[fetch]]\n" first "prfm pldl2keep, [%[fetch], %[line]]\n" second \
  "prfm pldl2keep, [%[fetch], %[line2]]\n" third                                                  \
  "prfm pldl2keep, [%[fetch], %[line3]]\n"                                                        \
  "add %[fetch], %[fetch], %[line], lsl #2\n" fourth                                              \
  "subs %[steps], %[steps], #4\n"                                                                 \
  "b.ge 1b\n"                                                                                     \
  "2:\n"                                                                                          \
  "adds %[steps], %[steps], #4\n"                                                                 \
  "b.eq 4f\n"                                                                                     \
  "3:\n" load_one                                                                                 \
  "prfm pldl2keep, [%[fetch]]\n"                                                                  \
  "add %[fetch], %[fetch], %[line]\n" one                                                         \
  "subs %[steps], %[steps], #1\n"                                                                 \
  "b.gt 3b\n"                                                                                     \
  "4:\n" PADDOCK_FOR_ROWS(PADDOCK_STORE_SUMS)

// sums [kRows][4 vectors] += `steps` steps of A, whose rows start at a[0] + offset, ..., times B. `fetch` is memory to
// have in the second-level cache soon, `line` bytes further each step.
template <int kRows>
void neon_tile_by_rows(Vec<float>* sums, const float* const* a, int64_t offset, const float* b, int64_t steps,
                       const float* fetch, int64_t line) {
  static_assert(kRows >= 1 && kRows <= kNeonTileRows);
  const float* rows[kNeonTileRows];
  for (int i = 0; i < kNeonTileRows; ++i) rows[i] = a[i < kRows ? i : 0] + offset;
  asm volatile(PADDOCK_STEPS(PADDOCK_FOR_ROWS(PADDOCK_LOAD_STEPS), PADDOCK_STEP_BY_ROWS(0), PADDOCK_STEP_BY_ROWS(1),
                             PADDOCK_STEP_BY_ROWS(2), PADDOCK_STEP_BY_ROWS(3), PADDOCK_FOR_ROWS(PADDOCK_LOAD_STEP),
                             PADDOCK_STEP_BY_ROWS(0))
               : [a0] "+r"(rows[0]), [a1] "+r"(rows[1]), [a2] "+r"(rows[2]), [a3] "+r"(rows[3]), [a4] "+r"(rows[4]),
                 [a5] "+r"(rows[5]), [b] "+r"(b), [steps] "+r"(steps), [fetch] "+r"(fetch)
               : [sums] "r"(sums), [line] "r"(line), [line2] "r"(2 * line), [line3] "r"(3 * line), [rows] "i"(kRows)
               : "cc", "memory", PADDOCK_ALL_VECTORS);
}

// The same with the rows of a step side by side: step k starts at a + kNeonTileColumn k, all of which may be read.
template <int kRows>
void neon_tile_by_columns(Vec<float>* sums, const float* a, const float* b, int64_t steps, const float* fetch,
                          int64_t line) {
  static_assert(kRows >= 1 && kRows <= kNeonTileRows);
#define PADDOCK_LOAD_COLUMN "ldp q0, q1, [%[a]], #32\n"
  asm volatile(PADDOCK_STEPS(, PADDOCK_LOAD_COLUMN PADDOCK_STEP_BY_COLUMNS, PADDOCK_LOAD_COLUMN PADDOCK_STEP_BY_COLUMNS,
                             PADDOCK_LOAD_COLUMN PADDOCK_STEP_BY_COLUMNS, PADDOCK_LOAD_COLUMN PADDOCK_STEP_BY_COLUMNS,
                             PADDOCK_LOAD_COLUMN, PADDOCK_STEP_BY_COLUMNS)
               : [a] "+r"(a), [b] "+r"(b), [steps] "+r"(steps), [fetch] "+r"(fetch)
               : [sums] "r"(sums), [line] "r"(line), [line2] "r"(2 * line), [line3] "r"(3 * line), [rows] "i"(kRows)
               : "cc", "memory", PADDOCK_ALL_VECTORS);
#undef PADDOCK_LOAD_COLUMN
}

#undef PADDOCK_FOR_ROW
#undef PADDOCK_FOR_ROWS
#undef PADDOCK_ADD
#undef PADDOCK_LANE
#undef PADDOCK_HALF_STEP
#undef PADDOCK_STEP
#undef PADDOCK_STEP_BY_ROWS
#undef PADDOCK_STEP_BY_COLUMNS
#undef PADDOCK_LOAD_SUMS
#undef PADDOCK_STORE_SUMS
#undef PADDOCK_LOAD_STEPS
#undef PADDOCK_LOAD_STEP
#undef PADDOCK_ALL_VECTORS
#undef PADDOCK_STEPS

}  // namespace paddock::cpu
#endif
