// The register API of the vector unit: namespace AscendC::Reg, alias MicroAPI.
#pragma once

#include "twin/reg_arith.h"
#include "twin/reg_call.h"
#include "twin/reg_cast.h"
#include "twin/reg_load.h"
#include "twin/reg_mask.h"
#include "twin/reg_reduce.h"
#include "twin/reg_select.h"
#include "twin/reg_shuffle.h"
#include "twin/reg_store.h"
