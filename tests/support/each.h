/* each.h - EACH(M, A(x), B(y), ...) is MA(x) MB(y) ..., with commas between for EACH_COMMA; at most
 * 14 items. */
#ifndef TESTS_SUPPORT_EACH_H
#define TESTS_SUPPORT_EACH_H

/* clang-format off */
#define EACH_1(m, a) m##a
#define EACH_2(m, a, ...) m##a EACH_1(m, __VA_ARGS__)
#define EACH_3(m, a, ...) m##a EACH_2(m, __VA_ARGS__)
#define EACH_4(m, a, ...) m##a EACH_3(m, __VA_ARGS__)
#define EACH_5(m, a, ...) m##a EACH_4(m, __VA_ARGS__)
#define EACH_6(m, a, ...) m##a EACH_5(m, __VA_ARGS__)
#define EACH_7(m, a, ...) m##a EACH_6(m, __VA_ARGS__)
#define EACH_8(m, a, ...) m##a EACH_7(m, __VA_ARGS__)
#define EACH_9(m, a, ...) m##a EACH_8(m, __VA_ARGS__)
#define EACH_10(m, a, ...) m##a EACH_9(m, __VA_ARGS__)
#define EACH_11(m, a, ...) m##a EACH_10(m, __VA_ARGS__)
#define EACH_12(m, a, ...) m##a EACH_11(m, __VA_ARGS__)
#define EACH_13(m, a, ...) m##a EACH_12(m, __VA_ARGS__)
#define EACH_14(m, a, ...) m##a EACH_13(m, __VA_ARGS__)

#define COMMA_1(m, a) m##a
#define COMMA_2(m, a, ...) m##a, COMMA_1(m, __VA_ARGS__)
#define COMMA_3(m, a, ...) m##a, COMMA_2(m, __VA_ARGS__)
#define COMMA_4(m, a, ...) m##a, COMMA_3(m, __VA_ARGS__)
#define COMMA_5(m, a, ...) m##a, COMMA_4(m, __VA_ARGS__)
#define COMMA_6(m, a, ...) m##a, COMMA_5(m, __VA_ARGS__)
#define COMMA_7(m, a, ...) m##a, COMMA_6(m, __VA_ARGS__)
#define COMMA_8(m, a, ...) m##a, COMMA_7(m, __VA_ARGS__)
#define COMMA_9(m, a, ...) m##a, COMMA_8(m, __VA_ARGS__)
#define COMMA_10(m, a, ...) m##a, COMMA_9(m, __VA_ARGS__)
#define COMMA_11(m, a, ...) m##a, COMMA_10(m, __VA_ARGS__)
#define COMMA_12(m, a, ...) m##a, COMMA_11(m, __VA_ARGS__)
#define COMMA_13(m, a, ...) m##a, COMMA_12(m, __VA_ARGS__)
#define COMMA_14(m, a, ...) m##a, COMMA_13(m, __VA_ARGS__)

#define EACH_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, count, ...) count
#define EACH_COUNT(...) EACH_COUNT_(__VA_ARGS__, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define EACH_JOIN_(a, b) a##b
#define EACH_JOIN(a, b) EACH_JOIN_(a, b)

#define EACH(m, ...) EACH_JOIN(EACH_, EACH_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
#define EACH_COMMA(m, ...) EACH_JOIN(COMMA_, EACH_COUNT(__VA_ARGS__))(m, __VA_ARGS__)
/* clang-format on */

#endif
