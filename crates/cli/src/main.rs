//! The command line of toolgate: the only place that reads arguments, environment and clock.

mod approval_needs;
mod card;
mod card_code;
mod chart;
mod command;
mod console;
mod credential;
mod diagnose;
mod environment;
mod exit;
mod host;
mod isolation;
mod known;
mod live;
mod machine_policy;
mod model;
mod permits;
mod person;
mod picture;
mod probe;
mod project;
mod prompts;
mod reading;
mod redaction;
mod remedy;
mod request;
mod roster;
mod screen;
mod search;
mod server_report;
mod servers;
mod speaker;
mod standing;
mod stop;
mod summary;
mod trust;
mod trust_card;
mod typing;
mod visible;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Every tool call a model makes passes one gate.
#[derive(Parser)]
#[command(
    name = "toolgate",
    version,
    about = "A governed tool runtime for LLM agents: every tool call passes one gate.",
    after_help = "Exit codes:\n  0  done\n  1  refused, failed, or not sound\n  2  wrong usage or \
                  configuration\n  3  a person's word is due, and nobody is at a terminal\n  74 the log cannot be written or read\n  75 \
                  another process has it; wait, or use --take-over\n  78 the configuration is not trusted; nothing \
                  was started\n  130 parked by Ctrl-C\n\nExample:\n  toolgate run \
                  \"a lighthouse keeper who collects storms\""
)]
struct Options {
    /// The project folder, in place of the current one or the nearest one above it with a
    /// configuration or a log.
    #[arg(long, global = true, value_name = "DIR")]
    project: Option<std::path::PathBuf>,
    /// The configuration file, in place of toolgate.yaml of the project.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Trust the configuration with exactly this digest and no other, where no person is at a terminal:
    /// `toolgate trust --print` prints it.
    #[arg(long, global = true, value_name = "sha256:…", value_parser = machine_policy::trust_digest)]
    trust: Option<toolgate_kernel::digest::Digest>,
    /// Decide as this person, where several use one account: their key lies beside yours and is made
    /// the first time.
    #[arg(long, global = true, value_name = "NAME")]
    person: Option<credential::PersonName>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the agent on a model, or goes on where it stopped.
    Run(command::run::Options),
    /// Talks with the agent, through the same gate.
    Chat(command::chat::Options),
    /// Writes a configuration to begin with.
    Init(command::init::Options),
    /// Shows what a configuration starts, reads and connects to, and lets a person trust it.
    Trust(command::trust::Options),
    /// Says what is wrong with a configuration, and draws what it grants.
    Check(command::check::Options),
    /// Lists the tools and the phases that grant them.
    Tools(command::tools::Options),
    /// Says whether each model can be used, and what to do when it cannot.
    Doctor(command::doctor::Options),
    /// Makes one tool call through the whole gate.
    Call(command::call::Options),
    /// Shows the calls that wait for a person's yes, and takes the person's word.
    Approvals(command::approvals::Options),
    /// Lists, enrols and revokes the people who may decide.
    People(command::people::Options),
    /// Says what the gate would decide on a call; nothing runs.
    Explain(command::explain::Options),
    /// Lists, shows and decides about facts, and locks paths.
    Facts(command::facts::Options),
    /// Lists prompt tools, and takes proposals and a person's word on them.
    #[command(visible_alias = "catalog")]
    Catalogue(command::catalogue::Options),
    /// Lists, shows, opens, comments, assigns and closes issues.
    Issues(command::issues::Options),
    /// Offers a session to MCP clients, through the same gate.
    Mcp(command::mcp::Options),
    /// Makes, lists and revokes tokens for MCP clients.
    Token(command::token::Options),
    /// Lists, shows, resumes, undoes, forks, replays, traces and exports sessions.
    Sessions(command::sessions::Options),
    /// Shows which call a receipt is of, and whether the log bears it out.
    Receipts(command::receipts::Options),
    /// Writes today's names of tools in place of former ones.
    Migrate(command::migrate::Options),
    /// Prints the signed head of the log, or begins a new log in place of one that cannot go on.
    Log(command::log::Options),
    /// Checks that the log is what was written.
    Verify(command::verify::Options),
    /// Prints a published JSON Schema.
    Schema(command::schema::Options),
    /// Prints a completion script for a shell.
    Completions(command::completions::Options),
}

impl Command {
    /// Whether it is about the current folder, or about none.
    fn is_about_here(&self) -> bool {
        matches!(self, Self::Init(_) | Self::Schema(_) | Self::Completions(_))
    }

    /// Whether whoever reads the output is a program.
    fn as_json(&self) -> bool {
        match self {
            Self::Run(options) => options.how.json,
            Self::Chat(options) => options.json,
            Self::Call(options) => options.json,
            Self::Sessions(options) => options.json(),
            Self::Receipts(options) => options.json(),
            Self::Migrate(options) => options.json,
            Self::Verify(options) => options.json,
            Self::Doctor(options) => options.json,
            Self::Explain(options) => options.json,
            Self::Check(options) => options.json,
            Self::Tools(options) => options.json,
            Self::Approvals(options) => options.json(),
            Self::People(options) => options.json(),
            Self::Token(options) => options.json(),
            Self::Facts(options) => options.json(),
            Self::Catalogue(options) => options.json(),
            Self::Issues(options) => options.json(),
            Self::Mcp(options) => options.json(),
            Self::Log(options) => options.json(),
            Self::Trust(options) => options.json,
            Self::Init(_) | Self::Schema(_) | Self::Completions(_) => false,
        }
    }
}

fn main() -> std::process::ExitCode {
    // This process may be the one that isolates itself and becomes the program of a server.
    if let Some(failed) = toolgate_sandbox::init(std::env::args_os()) {
        return failed;
    }
    // Keys are in its memory from now on.
    if let Err(error) = toolgate_sandbox::hide_process() {
        console::hint(&format!("error: {error}"));
        return exit::Exit::Failed.into();
    }
    let options = Options::parse();
    let as_json = options.command.as_json();
    let folder = match options.project {
        Some(folder) => folder,
        // It writes where it is called.
        None if options.command.is_about_here() => std::path::PathBuf::from("."),
        None => search::project_folder(),
    };
    let place = project::Place {
        folder,
        config: options.config,
        operator: options.trust,
        person: options.person,
    };
    let outcome = match options.command {
        Command::Run(options) => command::run::run(&place, &options),
        Command::Chat(options) => command::chat::run(&place, &options),
        Command::Init(options) => command::init::run(&place, &options),
        Command::Trust(options) => command::trust::run(&place, &options),
        Command::Check(options) => command::check::run(&place, &options),
        Command::Tools(options) => command::tools::run(&place, &options),
        Command::Call(options) => command::call::run(&place, &options),
        Command::Approvals(options) => command::approvals::run(&place, &options),
        Command::People(options) => command::people::run(&place, &options),
        Command::Explain(options) => command::explain::run(&place, &options),
        Command::Sessions(options) => command::sessions::run(&place, &options),
        Command::Receipts(options) => command::receipts::run(&place, &options),
        Command::Facts(options) => command::facts::run(&place, &options),
        Command::Catalogue(options) => command::catalogue::run(&place, &options),
        Command::Issues(options) => command::issues::run(&place, &options),
        Command::Mcp(options) => command::mcp::run(&place, &options),
        Command::Token(options) => command::token::run(&place, &options),
        Command::Doctor(options) => command::doctor::run(&place, &options),
        Command::Migrate(options) => command::migrate::run(&place, &options),
        Command::Log(options) => command::log::run(&place, &options),
        Command::Verify(options) => command::verify::run(&place, &options),
        Command::Schema(options) => command::schema::run(&options),
        Command::Completions(options) => command::completions::run(&options),
    };
    let exit = outcome.unwrap_or_else(|error| {
        console::complain(&error, as_json);
        exit::of(&error)
    });
    if console::all_said() {
        return exit.into();
    }
    console::hint("error: the output could not be written");
    exit::Exit::Log.into()
}
