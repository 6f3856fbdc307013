#pragma once

// What /metrics says, read from the model and the dataplane at each scrape. No series outlives what it is
// about, no label holds a MAC address.

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "dataplane/dataplane.h"
#include "server/agent/cni_requests.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class MetricFamilies final : public prometheus::Collectable {
 public:
  MetricFamilies(const Dataplane* dataplane, const SwitchModel* model, const CniRequests* requests)
      : dataplane_(dataplane), model_(model), requests_(requests) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Dataplane* const dataplane_;
  const SwitchModel* const model_;
  const CniRequests* const requests_;
};

}  // namespace ringswitch::agent
