/* lseqrun.h - opening the C modules.
 *
 * lua.h appears in lua/bind only.  A C module is `require "seqrun.core.NAME"`, opened by
 * its parts, the files of lua/bind that lseqrun.c lists for it.
 */
#pragma once

#include <lua.h>

/* Fills package.preload with the C modules and sets package.path to seqrun's Lua files. */
void lsr_open(lua_State *L, const char *lua_dir);

/* The parts of the modules. */
void lsr_open_json(lua_State *L);
void lsr_open_sys(lua_State *L);
void lsr_open_process(lua_State *L);
void lsr_open_signals(lua_State *L);
void lsr_open_socket(lua_State *L);
void lsr_open_edit(lua_State *L);
void lsr_open_keys(lua_State *L);
void lsr_open_text(lua_State *L);
void lsr_open_tokenizer(lua_State *L);
void lsr_open_textfiles(lua_State *L);
void lsr_open_rows(lua_State *L);
void lsr_open_records(lua_State *L);
void lsr_open_data(lua_State *L);
void lsr_open_prepare(lua_State *L);
void lsr_open_writer(lua_State *L);
void lsr_open_metric(lua_State *L);
void lsr_open_analysis(lua_State *L);
void lsr_open_pack(lua_State *L);
void lsr_open_histograms(lua_State *L);
void lsr_open_proofs(lua_State *L);
void lsr_open_batch(lua_State *L);
void lsr_open_updates(lua_State *L);
void lsr_open_samplers(lua_State *L);
void lsr_open_concepts(lua_State *L);
void lsr_open_tensor(lua_State *L);
void lsr_open_devices(lua_State *L);
void lsr_open_layout(lua_State *L);
void lsr_open_values(lua_State *L);
void lsr_open_ops(lua_State *L);
void lsr_open_coarse(lua_State *L);
void lsr_open_grad(lua_State *L);
void lsr_open_functions(lua_State *L);
void lsr_open_random(lua_State *L);
void lsr_open_comm(lua_State *L);
void lsr_open_train(lua_State *L);
void lsr_open_safetensors(lua_State *L);
void lsr_open_checkpoint(lua_State *L);
void lsr_open_log(lua_State *L);
void lsr_open_shares(lua_State *L);
void lsr_open_exchange(lua_State *L);
void lsr_open_sharded(lua_State *L);
void lsr_open_twin(lua_State *L);
void lsr_open_yaml(lua_State *L);
