// Visibility: everything is hidden unless it is part of the interface between libpaddock and its users.
#pragma once
#define PADDOCK_API __attribute__((visibility("default")))
