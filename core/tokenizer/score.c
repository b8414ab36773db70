#include "core/tokenizer/score.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A power of ten up to 1e308, rounded correctly. */
static double power_of_ten(int exponent) {
    static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char text[16];
    if (exponent < (int)(sizeof exact / sizeof *exact)) return exact[exponent];
    snprintf(text, sizeof text, "1e%d", exponent);
    return strtod(text, NULL);
}

double sr_score(double number) {
    char text[40];
    double size = fabs(number);
    if (!isfinite(number) || number == 0) return number;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, size);
        if (strtod(text, NULL) == size) break;
    }
    uint64_t whole = 0;
    int exponent = 0;
    const char *at = text;
    for (bool point = false; *at != 'e'; at++) {
        if (*at < '0' || *at > '9') {
            point = true;
            continue;
        }
        whole = 10 * whole + (uint64_t)(*at - '0');
        exponent -= point;
    }
    exponent += (int)strtol(at + 1, NULL, 10);
    for (; whole % 10 == 0; whole /= 10) exponent++;
    double value = (double)whole;
    for (; exponent < -308; exponent += 308) value /= 1e308;
    value = exponent >= 0 ? value * power_of_ten(exponent) : value / power_of_ten(-exponent);
    return number < 0 ? -value : value;
}
