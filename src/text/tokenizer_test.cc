#include "text/tokenizer.h"

#include <gtest/gtest.h>
