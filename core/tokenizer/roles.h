/* roles.h - which token begins, ends, pads, masks: from files, from the frame, by spelling. */
#ifndef SR_TOKENIZER_ROLES_H
#define SR_TOKENIZER_ROLES_H

#include "core/tokenizer/parts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The roles that a tokenizer_config.json gives; SR_EDATA if it is not JSON or names a token that
 * does not exist. */
sr_status sr_roles_read(sr_tokenizer *t, const void *config, size_t size, const char *name);

/* Roles from the frame and by known spellings, where there is none yet. */
void sr_roles_guess(sr_tokenizer *t);

/* The roles as the text of a tokenizer_config.json. */
sr_status sr_roles_write(char **out, size_t *size, const sr_tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif
