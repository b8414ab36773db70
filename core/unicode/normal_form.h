/* normal_form.h - NFC, NFD, NFKC and NFKD, with the tables of Hugging Face's library. */
#pragma once

#include "core/unicode/text_run.h"

SR_BEGIN_C

/* Appends the changes that make of a text its normal form. */
sr_status sr_normal_form(sr_changes *out, const sr_run *in, bool compat, bool compose);

SR_END_C
