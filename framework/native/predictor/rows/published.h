// The rows of a click model that lie beside its export: `rows/rows.json` and the snapshots that it names.
#pragma once
#include <memory>
#include <string>

#include "predictor/outside.h"
#include "table/snapshot.h"

namespace paddock::rows {

// What is valid in the folder of an export now, of the model that `key` names. Throws FileError where it is missing,
// damaged or another model's, and Error of kind kNotSupported where the rows belong to a network that was published
// with them.
std::shared_ptr<const table::Snapshot> open_published(const std::string& folder, const std::string& key,
                                                      const predictor::Limits& limits);

}  // namespace paddock::rows
