#include "cni-plugin/config.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cni-plugin/failure.h"

namespace ringswitch::cni {
namespace {

constexpr char kDefaultAgentAddress[] = "/run/ringswitch/ringswitchd.sock";
constexpr char kDefaultSpoolDirectory[] = "/var/lib/ringswitch/spool";
constexpr char kDefaultSwitch[] = "cni0";    // As the reference bridge plugin.
constexpr size_t kSocketPathBytesMax = 107;  // sockaddr_un
constexpr int64_t kVidMax = 4094;
constexpr int64_t kMtuMin = 68;
constexpr int64_t kMtuMax = 65521;
constexpr int64_t kMacLimitMax = 1048576;

// Keys of the reference bridge and macvlan plugins that this plugin does not implement. A value that switches
// something on is refused: a pod without the gateway or the isolation that its configuration asks for would
// be worse than none.
enum class KeyType { kBoolean, kNumber, kString };
constexpr std::pair<const char*, KeyType> kUnsupportedKeys[] = {
    {"isGateway", KeyType::kBoolean},           {"isDefaultGateway", KeyType::kBoolean},
    {"forceAddress", KeyType::kBoolean},        {"ipMasq", KeyType::kBoolean},
    {"hairpinMode", KeyType::kBoolean},         {"promiscMode", KeyType::kBoolean},
    {"portIsolation", KeyType::kBoolean},       {"macspoofchk", KeyType::kBoolean},
    {"enabledad", KeyType::kBoolean},           {"disableContainerInterface", KeyType::kBoolean},
    {"preserveDefaultVlan", KeyType::kBoolean}, {"linkInContainer", KeyType::kBoolean},
    {"bcqueuelen", KeyType::kNumber},           {"master", KeyType::kString}};
constexpr const char* kMacvlanModes[] = {"bridge", "private", "vepa", "passthru"};

// Whether `key` is given and switches something on.
absl::StatusOr<bool> IsSwitchedOn(const Json& document, const char* key, KeyType type) {
  bool is_on = false;
  std::optional<int64_t> number;
  std::string text;
  absl::Status status;
  if (type == KeyType::kBoolean) status = ReadBoolean(document, "", key, is_on);
  if (type == KeyType::kNumber) status = ReadInteger(document, "", key, INT64_MIN, INT64_MAX, number);
  if (type == KeyType::kString) status = ReadString(document, "", key, text);
  if (!status.ok()) return status;
  return is_on || number.value_or(0) != 0 || !text.empty();
}

absl::Status CheckUnsupported(const Json& document) {
  for (const auto& [key, type] : kUnsupportedKeys) {
    const absl::StatusOr<bool> is_on = IsSwitchedOn(document, key, type);
    if (!is_on.ok()) return is_on.status();
    if (*is_on) {
      return Failure(kUnsupportedField, absl::StrCat(key, ": not supported; leave it out"),
                     absl::StrCat("got ", ToText(*Find(document, key))));
    }
  }
  std::string mode;
  if (absl::Status status = ReadString(document, "", "mode", mode); !status.ok()) return status;
  const bool is_macvlan =
      std::find(std::begin(kMacvlanModes), std::end(kMacvlanModes), mode) != std::end(kMacvlanModes);
  if (is_macvlan) return Failure(kUnsupportedField, "mode: not supported; leave it out");
  return absl::OkStatus();
}

bool IsNetworkName(absl::string_view name) {
  const auto allowed = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-'; };
  return !name.empty() && absl::ascii_isalnum(name[0]) && std::all_of(name.begin(), name.end(), allowed);
}

absl::StatusOr<v1::VlanRange> ReadVlanRange(const Json& item, absl::string_view path) {
  std::optional<int64_t> first;
  std::optional<int64_t> last;
  std::optional<int64_t> single;
  for (const auto& [key, value] : {std::pair("minID", &first), {"maxID", &last}, {"id", &single}}) {
    if (absl::Status status = ReadInteger(item, path, key, 1, kVidMax, *value); !status.ok()) return status;
  }
  v1::VlanRange range;
  if (single && !first && !last) {
    range.set_first(*single);
  } else if (first && last && !single && *first <= *last) {
    range.set_first(*first);
    range.set_last(*last);
  } else {
    return Failure(kBadConfig, absl::StrCat(path, " needs either id, or minID and maxID with minID <= maxID"),
                   absl::StrCat("got ", ToText(item)));
  }
  return range;
}

// vlan alone: an access port. vlanTrunk: its VLANs tagged, and vlan, where it is given too, native.
absl::Status ReadVlans(const Json& document, v1::Attachment& attachment) {
  std::optional<int64_t> vid;
  if (absl::Status status = ReadInteger(document, "", "vlan", 0, kVidMax, vid); !status.ok()) return status;
  const absl::StatusOr<const Json*> trunk = FindList(document, "", "vlanTrunk");
  if (!trunk.ok()) return trunk.status();
  if (*trunk != nullptr && !(*trunk)->empty()) {
    v1::Trunk& wanted = *attachment.mutable_vlans()->mutable_trunk();
    for (size_t i = 0; i < (*trunk)->size(); ++i) {
      const std::string path = absl::StrCat("vlanTrunk[", i, "].");
      absl::StatusOr<v1::VlanRange> range = ReadVlanRange((**trunk)[i], path);
      if (!range.ok()) return range.status();
      *wanted.add_tagged() = *range;
    }
    wanted.set_native_vid(vid.value_or(0));
  } else if (vid.value_or(0) != 0) {
    attachment.mutable_vlans()->set_access_vid(*vid);
  }
  return absl::OkStatus();
}

// "02:00:00:00:0a:01" from any case, with ':' or '-'.
absl::StatusOr<std::string> NormalizeMac(absl::string_view text, absl::string_view source, int code) {
  std::string mac = absl::AsciiStrToLower(text);
  std::replace(mac.begin(), mac.end(), '-', ':');
  const std::vector<absl::string_view> parts = absl::StrSplit(mac, ':');
  bool valid = parts.size() == 6;
  for (const absl::string_view part : parts) {
    valid = valid && part.size() == 2 && absl::ascii_isxdigit(part[0]) && absl::ascii_isxdigit(part[1]);
  }
  const bool is_group = valid && absl::string_view("13579bdf").find(mac[1]) != absl::string_view::npos;
  if (!valid || is_group || mac == "00:00:00:00:00:00") {
    return Failure(code, absl::StrCat(source, ": must be a unicast MAC address such as 02:00:00:00:0a:01"),
                   absl::StrCat("got \"", text, "\""));
  }
  return mac;
}

// runtimeConfig.mac, then args.cni.mac, then MAC of CNI_ARGS: the order of the reference plugins.
absl::StatusOr<std::string> ReadMac(const Json& document, const CniArgs& args) {
  std::string mac;
  const absl::StatusOr<const Json*> runtime = FindObject(document, "", "runtimeConfig");
  if (!runtime.ok()) return runtime.status();
  if (*runtime != nullptr) {
    absl::Status status = ReadString(**runtime, "runtimeConfig.", "mac", mac);
    if (!status.ok()) return status;
    if (!mac.empty()) return NormalizeMac(mac, "runtimeConfig.mac", kBadConfig);
  }
  const absl::StatusOr<const Json*> arguments = FindObject(document, "", "args");
  if (!arguments.ok()) return arguments.status();
  const absl::StatusOr<const Json*> cni =
      *arguments == nullptr ? nullptr : FindObject(**arguments, "args.", "cni");
  if (!cni.ok()) return cni.status();
  if (*cni != nullptr) {
    absl::Status status = ReadString(**cni, "args.cni.", "mac", mac);
    if (!status.ok()) return status;
    if (!mac.empty()) return NormalizeMac(mac, "args.cni.mac", kBadConfig);
  }
  if (args.mac_address.empty()) return mac;
  return NormalizeMac(args.mac_address, "CNI_ARGS: MAC", kBadEnvironment);
}

absl::Status ReadAddress(const Json& document, NetworkConfig& config) {
  config.agent_address = kDefaultAgentAddress;
  config.spool_directory = kDefaultSpoolDirectory;
  absl::Status status = ReadString(document, "", "agentAddress", config.agent_address);
  if (status.ok()) status = ReadString(document, "", "spoolDirectory", config.spool_directory);
  if (!status.ok()) return status;
  if (absl::StartsWith(config.agent_address, "unix:")) config.agent_address.erase(0, 5);
  if (!absl::StartsWith(config.agent_address, "/") || config.agent_address.size() > kSocketPathBytesMax) {
    return Failure(kBadConfig,
                   absl::StrCat("agentAddress: must be the absolute path of a unix socket, at most ",
                                kSocketPathBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsSupportedVersion(absl::string_view version) {
  return std::find(std::begin(kSupportedVersions), std::end(kSupportedVersions), version) !=
         std::end(kSupportedVersions);
}

bool IsVersionBefore(absl::string_view version, absl::string_view other) {
  return std::find(std::begin(kSupportedVersions), std::end(kSupportedVersions), version) <
         std::find(std::begin(kSupportedVersions), std::end(kSupportedVersions), other);
}

absl::StatusOr<NetworkConfig> ReadNetworkConfig(std::string text) {
  absl::StatusOr<Json> document = ParseObject(text, "the network configuration on stdin");
  if (!document.ok()) return document.status();
  NetworkConfig config;
  absl::Status status = ReadString(*document, "", "cniVersion", config.cni_version);
  if (!status.ok()) return status;
  if (!IsSupportedVersion(config.cni_version)) {
    return Failure(kIncompatibleVersion,
                   absl::StrCat("cniVersion: \"", config.cni_version, "\" is not supported"),
                   absl::StrCat("supported: ", absl::StrJoin(kSupportedVersions, ", ")));
  }
  status = ReadString(*document, "", "name", config.name);
  if (!status.ok()) return status;
  if (!IsNetworkName(config.name)) {
    return Failure(kBadConfig,
                   "name: must be set to characters of [A-Za-z0-9._-], the first one a letter or digit");
  }
  const absl::StatusOr<const Json*> ipam = FindObject(*document, "", "ipam");
  if (!ipam.ok()) return ipam.status();
  if (*ipam != nullptr) status = ReadString(**ipam, "ipam.", "type", config.ipam_type);
  if (status.ok() && absl::StrContains(config.ipam_type, '/')) {
    status = Failure(kBadConfig, "ipam.type: must be the name of a plugin in CNI_PATH, without '/'");
  }
  if (status.ok()) status = ReadAddress(*document, config);
  if (!status.ok()) return status;
  config.text = std::move(text);
  config.document = *std::move(document);
  return config;
}

std::string TextWithVersion(const NetworkConfig& config, absl::string_view version) {
  Json document = config.document;
  document["cniVersion"] = std::string(version);
  return ToText(document);
}

absl::StatusOr<v1::Attachment> ReadAttachment(const NetworkConfig& config, const Invocation& invocation) {
  const Json& document = config.document;
  if (absl::Status status = CheckUnsupported(document); !status.ok()) return status;
  const absl::StatusOr<CniArgs> args = ParseCniArgs(invocation.args);
  if (!args.ok()) return args.status();

  v1::Attachment attachment;
  attachment.set_container_id(invocation.container_id);
  attachment.set_ifname(invocation.ifname);
  attachment.set_netns(invocation.netns);
  attachment.set_network(config.name);
  std::string switch_name;
  std::optional<int64_t> mtu;
  std::optional<int64_t> mac_limit;
  std::string type;  // The runtime has found us by it.
  absl::Status status = ReadString(document, "", "type", type);
  if (status.ok()) status = ReadString(document, "", "bridge", switch_name);
  // 0 stands for "not given", as in the reference.
  const Json* mtu_value = Find(document, "mtu");
  const bool has_mtu = mtu_value != nullptr && *mtu_value != 0;
  if (status.ok() && has_mtu) status = ReadInteger(document, "", "mtu", kMtuMin, kMtuMax, mtu);
  if (status.ok()) status = ReadInteger(document, "", "macLimit", 0, kMacLimitMax, mac_limit);
  if (status.ok()) status = ReadVlans(document, attachment);
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> mac = ReadMac(document, *args);
  if (!mac.ok()) return mac.status();

  attachment.set_switch_name(switch_name.empty() ? kDefaultSwitch : switch_name);
  attachment.set_mac_address(*mac);
  attachment.set_mtu(mtu.value_or(0));
  if (mac_limit) attachment.set_mac_limit(*mac_limit);
  if (!args->pod_name.empty() || !args->pod_namespace.empty()) {
    attachment.mutable_pod()->set_namespace_(args->pod_namespace);
    attachment.mutable_pod()->set_name(args->pod_name);
    attachment.mutable_pod()->set_uid(args->pod_uid);
  }
  return attachment;
}

absl::StatusOr<std::vector<AttachmentKey>> ReadValidAttachments(const NetworkConfig& config) {
  constexpr char kKey[] = "cni.dev/valid-attachments";
  const absl::StatusOr<const Json*> list = FindList(config.document, "", kKey);
  if (!list.ok()) return list.status();
  if (*list == nullptr) return Failure(kBadConfig, absl::StrCat(kKey, ": must be given"));
  std::vector<AttachmentKey> keys;
  for (const Json& item : **list) {
    AttachmentKey key;
    absl::Status status = ReadString(item, absl::StrCat(kKey, "[]."), "containerID", key.container_id);
    if (status.ok()) status = ReadString(item, absl::StrCat(kKey, "[]."), "ifname", key.ifname);
    if (!status.ok()) return status;
    if (key.container_id.empty() || key.ifname.empty()) {
      return Failure(kBadConfig, absl::StrCat(kKey, ": each needs containerID and ifname"),
                     absl::StrCat("got ", ToText(item)));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace ringswitch::cni
