// What an AscendC kernel includes. With csrc/twin on the include path a kernel's source compiles for the twin
// unchanged.
#pragma once

#include "twin/data_copy.h"
#include "twin/enums.h"
#include "twin/machine.h"
#include "twin/queue.h"
#include "twin/sync.h"
#include "twin/tensor.h"
#include "twin/types.h"
#if __has_include("twin/cube.h")
#include "twin/cube.h"
#endif
#if __has_include("twin/reg.h")
#include "twin/reg.h"
#endif
