#include "tests/fuzz/message_filler.h"

#include <google/protobuf/stubs/logging.h>

#include <map>
#include <string>

namespace ringswitch::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kDepthMax = 4;

const std::vector<std::string>& ValuesOf(const std::string& field) {
  static const std::vector<std::string> kAny = {"sw0", "p1", "eth0", "10.0.0.1/24", "0.0.0.0/0", "",
                                                "a b", "..", "/"};
  static const std::map<std::string, std::vector<std::string>> kValues = {
      {"name", {"sw0", "sw1", "p1", "p2", "p3", "x"}},
      {"switch_name", {"sw0", "sw1"}},
      {"port_name", {"p1", "p2", "p3", "c1:eth0"}},
      {"netns", {"/run/netns/h1", "/run/netns/h2", ""}},
      {"ifname", {"eth0", "eth1", "nd0", "nd1", "net1"}},
      {"host_ifname", {"", "v0", "v1", "nd0"}},
      {"container_id", {"c1", "c2"}},
      {"mac_address",
       {"02:00:00:00:0a:01", "02-00-00-00-0a-02", "01:00:5e:00:00:01", "00:00:00:00:00:00", ""}},
      {"mac_addresses", {"02:00:00:00:0a:01", "02:00:00:00:0A:02", "ff:ff:ff:ff:ff:ff"}},
      {"ip_addresses", {"10.0.0.1", "fd00::1", "224.0.0.1", "::", "::ffff:10.0.0.1"}},
      {"address", {"10.0.0.1/24", "fd00::1/64", "10.0.0.1", "0.0.0.0/33"}},
      {"destination", {"0.0.0.0/0", "::/0", "10.0.0.0/8"}},
      {"gateway", {"10.0.0.9", "fd00::9", ""}},
      {"paths",
       {"mtu",
        "vlans",
        "mac_limit",
        "pod",
        "admin_up",
        "learning",
        "locked",
        "bpdu_guard",
        "storm_control",
        "receive_rate",
        "source_guard",
        "storm_control.broadcast",
        "source_guard.mac",
        "source_guard.mac_addresses",
        "source_guard.ip_addresses",
        "source_guard.address",
        "vlan_aware",
        "default_vid",
        "ageing_time",
        "flap_guard",
        "vlan_counters",
        "group_forward_mask",
        "isolated",
        "hairpin",
        "name",
        "*",
        "bogus"}},
  };
  const auto found = kValues.find(field);
  return found != kValues.end() ? found->second : kAny;
}

std::string ReadString(const std::string& field, Input* input) {
  const uint8_t choice = input->Byte();
  if (choice >= 0xf0) return input->Text(input->Byte());
  const std::vector<std::string>& values = ValuesOf(field);
  return values[choice % values.size()];
}

uint64_t ReadNumber(Input* input) {
  static constexpr uint64_t kNumbers[] = {1,      0,       2,          10,         20,        63,
                                          64,     68,      300,        1500,       4094,      4095,
                                          65'521, 100'000, 1ull << 20, UINT32_MAX, UINT64_MAX};
  const uint8_t choice = input->Byte();
  return choice < 0xe0 ? kNumbers[choice % std::size(kNumbers)] : input->Number(1 + choice % 8);
}

class Filler {
 public:
  explicit Filler(Input* input) : input_(*input) {}

  void Fill(Message* message, int depth) {
    const google::protobuf::Descriptor& type = *message->GetDescriptor();
    if (type.field_count() == 0) return;
    for (unsigned i = input_.Below(10); i > 0; --i)
      FillField(type.field(input_.Byte() % type.field_count()), message, depth);
  }

 private:
  template <typename Value, typename Set, typename Add>
  void Put(Message* message, const FieldDescriptor* field, Value value, Set set, Add add) {
    const Reflection& reflection = *message->GetReflection();
    (reflection.*(field->is_repeated() ? add : set))(message, field, value);
  }

  void FillField(const FieldDescriptor* field, Message* message, int depth) {
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put(message, field, !input_.OneIn(4), &Reflection::SetBool, &Reflection::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Put(message, field, static_cast<int>(input_.Below(4)), &Reflection::SetEnumValue,
                   &Reflection::AddEnumValue);
      case FieldDescriptor::CPPTYPE_INT32:
        return Put(message, field, static_cast<int32_t>(ReadNumber(&input_)), &Reflection::SetInt32,
                   &Reflection::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return Put(message, field, static_cast<int64_t>(ReadNumber(&input_)), &Reflection::SetInt64,
                   &Reflection::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put(message, field, static_cast<uint32_t>(ReadNumber(&input_)), &Reflection::SetUInt32,
                   &Reflection::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put(message, field, ReadNumber(&input_), &Reflection::SetUInt64, &Reflection::AddUInt64);
      case FieldDescriptor::CPPTYPE_STRING:
        return Put(message, field, ReadString(field->name(), &input_), &Reflection::SetString,
                   &Reflection::AddString);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillMessageField(field, message, depth);
      case FieldDescriptor::CPPTYPE_FLOAT:  // the contract has none of these
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return;
    }
  }

  void FillMessageField(const FieldDescriptor* field, Message* message, int depth) {
    if (depth == kDepthMax) return;
    const Reflection& reflection = *message->GetReflection();
    Fill(field->is_repeated() ? reflection.AddMessage(message, field)
                              : reflection.MutableMessage(message, field),
         depth + 1);
  }

  Input& input_;
};

}  // namespace

bool FillMessage(Input* input, Message* message) {
  // What is no UTF-8 is told by the result.
  [[maybe_unused]] static const auto previous = google::protobuf::SetLogHandler(nullptr);
  if (input->OneIn(16)) return message->ParseFromString(input->Text(input->Byte()));
  Filler(input).Fill(message, 0);
  return message->ParseFromString(message->SerializePartialAsString());
}

}  // namespace ringswitch::fuzz
