#pragma once

// The whole public interface.
#include "deepinfer/engine_options.h"
#include "deepinfer/llm.h"
#include "deepinfer/outputs.h"
#include "deepinfer/sampling_params.h"
