#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_DATA_TRANSFER_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_DATA_TRANSFER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/service_config.pb.h"

// Where tf.data service lets other transports in: libtensorflow_cc exports it, and the wheel has no
// header. Declared as TensorFlow 2.21 has it (core/data/service/data_transfer.h); what matters is
// the order of virtual functions and the layout of structs, which tests/ops/test_transport_plug.py
// reads off the library that is installed.
namespace tensorflow {
namespace data {

// A protocol message, of a type that is only named here.
class GetElementRequest;

struct GetElementResult {
  std::vector<Tensor> components;
  int64_t element_index = 0;
  bool end_of_sequence = false;
  bool skip = false;
};

class DataTransferClient {
 public:
  struct Config {
    absl::string_view protocol;
    std::string address;
    const DeviceBase::AcceleratorDeviceInfo* accelerator_device_info;
    Allocator* allocator;
  };
  using ClientFactoryT = std::function<absl::Status(Config, std::unique_ptr<DataTransferClient>*)>;

  virtual ~DataTransferClient() = default;
  virtual absl::Status GetElement(const GetElementRequest& request, GetElementResult& result) = 0;
  virtual void TryCancel() = 0;
  virtual absl::StatusOr<std::string> GetCompatibilityInfo() const { return std::string(); }
  virtual absl::Status CheckCompatibility(const std::string& server_info) const {
    return absl::OkStatus();
  }

  static void Register(std::string name, ClientFactoryT factory);
  static absl::Status Build(std::string name, Config config,
                            std::unique_ptr<DataTransferClient>* client);

 protected:
  Env* const env_ = Env::Default();
};

class DataTransferServer {
 public:
  using GetElementT = std::function<absl::Status(const GetElementRequest*, GetElementResult*)>;
  using ServerFactoryT =
      std::function<absl::Status(GetElementT, std::shared_ptr<DataTransferServer>*)>;

  virtual ~DataTransferServer() = default;
  virtual absl::Status Start(const experimental::WorkerConfig& config) = 0;
  virtual int Port() const = 0;
  virtual absl::StatusOr<std::string> GetCompatibilityInfo() const { return std::string(); }
  virtual bool FallBackToGrpcAtClientCreationTime() const { return true; }
  virtual bool FallBackToGrpcAtGetElementTime() const { return true; }

  static void Register(std::string name, ServerFactoryT factory);
};

}  // namespace data
}  // namespace tensorflow

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_DATA_TRANSFER_H_
