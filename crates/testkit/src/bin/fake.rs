//! Decides how the fake provider is started by hand: a script, delays, and faults by name.

// It prints its address, which is what it is for.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;
use toolgate_testkit::fake::{FAULTS, Fake, Fault, Play};
use toolgate_wire::script::ScriptText;

/// A fake provider on this computer. It speaks OpenAI chat and Responses under /v1, Anthropic under
/// /v1 and Gemini under /v1beta, strictly, and plays a script.
#[derive(Parser)]
#[command(name = "toolgate-fake")]
struct Options {
    /// The script: the same YAML that `script:` models play. Without one it says `Done.`
    script: Option<PathBuf>,
    /// The port; any free one when left out.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The key that requests must carry.
    #[arg(long)]
    key: Option<String>,
    /// Milliseconds before the first byte of an answer.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Milliseconds between two pieces of a stream.
    #[arg(long, default_value_t = 0)]
    token_ms: u64,
    /// What goes wrong with the next request; may be given many times. `none` for nothing.
    #[arg(long = "fault")]
    faults: Vec<String>,
    /// The last fault goes on for ever.
    #[arg(long)]
    for_ever: bool,
    /// Chat completions are as strict as Mistral's: the order of roles, and ids.
    #[arg(long)]
    strict: bool,
    /// Lists the faults.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.list {
        FAULTS.iter().for_each(|(name, about)| println!("{name:22} {about}"));
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let port = options.port;
        let fake = Fake::start_at(play(options)?, port).await.context("no port")?;
        println!("{}", fake.base_url("/v1"));
        fake.wait().await;
        Ok(())
    })
}

fn play(options: Options) -> Result<Play> {
    let script = match &options.script {
        None => ScriptText::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let words = serde_saphyr::options! { strict_booleans: true };
            serde_saphyr::from_str_with_options(&text, words)
                .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?
        }
    };
    let mut faults = Vec::new();
    for name in &options.faults {
        match Fault::named(name) {
            Some(fault) => faults.push(fault),
            None => bail!("there is no fault {name}; --list shows them"),
        }
    }
    let Options { key, delay_ms, token_ms, for_ever, strict, .. } = options;
    Ok(Play { script, faults, for_ever, key, delay_ms, token_ms, strict })
}
