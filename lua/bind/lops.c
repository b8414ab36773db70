/* lops.c - seqrun.core.ops: small ops as methods and operators of tensors. */

#include <string.h>

#include "core/tensor/grad.h"
#include "core/tensor/ops.h"
#include "lua/bind/ltensor.h"

/* ---- elementwise ----------------------------------------------------------------------------- */

static int op_unary(lua_State *L) { /* upvalue: the op */
    sr_tensor *x = lsr_checktensor(L, 1);
    sr_unary op = (sr_unary)lua_tointeger(L, lua_upvalueindex(1));
    return lsr_made(L, sr_op_unary(lsr_newtensor(L), x, op));
}

/* Frees the tensor made from a number for one op, without the collector. */
static void drop_number(lua_State *L, int arg, bool was_tensor) {
    if (was_tensor) return;
    sr_tensor **box = lua_touserdata(L, arg);
    sr_tensor_release(*box);
    *box = NULL;
}

static bool pairs_refused;

/* refuse_pairs(on: boolean)
 * While it is on, (N, 1) with (N) is refused where it is recorded: each value meets each other. */
static int refuse_pairs(lua_State *L) {
    pairs_refused = lua_toboolean(L, 1);
    return 0;
}

/* is_sigmoid(t: Tensor) -> boolean
 * Whether it was recorded as the sigmoid of another, perhaps in another shape or type. */
static int is_sigmoid(lua_State *L) {
    const sr_node *n = lsr_checktensor(L, 1)->node;
    while (n != NULL && (strcmp(n->rule->name, "reshape") == 0 || strcmp(n->rule->name, "to") == 0))
        n = n->edge[0].node;
    return lsr_give_bool(L, n != NULL && n->op == SR_SIGMOID &&
                                strcmp(n->rule->name, "an elementwise op") == 0);
}

/* Whether a is (N, 1) and b (N). */
static bool are_pairs(const sr_tensor *a, const sr_tensor *b) {
    return a->ndim == 2 && b->ndim == 1 && a->shape[1] == 1 && b->shape[0] == a->shape[0] &&
           b->shape[0] > 1;
}

/* Either side may be a number. */
static int op_binary(lua_State *L) { /* upvalue: the op */
    sr_binary op = (sr_binary)lua_tointeger(L, lua_upvalueindex(1));
    lua_settop(L, 2);
    sr_tensor *ta = lsr_totensor(L, 1), *tb = lsr_totensor(L, 2), *like = ta != NULL ? ta : tb;
    sr_tensor *a = lsr_checkoperand(L, 1, like), *b = lsr_checkoperand(L, 2, like);
    sr_tensor **y = lsr_newtensor(L);
    lsr_check(L, sr_op_binary(y, a, b, op));
    if (pairs_refused && (*y)->node != NULL && (are_pairs(a, b) || are_pairs(b, a)))
        return lsr_error(L,
                         "%s: (N, 1) with (N) spreads to every pair, here (%I, %I); reshape(-1) "
                         "the first to go item by item, or reshape(1, -1) the second to mean pairs",
                         sr_binary_name(op), (lua_Integer)(*y)->shape[0],
                         (lua_Integer)(*y)->shape[1]);
    drop_number(L, 1, ta != NULL);
    drop_number(L, 2, tb != NULL);
    return 1;
}

/* where(condition: Tensor, a: Tensor|number, b: Tensor|number) -> Tensor
 * a where the condition holds, else b. */
static int op_where(lua_State *L) {
    lua_settop(L, 3);
    sr_tensor *condition = lsr_checktensor(L, 1), *like = lsr_totensor(L, 2);
    if (like == NULL) like = lsr_totensor(L, 3);
    sr_tensor *a = lsr_checkoperand(L, 2, like), *b = lsr_checkoperand(L, 3, like);
    return lsr_made(L, sr_op_where(lsr_newtensor(L), condition, a, b));
}

/* ---- in place -------------------------------------------------------------------------------- */

static int in_place(lua_State *L, sr_binary op) {
    lua_settop(L, 2);
    sr_tensor *y = lsr_checktensor(L, 1), *given = lsr_totensor(L, 2);
    lsr_check(L, sr_op_binary_in_place(y, lsr_checkoperand(L, 2, y), op));
    drop_number(L, 2, given != NULL);
    return lsr_self(L);
}

#define IN_PLACE(name, op)                                                                         \
    static int name(lua_State *L) {                                                                \
        return in_place(L, op);                                                                    \
    }
IN_PLACE(op_add_, SR_ADD)
IN_PLACE(op_sub_, SR_SUB)
IN_PLACE(op_mul_, SR_MUL)
IN_PLACE(op_div_, SR_DIV)

/* tensor:fill_(value: number|boolean) -> Tensor
 * Sets every element; returns self. */
static int op_fill_(lua_State *L) {
    sr_tensor *y = lsr_checktensor(L, 1);
    double value = lua_isboolean(L, 2) ? lua_toboolean(L, 2) : luaL_checknumber(L, 2);
    lsr_checkfits(L, y->dtype, value, "fill_: the value");
    lsr_check(L, sr_op_fill_in_place(y, value));
    return lsr_self(L);
}

/* tensor:zero_() -> Tensor
 * Sets every element to 0; returns self. */
static int op_zero_(lua_State *L) {
    lsr_check(L, sr_op_fill_in_place(lsr_checktensor(L, 1), 0.0));
    return lsr_self(L);
}

/* tensor:copy_(other: Tensor|number) -> Tensor
 * Copies the values of another tensor, broadcast to this shape; returns self. */
static int op_copy_(lua_State *L) {
    lua_settop(L, 2);
    sr_tensor *y = lsr_checktensor(L, 1);
    if (lua_type(L, 2) == LUA_TNUMBER)
        lsr_checkfits(L, y->dtype, lua_tonumber(L, 2), "copy_: the value");
    lsr_check(L, sr_op_copy_in_place(y, lsr_checkoperand(L, 2, y)));
    return lsr_self(L);
}

/* ---- views and copies ------------------------------------------------------------------------ */

static int to_sizes(lua_State *L,
                    sr_status (*op)(sr_tensor **, sr_tensor *, int, const int64_t *)) {
    int64_t shape[SR_MAX_DIMS];
    sr_tensor *x = lsr_checktensor(L, 1);
    int ndim = lsr_checksizes(L, 2, shape);
    return lsr_made(L, op(lsr_newtensor(L), x, ndim, shape));
}

/* tensor:reshape(...: integer|integer[]) -> Tensor
 * The same elements in another shape; one size may be -1. Copies if the strides allow no view. */
static int op_reshape(lua_State *L) {
    return to_sizes(L, sr_op_reshape);
}

/* tensor:view(...: integer|integer[]) -> Tensor
 * Like reshape, but never copies: an error instead. */
static int op_view(lua_State *L) {
    return to_sizes(L, sr_op_view);
}

/* tensor:expand(...: integer|integer[]) -> Tensor
 * Broadcasts sizes of 1 without copying; -1 keeps a size. */
static int op_expand(lua_State *L) {
    return to_sizes(L, sr_op_expand);
}

/* tensor:permute(...: integer|integer[]) -> Tensor
 * Permutes the dimensions. */
static int op_permute(lua_State *L) {
    int64_t given[SR_MAX_DIMS];
    int order[SR_MAX_DIMS];
    sr_tensor *x = lsr_checktensor(L, 1);
    int n = lsr_checksizes(L, 2, given);
    if (n != x->ndim)
        return lsr_error(L, "permute: %d dimensions given, the tensor has %d", n, x->ndim);
    for (int i = 0; i < n; i++) {
        int64_t dim = given[i] < 0 ? given[i] + n : given[i] - 1;
        if (given[i] == 0 || dim < 0 || dim >= n)
            return lsr_error(
                L, "permute: dimension %I is out of range; the tensor has %d, numbered from 1",
                (lua_Integer)given[i], n);
        order[i] = (int)dim;
    }
    return lsr_made(L, sr_op_permute(lsr_newtensor(L), x, order));
}

/* tensor:transpose(a: integer, b: integer) -> Tensor
 * Swaps two dimensions. */
static int op_transpose(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int a = lsr_checkdim(L, 2, x->ndim), b = lsr_checkdim(L, 3, x->ndim);
    return lsr_made(L, sr_op_transpose(lsr_newtensor(L), x, a, b));
}

/* tensor:t() -> Tensor
 * Transposes a matrix. */
static int op_t(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    if (x->ndim != 2)
        return lsr_error(L, "t: expected a tensor of 2 dimensions, got %d; use transpose", x->ndim);
    return lsr_made(L, sr_op_transpose(lsr_newtensor(L), x, 0, 1));
}

/* tensor:narrow(dim: integer, start: integer, length: integer) -> Tensor
 * Positions start to start + length - 1 of a dimension. */
static int op_narrow(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_checkdim(L, 2, x->ndim);
    int64_t start = luaL_checkinteger(L, 3), length = luaL_checkinteger(L, 4);
    return lsr_made(L, sr_op_narrow(lsr_newtensor(L), x, dim, start - 1, length));
}

/* tensor:select(dim: integer, i: integer) -> Tensor
 * Position i of a dimension, which is removed; t[i] is select(1, i). */
static int op_select(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_checkdim(L, 2, x->ndim);
    int64_t i = lsr_position(x, dim, luaL_checkinteger(L, 3));
    return lsr_made(L, sr_op_select(lsr_newtensor(L), x, dim, i));
}

/* tensor:squeeze(dim?: integer) -> Tensor
 * Removes dimensions of size 1, or this one. */
static int op_squeeze(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_optdim(L, 2, x->ndim, SR_ALL_DIMS);
    return lsr_made(L, sr_op_squeeze(lsr_newtensor(L), x, dim));
}

/* tensor:unsqueeze(dim: integer) -> Tensor
 * Inserts a dimension of size 1 at this position. */
static int op_unsqueeze(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_checkdim(L, 2, x->ndim + 1);
    return lsr_made(L, sr_op_unsqueeze(lsr_newtensor(L), x, dim));
}

/* tensor:detach() -> Tensor
 * The same values without history. */
static int op_detach(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    return lsr_made(L, sr_op_detach(lsr_newtensor(L), x));
}

/* tensor:clone() -> Tensor
 * A copy in new memory. */
static int op_clone(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    return lsr_made(L, sr_op_clone(lsr_newtensor(L), x));
}

/* tensor:contiguous() -> Tensor
 * Self, or a row-major copy of a strided view. */
static int op_contiguous(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    return lsr_made(L, sr_op_contiguous(lsr_newtensor(L), x));
}

/* tensor:to(where: string) -> Tensor
 * Converted to a dtype, or moved to a device. */
static int op_to(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    sr_dtype dtype;
    const char *name = luaL_checkstring(L, 2);
    bool is_dtype = sr_dtype_parse(&dtype, name);
    if (!is_dtype && !lsr_has_device(name))
        return lsr_error(L,
                         "to: '%s' is neither a dtype (f64, f32, bf16, i32, bool) nor a device "
                         "(sr.devices() lists them)",
                         name);
    sr_device *device = is_dtype ? NULL : lsr_device_named(L, name);
    sr_tensor **out = lsr_newtensor(L);
    return lsr_made(L, is_dtype ? sr_op_convert(out, x, dtype) : sr_op_to_device(out, x, device));
}

/* cat(list: Tensor[], dim: integer) -> Tensor
 * Concatenates tensors along a dimension. */
static int op_cat(lua_State *L) {
    int64_t n;
    sr_tensor **list = lsr_checktensors(L, 1, &n);
    if (n < 1) return lsr_argerror(L, 1, "expected a list of at least one tensor");
    int dim = lsr_checkdim(L, 2, list[0]->ndim);
    return lsr_made(L, sr_op_cat(lsr_newtensor(L), (int)n, list, dim));
}

/* ---- reductions and products ----------------------------------------------------------------- */

static int reduce(lua_State *L, sr_reduction op) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_optdim(L, 2, x->ndim, SR_ALL_DIMS);
    bool keep = lua_toboolean(L, 3);
    return lsr_made(L, sr_op_reduce(lsr_newtensor(L), x, op, dim, keep));
}

#define REDUCE(name, op)                                                                           \
    static int name(lua_State *L) {                                                                \
        return reduce(L, op);                                                                      \
    }
REDUCE(op_sum, SR_SUM)
REDUCE(op_max, SR_MAX)
REDUCE(op_min, SR_MIN)
REDUCE(op_argmax, SR_ARGMAX)
REDUCE(op_argmin, SR_ARGMIN)

/* tensor:mean(dim?: integer, keep?: boolean) -> Tensor
 * Mean over one dimension, or all. */
static int op_mean(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_optdim(L, 2, x->ndim, SR_ALL_DIMS);
    bool keep = lua_toboolean(L, 3);
    return lsr_made(L, sr_op_mean(lsr_newtensor(L), x, dim, keep));
}

/* tensor:matmul(other: Tensor) -> Tensor
 * Matrix product (..., m, k) (..., k, n); batch dimensions are broadcast. */
static int op_matmul(lua_State *L) {
    sr_tensor *a = lsr_checktensor(L, 1), *b = lsr_checktensor(L, 2);
    return lsr_made(L, sr_op_matmul(lsr_newtensor(L), a, b));
}

static int softmax(lua_State *L, bool log) {
    sr_tensor *x = lsr_checktensor(L, 1);
    int dim = lsr_optdim(L, 2, x->ndim, x->ndim - 1);
    return lsr_made(L, sr_op_softmax(lsr_newtensor(L), x, dim, log));
}

/* tensor:softmax(dim?: integer) -> Tensor
 * Softmax along a dimension, default the last. */
static int op_softmax(lua_State *L) {
    return softmax(L, false);
}

/* tensor:log_softmax(dim?: integer) -> Tensor
 * Logarithm of the softmax along a dimension, default the last. */
static int op_log_softmax(lua_State *L) {
    return softmax(L, true);
}

/* tensor:index(rows: Tensor) -> Tensor
 * Gathers rows by an i32 tensor of indices, from 0. */
/* gather_rows(x: Tensor, rows: Tensor) -> Tensor
 * Gathers rows by index, from 0. */
static int op_gather_rows(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *rows = lsr_checktensor(L, 2);
    return lsr_made(L, sr_op_gather_rows(lsr_newtensor(L), x, rows));
}

/* put_rows(x: Tensor, rows: Tensor, values: Tensor) -> Tensor
 * x with the rows at these indices, from 0, replaced by `values`.
 *   rows  each row at most once */
static int op_put_rows(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *rows = lsr_checktensor(L, 2);
    sr_tensor *values = lsr_checktensor(L, 3);
    return lsr_made(L, sr_op_put_rows(lsr_newtensor(L), x, rows, values));
}

/* take_rows(x: Tensor, rows: Tensor, count?: integer) -> Tensor taken, Tensor rest
 * The rows at these indices, from 0, and the rest of x, which only return_rows may read.
 *   rows   each row at most once
 *   count  rows of the first result: those after the taken ones are zero */
static int op_take_rows(lua_State *L) {
    sr_tensor *x = lsr_checktensor(L, 1), *rows = lsr_checktensor(L, 2);
    int64_t count = luaL_optinteger(L, 3, rows->ndim > 0 ? rows->shape[0] : 0);
    sr_tensor **taken = lsr_newtensor(L), **rest = lsr_newtensor(L);
    lsr_check(L, sr_op_take_rows(taken, rest, x, rows, count));
    return 2;
}

/* return_rows(rest: Tensor, rows: Tensor, values: Tensor, in_place?: boolean) -> Tensor
 * The rest of take_rows with the first rows of `values` in the place of the taken ones.
 *   in_place  overwrite x */
static int op_return_rows(lua_State *L) {
    sr_tensor *rest = lsr_checktensor(L, 1), *rows = lsr_checktensor(L, 2);
    sr_tensor *values = lsr_checktensor(L, 3);
    bool in_place = lua_toboolean(L, 4);
    return lsr_made(L, sr_op_return_rows(lsr_newtensor(L), rest, rows, values, in_place));
}

/* ---- module ---------------------------------------------------------------------------------- */

/* tensor:add_(other: Tensor|number) -> Tensor
 * Adds in place; returns self. */
/* tensor:sub_(other: Tensor|number) -> Tensor
 * Subtracts in place; returns self. */
/* tensor:mul_(other: Tensor|number) -> Tensor
 * Multiplies in place; returns self. */
/* tensor:div_(other: Tensor|number) -> Tensor
 * Divides in place; returns self. */
/* tensor:sum(dim?: integer, keep?: boolean) -> Tensor
 * Sum over one dimension, or all. */
/* tensor:max(dim?: integer, keep?: boolean) -> Tensor
 * Maximum over one dimension, or all; equal maxima share the gradient. */
/* tensor:min(dim?: integer, keep?: boolean) -> Tensor
 * Minimum over one dimension, or all; equal minima share the gradient. */
/* tensor:argmax(dim?: integer, keep?: boolean) -> Tensor
 * Position (from 0) of the maximum along a dimension; the first on a tie. */
/* tensor:argmin(dim?: integer, keep?: boolean) -> Tensor
 * Position (from 0) of the minimum along a dimension; the first on a tie. */
static const luaL_Reg methods[] = {
    {"add_", op_add_},
    {"sub_", op_sub_},
    {"mul_", op_mul_},
    {"div_", op_div_},
    {"fill_", op_fill_},
    {"zero_", op_zero_},
    {"copy_", op_copy_},
    {"reshape", op_reshape},
    {"view", op_view},
    {"expand", op_expand},
    {"permute", op_permute},
    {"transpose", op_transpose},
    {"t", op_t},
    {"narrow", op_narrow},
    {"select", op_select},
    {"squeeze", op_squeeze},
    {"unsqueeze", op_unsqueeze},
    {"detach", op_detach},
    {"clone", op_clone},
    {"contiguous", op_contiguous},
    {"to", op_to},
    {"sum", op_sum},
    {"mean", op_mean},
    {"max", op_max},
    {"min", op_min},
    {"argmax", op_argmax},
    {"argmin", op_argmin},
    {"matmul", op_matmul},
    {"softmax", op_softmax},
    {"log_softmax", op_log_softmax},
    {"index", op_gather_rows},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"where", op_where},
    {"cat", op_cat},
    {"gather_rows", op_gather_rows},
    {"put_rows", op_put_rows},
    {"take_rows", op_take_rows},
    {"return_rows", op_return_rows},
    {"refuse_pairs", refuse_pairs},
    {"is_sigmoid", is_sigmoid},
    {NULL, NULL},
};

static void set_op(lua_State *L, const char *name, lua_CFunction f, int op) {
    lua_pushinteger(L, op);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
}

/* tensor:abs() -> Tensor
 * Absolute value. */
/* tensor:square() -> Tensor
 * Square. */
/* tensor:sqrt() -> Tensor
 * Square root. */
/* tensor:rsqrt() -> Tensor
 * Reciprocal of the square root. */
/* tensor:reciprocal() -> Tensor
 * Reciprocal. */
/* tensor:exp() -> Tensor
 * Exponential function. */
/* tensor:log() -> Tensor
 * Natural logarithm. */
/* tensor:sin() -> Tensor
 * Sine. */
/* tensor:cos() -> Tensor
 * Cosine. */
/* tensor:tanh() -> Tensor
 * Hyperbolic tangent. */
/* tensor:sigmoid() -> Tensor
 * Logistic sigmoid, 1 / (1 + exp(-x)). */
/* tensor:relu() -> Tensor
 * max(x, 0). */
/* tensor:gelu() -> Tensor
 * GELU, x (1 + erf(x / sqrt 2)) / 2. */
/* tensor:gelu_tanh() -> Tensor
 * The tanh approximation of GELU. */
/* tensor:silu() -> Tensor
 * SiLU, also called swish: x times its sigmoid. */
/* tensor:erf() -> Tensor
 * Error function. */
/* tensor:sign() -> Tensor
 * The sign: -1, 0 or 1. */
/* tensor:floor() -> Tensor
 * Rounds down to an integer. */
/* tensor:logical_not() -> Tensor
 * True where the element is 0. */
/* tensor:minimum(other: Tensor|number) -> Tensor
 * Elementwise minimum. */
/* tensor:maximum(other: Tensor|number) -> Tensor
 * Elementwise maximum. */
/* tensor:eq(other: Tensor|number) -> Tensor
 * Elementwise ==. */
/* tensor:ne(other: Tensor|number) -> Tensor
 * Elementwise !=. */
/* tensor:lt(other: Tensor|number) -> Tensor
 * Elementwise <. */
/* tensor:le(other: Tensor|number) -> Tensor
 * Elementwise <=. */
/* tensor:gt(other: Tensor|number) -> Tensor
 * Elementwise >. */
/* tensor:ge(other: Tensor|number) -> Tensor
 * Elementwise >=. */
/* tensor:logical_and(other: Tensor|number) -> Tensor
 * Elementwise logical and. */
/* tensor:logical_or(other: Tensor|number) -> Tensor
 * Elementwise logical or. */

/* Elementwise ops are methods by their names, but for those that are operators of Lua. */
static void set_elementwise(lua_State *L) {
    for (int op = 0; op < SR_UNARY_COUNT; op++)
        if (op != SR_NEG) set_op(L, sr_unary_name((sr_unary)op), op_unary, op);
    for (int op = SR_POW + 1; op < SR_BINARY_COUNT; op++)
        set_op(L, sr_binary_name((sr_binary)op), op_binary, op);
}

static void set_operators(lua_State *L) {
    static const char *const names[] = {"__add", "__sub", "__mul", "__div", "__pow"};
    for (int op = SR_ADD; op <= SR_POW; op++) set_op(L, names[op], op_binary, op);
    set_op(L, "__unm", op_unary, SR_NEG);
}

/* The names of ops of one tensor that are methods. */
static void push_unary_names(lua_State *L) {
    lua_newtable(L);
    for (int op = 0; op < SR_UNARY_COUNT; op++) {
        if (op == SR_NEG) continue;
        lua_pushstring(L, sr_unary_name((sr_unary)op));
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
}

/* @class seqrun.core.ops
 * Loading it adds the small ops to the methods of tensors.
 * @field unary string[] the names of elementwise ops of one tensor, which are methods
 * @field activations string[] the activations of `linear`
 * @field coarse table<string, function> with positional arguments; seqrun.tensor.ops names them */
void lsr_open_ops(lua_State *L) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "seqrun.core.tensor");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "methods");
    luaL_setfuncs(L, methods, 0);
    set_elementwise(L);
    lua_getfield(L, -2, "metatable");
    set_operators(L);
    lua_pop(L, 3);
    luaL_setfuncs(L, functions, 0);
    push_unary_names(L);
    lua_setfield(L, -2, "unary");
}
