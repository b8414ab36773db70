/* lrows.c - rows of delimited text; part of seqrun.core.text. */
#include <string.h>

#include "core/text/rows.h"
#include "lua/bind/lcheck.h"
#include "lua/bind/ltext.h"

#define ROWS "seqrun.core.Rows"

LSR_RELEASE(rows_close, ROWS, sr_rows, sr_rows_close)

static char delimiter_of(lua_State *L, int options) {
    const char *given = lsr_field_string(L, options, "delimiter", "");
    if (strlen(given) > 1) lsr_error(L, "rows: delimiter is '%s'; it must be one byte", given);
    return given[0];
}

/* rows(paths: string|string[], options: { format?: "quoted"|"literal"|"words"|"lines", delimiter?:
 *     string, limit?: integer }) -> Rows rows | nil, message, code
 * Opens files, directories, patterns or "-" as rows of cells: "quoted" is CSV, "literal" TSV,
 * "words" separated by a tab or spaces, "lines" whole lines.  Rows longer than `limit` bytes, 1
 * MiB by default, are an error. */
static int text_rows(lua_State *L) {
    static const char *const formats[] = {"quoted", "literal", "words", "lines", NULL};
    luaL_checktype(L, 2, LUA_TTABLE);
    sr_rows_opts opts = {.format = (sr_rows_format)lsr_field_choice(L, 2, "format", formats),
                         .delimiter = delimiter_of(L, 2),
                         .limit =
                             (size_t)lsr_field_range(L, 2, "limit", SR_ROW_LIMIT, 16, 1 << 30)};
    size_t count;
    const char *const *paths = lsr_checkpaths(L, 1, &count);
    sr_rows **box = lsr_newbox(L, sizeof *box, ROWS);
    return lsr_give(L, sr_rows_open(box, paths, count, &opts));
}

/* @class seqrun.core.text.rows
 * Rows of delimited text. */

/* rows:next(list: string[]) -> integer? count, integer|string|nil line, string? file, string?
 *     wrong, integer? column
 * Puts the cells of the next row into list[1 .. count], and removes what is after them; an empty
 * line has none.  Nil at the end.  A row that cannot be used says what is wrong with it.
 *   line    the row's first, from 1; the message on failure
 *   column  of what is wrong */
static int rows_next(lua_State *L) {
    sr_rows *r = lsr_checkobject(L, 1, ROWS, "the rows are closed");
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    sr_row row;
    LSR_TRY(L, sr_rows_next(r, &row));
    if (row.file == NULL) return 0;
    for (lua_Integer i = (lua_Integer)lua_rawlen(L, 2); i > (lua_Integer)row.count; i--) {
        lua_pushnil(L);
        lua_rawseti(L, 2, i);
    }
    for (size_t i = 0; i < row.count; i++) {
        lua_pushlstring(L, (const char *)row.cells[i].bytes, row.cells[i].size);
        lua_rawseti(L, 2, (lua_Integer)i + 1);
    }
    lua_pushinteger(L, (lua_Integer)row.count);
    lua_pushinteger(L, (lua_Integer)row.line);
    lua_pushstring(L, row.file);
    if (row.wrong == NULL) return 3;
    lua_pushstring(L, row.wrong);
    lua_pushinteger(L, (lua_Integer)row.wrong_cell);
    return 5;
}

/* rows:close()
 * Closes the files. */
static const luaL_Reg rows_methods[] = {{"next", rows_next}, {"close", rows_close}, {NULL, NULL}};

static const luaL_Reg functions[] = {{"rows", text_rows}, {NULL, NULL}};

void lsr_open_rows(lua_State *L) {
    lsr_class(L, ROWS, rows_methods, rows_close);
    luaL_setfuncs(L, functions, 0);
}
