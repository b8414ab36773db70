/* lsys.h - signals and the standard streams. */
#pragma once

#include <lua.h>
#include <stdbool.h>

/* Whether standard error ends with a line that is not complete (lsignals.c). */
bool lsr_line_shown(void);

/* Whether a signal came since sys.caught(true) or sys.signals() (lsignals.c). */
bool lsr_caught(void);

/* Whether standard output is a pipe or terminal without a reader (lprocess.c). */
bool lsr_reader_left(void);

/* A hook that raises "interrupted", at first after lsr_interrupt_begin() (lsignals.c). */
void lsr_interrupt(lua_State *L, lua_Debug *where);
void lsr_interrupt_begin(void);
