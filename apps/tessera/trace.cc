// tessera trace: every intermediate tensor of a request into one safetensors file.
#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "request_options.h"
#include "trace_run.h"

namespace tessera {

void add_trace_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("trace", "write every intermediate tensor of a request to a file");
  const auto a = std::make_shared<TraceArguments>();
  command->add_option("-o,--output", a->out, "trace to write (.safetensors)")
      ->type_name("FILE")
      ->required();
  command->add_option("--replay", a->replay, "repeat the request that this trace records")
      ->type_name("FILE");
  command->add_option("--taps", a->taps, "names to write: globs, separated by commas")
      ->type_name("GLOBS");
  command->add_option("--only", a->only, "vision: stop behind the tower");
  command->add_option("--force", a->force, "feed every stage the value of this reference trace")
      ->type_name("FILE");
  command->add_option("--activations", a->activations, "bf16, or f32: no rounding in the tower")
      ->type_name("bf16|f32");
  command
      ->add_option("--image-root", a->image_root, "where relative picture paths of --replay start")
      ->type_name("DIR");
  add_model_options(*command, a->model);
  add_request_options(*command, a->request);
  command->footer(
      "Examples:\n"
      "  tessera trace -o ours.safetensors --image photo.png \"What is this?\"\n"
      "  tessera trace -o ours.safetensors --model DIR --replay reference.safetensors");
  command->callback([a, &status] { status = write_trace(*a); });
}

}  // namespace tessera
