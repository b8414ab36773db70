#include "lua/bind/lseqrun.h"

#include <lauxlib.h>

#include "lua/bind/lcheck.h"

/* The modules in the order of the layers, and their parts: each registers its classes and adds its
 * functions to the table of the module, which is on top of the stack. */
/* clang-format off */
static const struct module {
    const char *name;
    void (*parts[9])(lua_State *L);
} modules[] = {
    {"json", {lsr_open_json}},
    {"sys", {lsr_open_sys, lsr_open_process, lsr_open_signals}},
    {"socket", {lsr_open_socket}},
    {"edit", {lsr_open_edit, lsr_open_keys}},
    {"text", {lsr_open_text, lsr_open_tokenizer, lsr_open_textfiles, lsr_open_rows,
        lsr_open_records}},
    {"data", {lsr_open_data, lsr_open_prepare, lsr_open_writer}},
    {"metric", {lsr_open_metric, lsr_open_analysis}},
    {"pack", {lsr_open_pack, lsr_open_histograms, lsr_open_proofs}},
    {"batch", {lsr_open_batch, lsr_open_updates, lsr_open_samplers, lsr_open_concepts}},
    {"tensor", {lsr_open_tensor, lsr_open_devices, lsr_open_layout, lsr_open_values}},
    {"ops", {lsr_open_ops, lsr_open_coarse, lsr_open_grad, lsr_open_functions, lsr_open_random}},
    {"comm", {lsr_open_comm}},
    {"train", {lsr_open_train, lsr_open_safetensors, lsr_open_checkpoint, lsr_open_log,
        lsr_open_shares, lsr_open_exchange, lsr_open_sharded, lsr_open_twin}},
    {"yaml", {lsr_open_yaml}},
};
/* clang-format on */

static int open_module(lua_State *L) {
    const struct module *m = lua_touserdata(L, lua_upvalueindex(1));
    lua_newtable(L);
    for (int i = 0; m->parts[i] != NULL; i++) m->parts[i](L);
    return 1;
}

void lsr_open(lua_State *L, const char *lua_dir) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        lua_pushfstring(L, "seqrun.core.%s", modules[i].name);
        lua_pushlightuserdata(L, (void *)&modules[i]);
        lua_pushcclosure(L, open_module, 1);
        lua_settable(L, -3);
    }
    lua_pop(L, 1);
    lua_getglobal(L, "package");
    lua_pushfstring(L,
                    "%s/?.lua;%s/?/init.lua;/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua",
                    lua_dir, lua_dir);
    lua_setfield(L, -2, "path");
    lua_pop(L, 1);
    lsr_set_library(L, lua_dir);
}
