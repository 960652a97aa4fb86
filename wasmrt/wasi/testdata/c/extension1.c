#define VERSION 1
#include "extension.h"
