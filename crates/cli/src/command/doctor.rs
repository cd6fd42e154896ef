//! `toolgate doctor`: whether each model can be used, and what to do when it cannot.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use toolgate_http::Patience;
use toolgate_kernel::config::{AgentText, Chosen, ChosenModel, PROVIDERS};
use toolgate_kernel::event::FaultKind;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::{Desk, Provider, ProviderFault};
use toolgate_wire::dialect::Dialect;
use toolgate_wire::model::{Exchange, Model, ModelSpec};

use super::trust::TrustReport;
use crate::console::{self, hint, paragraph, say, visible};
use crate::environment::{self, Flags};
use crate::exit::Exit;
use crate::model;
use crate::probe::Probe;
use crate::project::{Place, block_on, to_be_measured};
use crate::remedy::remedy;
use crate::server_report::ProgramReport;
use crate::standing::Standing;
use crate::trust::TrustedAccess;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate doctor\n  toolgate doctor --model ollama:qwen3 --probe 10\n  \
                  toolgate doctor --base-url http://192.168.1.9:1234"
)]
pub(crate) struct Options {
    #[command(flatten)]
    settings: Flags,
    /// Make this many tool calls with each model, and say whether it can be relied on.
    #[arg(long, value_name = "N", default_value_t = 1)]
    probe: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Probes at most.
const PROBES_MAX: u32 = 100;

/// Fewer calls than these say nothing of a model.
const RELIABLE_PROBES_MIN: u32 = 5;

/// Of a hundred calls so many must be right for a model to be relied on.
const RELIABLE_PERCENT: u32 = 95;

/// Times in a row that a server may be in trouble before it is not asked further.
const TROUBLES_MAX: u32 = 3;

/// Milliseconds a server on this machine gets to say that it is there.
const LOCAL_MS: u64 = 2_000;

/// Milliseconds a server anywhere gets to list its models.
const LISTING_MS: u64 = 10_000;

/// Models of an address that are shown.
const SHOWN_MODELS: usize = 20;

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Every model that is configured.
    models: Vec<Finding>,
    /// The server at `base_url`, when no model of it is named.
    address: Option<Address>,
    /// Every known server on this machine.
    servers: Vec<Server>,
    /// Every MCP server that is a program.
    programs: Vec<ProgramReport>,
    /// Variables that name a proxy, which is not used.
    unused_proxies: Vec<String>,
    /// Whose word counts here as a person's.
    person: Standing,
    /// Whether the configuration is trusted; where it is not, nothing in it was looked at.
    trust: TrustReport,
}

/// What was found at an address.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Address {
    base_url: String,
    /// The models it lists; absent when it could not be asked.
    models: Option<Vec<String>>,
    /// What went wrong, as one word.
    fault: Option<FaultKind>,
    /// What was seen, in a sentence.
    says: String,
    /// What to do, in a sentence.
    fix: Option<String>,
}

/// What was found of a model.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Finding {
    /// Its name in the configuration.
    model: String,
    /// Whether it answers and calls tools.
    ok: bool,
    /// What went wrong, as one word.
    fault: Option<FaultKind>,
    /// What was seen, in a sentence.
    says: String,
    /// What to do, in a sentence.
    fix: Option<String>,
    /// Milliseconds of the first answer.
    took_ms: u64,
    /// Calls that were made, and how many were right.
    probes: u32,
    right: u32,
    /// Whether it can be relied on, when enough calls were made to tell.
    tool_calling_reliable: Option<bool>,
}

/// A server on this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Server {
    name: String,
    address: String,
    /// The models it has; absent when it is not running.
    models: Option<Vec<String>>,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    ensure!(
        (1..=PROBES_MAX).contains(&options.probe),
        "--probe takes a number from 1 to {PROBES_MAX}"
    );
    let loaded = place.load(&options.settings, to_be_measured)?;
    let mut text = loaded.text.clone();
    let given = options.settings.settings();
    // Whoever names a model or an address asks about that one alone.
    let alone = given.model.is_some() || given.base_url.is_some();
    let named = match (given.model, given.base_url) {
        (Some(model), _) => vec![model],
        (None, Some(_)) if text.settings.model.is_none() => {
            // The key that lies around is for the address, whatever is declared.
            let here = environment::settings()?.api_key;
            text.settings.api_key = text.settings.api_key.or(here);
            Vec::new()
        }
        (None, Some(_)) => text.settings.model.clone().into_iter().collect(),
        (None, None) => names(&text),
    };
    // Without a model, an address is looked at by itself and not for one that is declared.
    if text.settings.model.is_some() {
        text.chosen()?;
    }
    let exchange = model::exchange(&text.limits)?;
    let report = block_on(async {
        let state = place.trust_state(&loaded).await?;
        let trust = TrustReport::of(&state);
        let (unused_proxies, person) = (environment::proxies(), Standing::of(place).await?);
        let servers = servers(&exchange).await;
        // What is not trusted is looked at, and nothing in it is started, read or connected to.
        let Ok(access) = place.access(&loaded, &state) else {
            let (models, programs) = (Vec::new(), Vec::new());
            return Ok(Report {
                models,
                address: None,
                servers,
                programs,
                unused_proxies,
                person,
                trust,
            });
        };
        let mut models = Vec::new();
        for name in named {
            if !options.json {
                hint(&format!("Asking {} …", visible(&name)));
            }
            models.push(examine(&access, &text, &name, options.probe).await);
        }
        let address = address(&access, &text, &exchange).await;
        let programs = match alone {
            true => Vec::new(),
            false => ProgramReport::all(place, &access, &text).await?,
        };
        Ok(Report { models, address, servers, programs, unused_proxies, person, trust })
    })?;
    if options.json {
        console::json(&report);
    } else {
        report.print(options.probe);
    }
    let listed = report.address.as_ref().is_none_or(|address| address.models.is_some());
    let started = report.programs.iter().all(|program| program.ok);
    let models = report.models.iter().all(|finding| finding.ok);
    let ok = listed && report.person.usable() && models && started;
    Ok(match (report.trust.is_trusted(), ok) {
        (false, _) => Exit::NotTrusted,
        (true, true) => Exit::Done,
        (true, false) => Exit::Failed,
    })
}

/// The models to look at: those that are declared, and the one of a run.
fn names(text: &AgentText) -> Vec<String> {
    let mut names: Vec<String> = text.models.keys().cloned().collect();
    names.extend(text.settings.model.clone().filter(|name| !text.models.contains_key(name)));
    names
}

async fn examine(access: &TrustedAccess, text: &AgentText, name: &str, probes: u32) -> Finding {
    let mut finding = Finding {
        model: name.to_owned(),
        ok: false,
        fault: None,
        says: String::new(),
        fix: None,
        took_ms: 0,
        probes: 0,
        right: 0,
        tool_calling_reliable: None,
    };
    let chosen = match text.chosen_by_name(name) {
        Ok(Chosen::Model(chosen)) => chosen,
        Ok(Chosen::Script(file)) if let Err(error) = model::script(&file) => {
            return Finding { says: format!("{error:#}"), ..finding };
        }
        Ok(Chosen::Script(_) | Chosen::None) => {
            finding.ok = true;
            finding.says = "a script plays it; there is nothing to ask".to_owned();
            return finding;
        }
        Err(refusal) => return Finding { says: refusal.to_string(), ..finding },
    };
    let provider = match alone(access, text, &chosen) {
        Ok(provider) => provider,
        Err(error) => return Finding { says: format!("{error:#}"), ..finding },
    };
    if chosen.text.capabilities.tools == Some(false) {
        ask(&provider, text, &chosen, &mut finding).await;
    } else {
        probe(&provider, text, &chosen, probes, &mut finding).await;
    }
    finding
}

/// A model by itself: nobody stands in for it, and it is not left alone for what others did.
fn alone(access: &TrustedAccess, text: &AgentText, chosen: &ChosenModel) -> Result<Model> {
    let limits = Limits { breaker_failures_max: u64::MAX, ..text.limits.clone() };
    let spec = model::spec(access, text, chosen)?;
    Ok(model::exchange(&limits)?.model(&ModelSpec { fallback: Vec::new(), ..spec })?)
}

/// Has a model that calls no tools say something.
async fn ask(
    provider: &dyn Provider,
    text: &AgentText,
    chosen: &ChosenModel,
    finding: &mut Finding,
) {
    let plan = Plan::alone("You answer in one short sentence.", "What is 2 + 3?", Vec::new());
    let began = Instant::now();
    match provider.reply(&plan, &mut Desk::default(), &|_| {}).await {
        Ok(reply) if reply.text.trim().is_empty() => finding.says = "it says nothing".to_owned(),
        Ok(_) => {
            finding.ok = true;
            finding.says = "answers; its `capabilities` say that it calls no tools".to_owned();
        }
        Err(fault) => finding.failed(fault, text, chosen),
    }
    finding.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
}

impl Finding {
    fn failed(&mut self, fault: ProviderFault, text: &AgentText, chosen: &ChosenModel) {
        self.fault = Some(fault.kind);
        self.fix = remedy(&fault, text, chosen);
        self.says = fault.reason;
    }

    /// Every call was asked for. Too few to be measured must all be right; of more, a part may be
    /// wrong.
    fn measured(&mut self) {
        let all = self.right == self.probes;
        self.says = match self.right {
            _ if all => "answers, and calls tools".to_owned(),
            0 => std::mem::take(&mut self.says),
            _ => format!("answers, and calls tools, but not always: {}", self.says),
        };
        let reliable = self.right * 100 >= self.probes * RELIABLE_PERCENT;
        let enough = self.probes >= RELIABLE_PROBES_MIN;
        self.tool_calling_reliable = enough.then_some(reliable);
        self.ok = if enough { reliable } else { all };
        if self.ok {
            // There is nothing to mend.
            (self.fault, self.fix) = (None, None);
        }
    }
}

/// Has a model call the probe as often as wanted; one that cannot be used is not asked further.
async fn probe(
    provider: &dyn Provider,
    text: &AgentText,
    chosen: &ChosenModel,
    probes: u32,
    finding: &mut Finding,
) {
    let (mut troubles, mut ended) = (0, false);
    for at in 0..probes {
        let Some(probe) = Probe::number(at) else { return };
        let (plan, began) = (probe.plan(), Instant::now());
        let reply = provider.reply(&plan, &mut Desk::default(), &|_| {}).await;
        finding.probes += 1;
        if at == 0 {
            let took = began.elapsed().as_millis();
            finding.took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        }
        match reply.map(|reply| probe.wrong(&reply, &text.limits)) {
            Ok(None) => (troubles, finding.right) = (0, finding.right + 1),
            Ok(Some(wrong)) => {
                (troubles, finding.fault) = (0, None);
                (finding.says, finding.fix) = (wrong.says, Some(wrong.fix.to_owned()));
            }
            Err(fault) => {
                troubles = if fault.kind.is_trouble() { troubles + 1 } else { 0 };
                let tired = fault.parks || troubles >= TROUBLES_MAX;
                ended = at == 0 || tired || !fault.kind.passing();
                finding.failed(fault, text, chosen);
            }
        }
        if ended {
            return;
        }
    }
    finding.measured();
}

/// What is at `base_url`, when nobody said which of its models is meant.
async fn address(access: &TrustedAccess, text: &AgentText, exchange: &Exchange) -> Option<Address> {
    let base_url = text.settings.base_url.clone().filter(|_| text.settings.model.is_none())?;
    // An address that is refused may hold a password.
    let refused = toolgate_http::parse(&base_url, toolgate_http::Plain::Anywhere).is_err();
    let base_url = if refused { "***".to_owned() } else { base_url };
    let found = Address { base_url, models: None, fault: None, says: String::new(), fix: None };
    let Ok(Chosen::Model(chosen)) = text.chosen_by_name("any") else { return None };
    let mut spec = match model::spec(access, text, &chosen) {
        Ok(spec) => spec,
        Err(error) => return Some(Address { says: format!("{error:#}"), ..found }),
    };
    spec.turn_ms_max = LISTING_MS;
    spec.patience = Patience { request_ms_max: Some(LISTING_MS), ..spec.patience };
    Some(match exchange.listed(&spec).await {
        Ok(models) => {
            let says = match models.len() {
                0 => "answers, and lists no model".to_owned(),
                1 => "answers, and has 1 model".to_owned(),
                count => format!("answers, and has {count} models"),
            };
            Address { models: Some(models), says, ..found }
        }
        Err(fault) => {
            let unlisted = "It has no list of models there. Look at the path of the address, or \
                            name a model with --model.";
            let fix = if fault.kind == FaultKind::NotFound {
                Some(unlisted.to_owned())
            } else {
                remedy(&fault, text, &chosen)
            };
            Address { fault: Some(fault.kind), says: fault.reason, fix, ..found }
        }
    })
}

/// The known servers on this machine, and their models.
async fn servers(exchange: &Exchange) -> Vec<Server> {
    let mut found = Vec::new();
    for known in PROVIDERS.iter().filter(|known| known.base_url.starts_with("http://127.")) {
        let mut spec = ModelSpec::new(known.name, Dialect::Chat, known.base_url, "any");
        spec.api_prefix = Some(known.api_prefix.to_owned());
        spec.turn_ms_max = LOCAL_MS;
        spec.patience = Patience { request_ms_max: Some(LOCAL_MS), ..Patience::default() };
        let listed = tokio::time::timeout(Duration::from_millis(LOCAL_MS), exchange.listed(&spec));
        found.push(Server {
            name: known.name.to_owned(),
            address: known.base_url.to_owned(),
            models: listed.await.ok().and_then(Result::ok),
        });
    }
    found
}

impl Report {
    fn print(&self, probes: u32) {
        if self.trust.is_notable() {
            self.trust.print();
        }
        if !self.trust.is_trusted() {
            say("Its models and programs were not looked at.");
        } else if self.models.is_empty() && self.address.is_none() {
            say("No model is configured; a script plays the demo.");
        }
        for finding in &self.models {
            let mark = console::mark(if finding.ok { '✓' } else { '✗' });
            let took = console::grouped(finding.took_ms);
            say(&console::fit(&format!("{mark} {} ({took} ms)", visible(&finding.model))));
            paragraph(&visible(&finding.says));
            if let Some(fix) = &finding.fix {
                paragraph(fix);
            }
            if probes > 1 && finding.probes > 0 {
                paragraph(&format!(
                    "{} of {} tool calls were right.",
                    finding.right, finding.probes
                ));
            }
            match finding.tool_calling_reliable {
                Some(true) => paragraph("It can be relied on; write: tool_calling_reliable: true"),
                Some(false) => paragraph(&format!(
                    "It cannot be relied on, which takes {RELIABLE_PERCENT} of 100; leave \
                     tool_calling_reliable out"
                )),
                None if finding.probes == 0 || probes == 1 => {}
                None if finding.probes < probes => paragraph(&format!(
                    "It was asked for only {} of {probes} calls; whether it can be relied on is \
                     not known.",
                    finding.probes
                )),
                None if probes < RELIABLE_PROBES_MIN => paragraph(&format!(
                    "That is too few to say whether it can be relied on: --probe \
                     {RELIABLE_PROBES_MIN} or more says it."
                )),
                None => {}
            }
        }
        if let Some(address) = &self.address {
            address.print();
        }
        self.print_proxies();
        self.person.print();
        ProgramReport::print(&self.programs);
        say("");
        say("On this machine:");
        for server in &self.servers {
            let (mark, line) = match &server.models {
                None => ('·', "not running".to_owned()),
                Some(models) if models.is_empty() => ('✓', "running, without a model".to_owned()),
                Some(models) => {
                    ('✓', models.iter().take(5).map(|m| visible(m)).collect::<Vec<_>>().join(", "))
                }
            };
            say(&console::fit(&format!(
                "  {} {:<9} {:<23} {line}",
                console::mark(mark),
                server.name,
                server.address
            )));
        }
        let first = self.servers.iter().find_map(|server| {
            let model = server.models.as_ref()?.iter().find(|model| is_plain(model))?;
            Some(format!("{}:{model}", server.name))
        });
        if let Some(model) = first {
            say("");
            say(&format!("Use one of them: toolgate run --model {model} \"…\""));
        }
    }
}

impl Report {
    fn print_proxies(&self) {
        if !self.unused_proxies.is_empty() {
            let (names, is) = (self.unused_proxies.join(", "), self.unused_proxies.len() == 1);
            console::hanging(
                &format!(
                    "{} {names} {} set. toolgate uses no proxy: requests go straight to each server.",
                    console::mark('!'),
                    if is { "is" } else { "are" }
                ),
                2,
            );
        }
    }
}

/// Whether a name stands for itself in a shell: commands that are shown are there to be copied, and a
/// server may say anything.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+=".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

impl Address {
    fn print(&self) {
        let mark = console::mark(if self.models.is_some() { '✓' } else { '✗' });
        say(&console::fit(&format!("{mark} {}", visible(&self.base_url))));
        paragraph(&visible(&self.says));
        if let Some(fix) = &self.fix {
            paragraph(fix);
        }
        let Some(models) = &self.models else { return };
        for model in models.iter().take(SHOWN_MODELS) {
            say(&console::fit(&format!("    {}", visible(model))));
        }
        if models.len() > SHOWN_MODELS {
            say(&format!("    and {} more: --json lists them", models.len() - SHOWN_MODELS));
        }
        if let Some(model) = models.iter().find(|model| is_plain(model)) {
            let url = visible(&self.base_url);
            paragraph("Try one of them:");
            // A command is never broken: it is there to be copied.
            say(&format!("    toolgate doctor --base-url {url} --model {model}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_shell_would_obey_is_in_no_command() {
        assert!(["qwen3:8b", "a/b-c_d.1@x+y=z"].iter().all(|name| is_plain(name)));
        let others = ["", "-x", "m; touch x #", "a b", "$(id)", "a'b", "ü"];
        assert!(!others.iter().any(|name| is_plain(name)));
    }
}
