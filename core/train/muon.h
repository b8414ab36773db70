/* muon.h - the orthogonal matrix next to a given one, by products of matrices.
 *
 * Muon moves a matrix along U V^T, where U S V^T is the singular value decomposition of its
 * direction.  Five steps of a quintic polynomial of Newton and Schulz,
 *
 *   X <- a X + (b A + c A^2) X,   A = X X^T,   (a, b, c) = (3.4445, -4.7750, 2.0315),
 *
 * push all singular values of an X of norm 1 to about 1 (between 0.68 and 1.14 for those above
 * 0.01), which is as good.  Products are taken on the shorter side of X, in the device's real type.
 *
 * Source: Jordan 2024, https://kellerjordan.github.io/posts/muon; Liu et al. 2025,
 * arXiv:2502.16982 (Moonlight: the factor 0.2 sqrt(max(rows, columns))).
 */
#pragma once

#include "core/base/status.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

/* Elements of `work` that sr_muon_orthogonalise() needs. */
int64_t sr_muon_room(int64_t rows, int64_t columns);

/* Replaces the matrix at element `at` of the flat tensor x, of norm 1 or 0; does not wait for the
 * device.
 *
 *   work   flat, on the device of x, of its type, of at least sr_muon_room() elements
 *
 * Cost: 20 min(rows, columns) + 10 min^2 / max multiply-adds per element
 */
sr_status sr_muon_orthogonalise(sr_tensor *x, int64_t at, int64_t rows, int64_t columns,
                                sr_tensor *work);

SR_END_C
