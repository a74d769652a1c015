// The subcommands of the program. Each function adds one, with its options and what it does, to the
// command line; errors of a command leave parse() as tessera::Error. A command that ends without an
// error but with a status other than 0 stores it in `status`.
#pragma once

namespace CLI {
class App;
}

namespace tessera {

void add_run_command(CLI::App& app, int& status);    // tessera run [PROMPT]
void add_chat_command(CLI::App& app, int& status);   // tessera chat
void add_tokenize_command(CLI::App& app);            // tessera tokenize TEXT | --chat | --parse
void add_trace_command(CLI::App& app, int& status);  // tessera trace -o OUT
void add_eval_command(CLI::App& app, int& status);   // tessera eval FILE.jsonl
void add_diff_command(CLI::App& app, int& status);   // tessera diff REFERENCE OURS
void add_image_command(CLI::App& app);               // tessera image plan FILE
void add_inspect_command(CLI::App& app);             // tessera inspect DIR
void add_synth_command(CLI::App& app);               // tessera synth -o DIR
void add_convert_command(CLI::App& app);             // tessera convert DIR --to FORMAT -o DIR
void add_plan_command(CLI::App& app);                // tessera plan DIR
void add_serve_command(CLI::App& app, int& status);  // tessera serve
void add_bench_command(CLI::App& app);               // tessera bench machine|ops|vision|decode
void add_version_command(CLI::App& app);             // tessera version

}  // namespace tessera
