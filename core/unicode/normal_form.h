/* normal_form.h - NFC, NFD, NFKC and NFKD, with the tables of Hugging Face's library. */
#ifndef SR_UNICODE_NORMAL_FORM_H
#define SR_UNICODE_NORMAL_FORM_H

#include "core/unicode/text_run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends the changes that make of a text its normal form. */
sr_status sr_normal_form(sr_changes *out, const sr_run *in, bool compat, bool compose);

#ifdef __cplusplus
}
#endif
#endif
