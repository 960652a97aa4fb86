#define VERSION 2
#include "extension.h"
