/* roles.h - which token begins, ends, pads, masks: from files, from the frame, by spelling. */
#pragma once

#include "core/tokenizer/parts.h"

SR_BEGIN_C

/* The roles that a tokenizer_config.json gives; SR_EDATA if it is not JSON or names a token that
 * does not exist. */
sr_status sr_roles_read(sr_tokenizer *t, const void *config, size_t size, const char *name);

/* Roles from the frame and by known spellings, where there is none yet. */
void sr_roles_guess(sr_tokenizer *t);

/* The roles as the text of a tokenizer_config.json. */
sr_status sr_roles_write(char **out, size_t *size, const sr_tokenizer *t);

SR_END_C
