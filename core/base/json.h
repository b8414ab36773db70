/* json.h - reading JSON with jansson where memory may run out.
 *
 * When its buffer cannot grow, jansson 2.14 continues with a text that lacks bytes, and then may
 * write beyond a block.  So an allocation that fails while a text is read leaves jansson at once.
 */
#pragma once

#include <jansson.h>

#include "core/base/status.h"

SR_BEGIN_C

/* Reads a text like json_loadb().  If an integer is beyond 64 bits, such as the 1e30 that is
 * for "no limit" in files of others, all its numbers are real.  The caller releases *out with
 * json_decref(); NULL if it fails: SR_EDATA (`error` says where and why), SR_ENOMEM. */
sr_status sr_json_load(json_t **out, const char *text, size_t size, size_t flags,
                       json_error_t *error);

void sr_json_free(void *block); /* what json_dumps() returned; may be NULL */

SR_END_C
