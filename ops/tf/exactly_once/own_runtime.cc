#include "ops/tf/exactly_once/own_runtime.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tensorflow/core/platform/env.h"

namespace tfquiver {

using tensorflow::Env;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorContext;

absl::Status OwnRuntime::Make(IteratorContext* ctx, const DatasetBase* input,
                              std::unique_ptr<OwnRuntime>* out) {
  if (ctx->flr() == nullptr) {
    return absl::FailedPreconditionError("tfquiver: there is no runtime for functions");
  }
  std::unique_ptr<OwnRuntime> own(new OwnRuntime);
  tensorflow::FunctionLibraryRuntime* flr = nullptr;
  TF_RETURN_IF_ERROR(ctx->flr()->Clone(&own->definitions_, &own->functions_, &flr,
                                       /*skip_flib_def=*/true));
  own->handles_ = std::make_unique<tensorflow::FunctionHandleCache>(flr);
  own->pool_ = std::make_unique<tensorflow::thread::ThreadPool>(
      Env::Default(), tensorflow::ThreadOptions(), "tfquiver_input",
      std::max(1, ctx->runner_threadpool_size()), /*low_latency_hint=*/false);
  IteratorContext::Params params(ctx);
  params.cancellation_manager = &own->cancellation_;
  params.collective_executor = nullptr;
  params.flr = flr;
  params.function_handle_cache = own->handles_.get();
  params.index_mapper = nullptr;
  params.is_restoring = false;
  params.model = nullptr;
  params.options = &input->options();
  params.ram_budget_manager = nullptr;
  params.resource_mgr = &own->resources_;
  params.runner = [pool = own->pool_.get()](std::function<void()> call) {
    pool->Schedule(std::move(call));
  };
  params.split_providers.clear();
  params.symbolic_checkpoint = false;
  params.thread_factory = nullptr;
  params.thread_pool = nullptr;
  own->context_ = std::make_unique<IteratorContext>(std::move(params));
  *out = std::move(own);
  return absl::OkStatus();
}

}  // namespace tfquiver
