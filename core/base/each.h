/* each.h - SR_EACH(M, A(x), B(y), ...) is MA(x) MB(y) ..., and SR_EACH_COMMA the same with commas
 * between; at most 16 items. */
#pragma once

/* clang-format off */
#define SR_EACH_1(m, a) m##a
#define SR_EACH_2(m, a, ...) m##a SR_EACH_1(m, __VA_ARGS__)
#define SR_EACH_3(m, a, ...) m##a SR_EACH_2(m, __VA_ARGS__)
#define SR_EACH_4(m, a, ...) m##a SR_EACH_3(m, __VA_ARGS__)
#define SR_EACH_5(m, a, ...) m##a SR_EACH_4(m, __VA_ARGS__)
#define SR_EACH_6(m, a, ...) m##a SR_EACH_5(m, __VA_ARGS__)
#define SR_EACH_7(m, a, ...) m##a SR_EACH_6(m, __VA_ARGS__)
#define SR_EACH_8(m, a, ...) m##a SR_EACH_7(m, __VA_ARGS__)
#define SR_EACH_9(m, a, ...) m##a SR_EACH_8(m, __VA_ARGS__)
#define SR_EACH_10(m, a, ...) m##a SR_EACH_9(m, __VA_ARGS__)
#define SR_EACH_11(m, a, ...) m##a SR_EACH_10(m, __VA_ARGS__)
#define SR_EACH_12(m, a, ...) m##a SR_EACH_11(m, __VA_ARGS__)
#define SR_EACH_13(m, a, ...) m##a SR_EACH_12(m, __VA_ARGS__)
#define SR_EACH_14(m, a, ...) m##a SR_EACH_13(m, __VA_ARGS__)
#define SR_EACH_15(m, a, ...) m##a SR_EACH_14(m, __VA_ARGS__)
#define SR_EACH_16(m, a, ...) m##a SR_EACH_15(m, __VA_ARGS__)

#define SR_COMMA_1(m, a) m##a
#define SR_COMMA_2(m, a, ...) m##a, SR_COMMA_1(m, __VA_ARGS__)
#define SR_COMMA_3(m, a, ...) m##a, SR_COMMA_2(m, __VA_ARGS__)
#define SR_COMMA_4(m, a, ...) m##a, SR_COMMA_3(m, __VA_ARGS__)
#define SR_COMMA_5(m, a, ...) m##a, SR_COMMA_4(m, __VA_ARGS__)
#define SR_COMMA_6(m, a, ...) m##a, SR_COMMA_5(m, __VA_ARGS__)
#define SR_COMMA_7(m, a, ...) m##a, SR_COMMA_6(m, __VA_ARGS__)
#define SR_COMMA_8(m, a, ...) m##a, SR_COMMA_7(m, __VA_ARGS__)
#define SR_COMMA_9(m, a, ...) m##a, SR_COMMA_8(m, __VA_ARGS__)
#define SR_COMMA_10(m, a, ...) m##a, SR_COMMA_9(m, __VA_ARGS__)
#define SR_COMMA_11(m, a, ...) m##a, SR_COMMA_10(m, __VA_ARGS__)
#define SR_COMMA_12(m, a, ...) m##a, SR_COMMA_11(m, __VA_ARGS__)
#define SR_COMMA_13(m, a, ...) m##a, SR_COMMA_12(m, __VA_ARGS__)
#define SR_COMMA_14(m, a, ...) m##a, SR_COMMA_13(m, __VA_ARGS__)
#define SR_COMMA_15(m, a, ...) m##a, SR_COMMA_14(m, __VA_ARGS__)
#define SR_COMMA_16(m, a, ...) m##a, SR_COMMA_15(m, __VA_ARGS__)

#define SR_EACH_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define SR_EACH_COUNT(...) \
    SR_EACH_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SR_EACH_JOIN_(a, b) a##b
#define SR_EACH_JOIN(a, b) SR_EACH_JOIN_(a, b)

#define SR_EACH(m, ...) SR_EACH_JOIN(SR_EACH_, SR_EACH_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
#define SR_EACH_COMMA(m, ...) SR_EACH_JOIN(SR_COMMA_, SR_EACH_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
/* clang-format on */
