/* owners.h - OWNED() for devices, tensors, and what trains them. */
#pragma once

#include "core/seqrun.h"
#include "tests/support/check.h"

OWNER(sr_device, sr_device_close)
OWNER(sr_exchange, sr_exchange_free)
OWNER(sr_layout, sr_layout_release)
OWNER(sr_optim, sr_optim_free)
OWNER(sr_params, sr_params_free)
OWNER(sr_sharded, sr_sharded_free)
OWNER(sr_shares, sr_shares_free)
OWNER(sr_tensor, sr_tensor_release)
