/* score.c - numbers as `tokenizers` 0.23.3 reads them: written to a tokenizer.json by Python, read
 * and written again by it. */
#include "core/tokenizer/score.h"

#include <math.h>

#include "tests/support/check.h"

static const double golden[][2] = {
    {-3.0123284804704786, -3.012328480470478},  {-14.825037124029805, -14.825037124029803},
    {-1.2806287645399461, -1.280628764539946},  {-15.164604925736347, -15.164604925736349},
    {-14.376478481316061, -14.37647848131606},  {-1.9490861946175442, -1.949086194617544},
    {-4.759292541837827, -4.759292541837827},   {-10.884584505919037, -10.884584505919037},
    {-7.3991033309615855, -7.3991033309615855},
};

int main(void) {
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        CHECK(sr_score(golden[i][0]) == golden[i][1]);
    static const double exact[] = {0, -1, -2.5, -100, 1e300, -0.1, -1e-300, 123456789};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        CHECK(fabs(sr_score(exact[i]) - exact[i]) <= 1e-15 * fabs(exact[i]));
    CHECK(sr_score(-2.5) == -2.5 && sr_score(-100) == -100);
    CHECK(isinf(sr_score(-INFINITY)));
    return CHECK_DONE();
}
