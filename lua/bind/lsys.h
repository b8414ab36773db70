/* lsys.h - the parts of seqrun.core.sys and seqrun.core.edit: each adds its functions to the module
 * table on top of the stack. */
#pragma once

#include <lua.h>
#include <stdbool.h>

void lsr_open_process(lua_State *L); /* lprocess.c */
void lsr_open_signals(lua_State *L); /* lsignals.c */
void lsr_open_keys(lua_State *L);    /* lkeys.c */

/* Whether standard error ends with a line that is not complete (lsignals.c). */
bool lsr_line_shown(void);

/* Whether a signal came since sys.caught(true) or sys.signals() (lsignals.c). */
bool lsr_caught(void);

/* Whether standard output is a pipe or terminal without a reader (lprocess.c). */
bool lsr_reader_left(void);

/* A hook that raises "interrupted", at first after lsr_interrupt_begin() (lsignals.c). */
void lsr_interrupt(lua_State *L, lua_Debug *where);
void lsr_interrupt_begin(void);
