// The c10 headers include it for its version number alone, and do without one.
#pragma once
