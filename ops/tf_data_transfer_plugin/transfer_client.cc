#include "ops/tf_data_transfer_plugin/transfer_client.h"

#include <chrono>
#include <utility>

#include "absl/log/log.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf_data_transfer_plugin/get_element_request.h"
#include "ops/tf_data_transfer_plugin/process.h"
#include "ops/tf_data_transfer_plugin/tensors_as_bytes/tensors_in.h"

namespace tfquiver {
namespace {

constexpr auto kFirstConnectTime = std::chrono::seconds(5);

}  // namespace

TransferClient::TransferClient(Config config)
    : config_(std::move(config)), protocol_(config_.protocol) {}

TransferClient::~TransferClient() { TryCancel(); }

absl::Status TransferClient::CheckCompatibility(const std::string& server_info) const {
  ServerInfo info;
  if (!DecodeServerInfo(server_info, &info)) {
    return absl::FailedPreconditionError(
        "tfquiver: the worker's element transport is of another version");
  }
  auto client = std::make_shared<ElementClient>(
      ElementPlace{info.local_name, config_.address, info.worker_id}, TransportKeys(),
      TransportCrc32c());
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (cancelled_) return absl::CancelledError("the iterator was cancelled");
    info_ = std::move(info);
    client_ = client;
  }
  const Status status = client->Connect(Clock::now() + kFirstConnectTime);
  if (!status.ok()) CountFallback();
  return ToAbsl(status);
}

absl::Status TransferClient::GetElement(const tensorflow::data::GetElementRequest& request,
                                        tensorflow::data::GetElementResult& result) {
  std::shared_ptr<tensorflow::data::DataTransferClient> grpc;
  std::shared_ptr<ElementClient> client;
  {
    std::lock_guard<std::mutex> lock(mu_);
    grpc = grpc_;
    client = client_;
  }
  if (grpc != nullptr) return grpc->GetElement(request, result);
  if (client == nullptr)
    return absl::FailedPreconditionError("tfquiver: asked before it was checked");
  const std::string bytes = AsMessage(request).SerializeAsString();
  Question question;
  if (!ReadQuestion(bytes, &question)) {
    return absl::InternalError("tfquiver: TensorFlow's request cannot be read");
  }
  Element element;
  PayloadRef payload;
  const Status status = client->Next(bytes, question, &element, &payload);
  switch (status.code()) {
    case Code::kOk:
      break;
    case Code::kUnavailable:
    case Code::kCancelled:
      return ToAbsl(status);  // asked again by TensorFlow, unless it has cancelled
    default:
      return FallBack(status, request, result);
  }
  if (element.code == Code::kOk && !element.skip && !element.end_of_sequence) {
    CountReceived(element.payload_bytes);
  }
  return MakeResult(element, payload, &result);
}

absl::Status TransferClient::FallBack(const Status& why,
                                      const tensorflow::data::GetElementRequest& request,
                                      tensorflow::data::GetElementResult& result) {
  Config config = config_;
  config.protocol = protocol_;
  std::shared_ptr<tensorflow::data::DataTransferClient> grpc;
  {
    std::lock_guard<std::mutex> lock(mu_);
    config.address = info_.grpc_address;
  }
  if (config.address.empty()) return absl::UnavailableError("tfquiver: " + why.message());
  std::unique_ptr<tensorflow::data::DataTransferClient> made;
  if (absl::Status status = DataTransferClient::Build("grpc", std::move(config), &made);
      !status.ok()) {
    return status;
  }
  LOG(INFO) << "tfquiver: " << why.message() << "; elements come by gRPC now";
  CountFallback();
  {
    std::lock_guard<std::mutex> lock(mu_);
    grpc = grpc_ = std::move(made);
    if (cancelled_) grpc->TryCancel();
  }
  return grpc->GetElement(request, result);
}

void TransferClient::TryCancel() {
  std::lock_guard<std::mutex> lock(mu_);
  cancelled_ = true;
  if (client_ != nullptr) client_->Cancel();
  if (grpc_ != nullptr) grpc_->TryCancel();
}

}  // namespace tfquiver
