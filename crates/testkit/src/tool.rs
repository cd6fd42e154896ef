//! Decides what a fake tool does: a list of deeds, written in the scenario.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::tool::{Effect, Example, SpecDraft, SpecRefusal, ToolSpec};
use toolgate_runtime::port::{Fault, Files, Output, Promised, Tool, later};
use toolgate_runtime::{Cancel, Transaction};

use crate::clock::FakeClock;
use crate::ledger::{Entry, Ledger};

/// A tool as it is written down in a scenario. `{name}` in keys, paths and texts stands for an
/// argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolText {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(default = "about")]
    pub about: String,
    /// What rollback and resume can promise.
    #[serde(default = "read")]
    pub effect: Effect,
    /// The group a phase grants it by.
    #[serde(default = "group")]
    pub group: String,
    /// JSON Schema of its arguments; none by itself.
    #[serde(default)]
    pub params: Option<Value>,
    /// JSON Schema of its answer.
    #[serde(default)]
    pub returns: Option<Value>,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Other spellings of arguments, by path.
    #[serde(default)]
    pub argument_aliases: Map<String, Value>,
    /// An argument that names a file.
    #[serde(default)]
    pub path: Option<String>,
    /// The mount point that argument may be written under.
    #[serde(default)]
    pub mount: Option<String>,
    /// Worked examples.
    #[serde(default)]
    pub examples: Vec<ExampleText>,
    /// What its calls bring into a session and where they send.
    #[serde(default)]
    pub labels: Option<FlowLabels>,
    /// Keys it reads.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Keys it writes.
    #[serde(default)]
    pub writes: Vec<String>,
    /// What it does, in order; absent for a tool without a handler.
    #[serde(default)]
    pub does: Option<Vec<Deed>>,
}

/// An example as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExampleText {
    /// What it shows.
    pub about: String,
    /// The arguments.
    pub input: Value,
    /// The answer's data.
    #[serde(default)]
    pub output: Value,
}

/// One thing a fake tool does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Deed {
    /// Puts a value under a key: `[key, value]`.
    Put(String, Value),
    /// Puts an argument under a key: `[key, argument]`.
    PutArg(String, String),
    /// Adds an item to the list under a key: `[key, value]`.
    Push(String, Value),
    /// Removes a key.
    Remove(String),
    /// Writes a file: `[path, content]`.
    WriteFile(String, String),
    /// Answers with what is kept under a key.
    Get(String),
    /// Answers with a file's content.
    ReadFile(String),
    /// Reaches the world.
    Ledger,
    /// Answers with these words.
    Say(String),
    /// Answers with this data.
    Data(Value),
    /// Answers with so many bytes of text.
    Bytes(usize),
    /// Keeps the data from the model.
    Hide,
    /// Publishes a notice.
    Notice(String),
    /// Moves to another phase.
    EnterPhase(String),
    /// Says it is alive.
    Beat,
    /// Takes so long.
    SleepMs(u64),
    /// Is at work without end, and says so at every look.
    Toil,
    /// Lets the run's clock pass.
    ClockMs(i64),
    /// Fails with these words.
    Fail(String),
    /// Breaks down.
    Panic(String),
    /// Somebody cancels the run meanwhile.
    Cancel,
    /// Somebody else writes a file meanwhile: `[path, content]`.
    Meanwhile(String, String),
    /// Fails only at the first call of this kind in the process.
    FailOnce(String),
}

fn about() -> String {
    "A tool of this scenario.".to_owned()
}

fn read() -> Effect {
    Effect::Read
}

fn group() -> String {
    "tools".to_owned()
}

/// Writes a file behind the back of a running call: path, content.
pub type Outside = Box<dyn Fn(&str, &str) + Send + Sync>;

/// What fake tools share with the scenario that runs them.
pub struct Props {
    /// The world.
    pub ledger: Ledger,
    /// The run's clock.
    pub clock: Arc<FakeClock>,
    /// The project's files, as somebody outside changes them.
    pub files: Arc<dyn Files>,
    /// What is changed from outside, behind the back of a running call.
    pub outside: Outside,
    /// The run's switch, once there is one.
    pub cancel: std::sync::Mutex<Option<Cancel>>,
}

impl ToolText {
    /// The tool's description for the gate.
    pub fn draft(&self) -> SpecDraft {
        let mut draft =
            SpecDraft::new(&self.name, &self.about).effect(self.effect).group(&self.group);
        let open = json!({ "type": "object", "properties": {} });
        draft = draft.params_schema(self.params.clone().unwrap_or(open));
        if let Some(returns) = &self.returns {
            draft = draft.returns_schema(returns.clone());
        }
        for alias in &self.aliases {
            draft = draft.alias(alias);
        }
        for (alias, path) in &self.argument_aliases {
            draft = draft.argument_alias(path.as_str().unwrap_or_default(), alias);
        }
        if let Some(labels) = &self.labels {
            draft = draft.labels(labels.clone());
        }
        if let Some(path) = &self.path {
            draft = draft.path_argument(path, self.mount.as_deref());
        }
        for Example { about, input, output } in self.examples.iter().map(ExampleText::example) {
            draft = draft.example(&about, input, output);
        }
        if self.reads.is_empty() && self.writes.is_empty() {
            return draft;
        }
        let (reads, writes) = (self.reads.clone(), self.writes.clone());
        draft.touches(move |args| {
            let args = &args.to_map();
            let reads = reads.iter().map(|key| (Access::Read, key));
            let writes = writes.iter().map(|key| (Access::Write, key));
            reads
                .chain(writes)
                .map(|(access, key)| Ok((access, Key::parse(&fill(key, args))?)))
                .collect()
        })
    }

    /// The tool with its handler.
    pub fn tool(&self, deeds: Vec<Deed>, props: &Arc<Props>) -> Result<Arc<dyn Tool>, SpecRefusal> {
        let spec = Arc::new(self.draft().build()?);
        Ok(Arc::new(FakeTool { spec, deeds, props: Arc::clone(props) }))
    }
}

impl ExampleText {
    fn example(&self) -> Example {
        Example {
            about: self.about.clone(),
            input: self.input.clone(),
            output: self.output.clone(),
        }
    }
}

/// Puts arguments into a text: `note:{key}`.
fn fill(text: &str, args: &Map<String, Value>) -> String {
    let mut out = text.to_owned();
    for (name, value) in args {
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out = out.replace(&format!("{{{name}}}"), &plain);
    }
    out
}

struct FakeTool {
    spec: Arc<ToolSpec>,
    deeds: Vec<Deed>,
    props: Arc<Props>,
}

impl Tool for FakeTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        later(async move {
            let mut output = Output::message("");
            for deed in &self.deeds {
                self.perform(deed, tx, &mut output).await?;
            }
            Ok(output)
        })
    }
}

impl FakeTool {
    // Breaking down is what the scenario asks for.
    #[allow(clippy::panic)]
    async fn perform(
        &self,
        deed: &Deed,
        tx: &mut Transaction,
        out: &mut Output,
    ) -> Result<(), Fault> {
        let args = tx.args().clone();
        let key = |text: &str| {
            Key::parse(&fill(text, &args)).map_err(|refusal| Fault::failed(refusal.to_string()))
        };
        match deed {
            Deed::Put(name, value) => tx.put(&key(name)?, value)?,
            Deed::PutArg(name, argument) => {
                let value = args.get(argument).cloned().unwrap_or_default();
                tx.put(&key(name)?, &value)?;
            }
            Deed::Push(name, value) => tx.push(&key(name)?, value)?,
            Deed::Remove(name) => tx.remove(&key(name)?)?,
            Deed::WriteFile(path, content) => {
                let content = fill(content, &args).into_bytes();
                tx.write_file(&fill(path, &args), Some(content))?;
            }
            Deed::Get(name) => {
                out.data = tx.get(&key(name)?)?.map_or(Value::Null, |slot| slot.value());
            }
            Deed::ReadFile(path) => {
                let path = fill(path, &args);
                let content = tx.read_file(&path)?;
                let content =
                    content.ok_or_else(|| Fault::failed(format!("{path} does not exist.")))?;
                out.data = Value::String(String::from_utf8_lossy(&content).into_owned());
            }
            Deed::Ledger => self.reach(tx)?,
            Deed::Say(words) => out.message = fill(words, &args),
            Deed::Data(data) => out.data = data.clone(),
            Deed::Bytes(count) => out.data = Value::String("x".repeat(*count)),
            Deed::Hide => out.message_only = true,
            Deed::Notice(text) => tx.notice("scenario", fill(text, &args))?,
            Deed::EnterPhase(phase) => {
                let phase = PhaseName::parse(&fill(phase, &args))
                    .map_err(|refusal| Fault::invalid(refusal.to_string()))?;
                tx.enter_phase(&phase, "asked for by the scenario")?;
            }
            Deed::Beat => tx.beat(),
            Deed::SleepMs(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Deed::Toil => loop {
                tokio::task::consume_budget().await;
            },
            Deed::ClockMs(ms) => self.props.clock.pass_ms(*ms),
            Deed::Fail(words) => return Err(Fault::failed(fill(words, &args))),
            Deed::Panic(words) => panic!("{words}"),
            Deed::Cancel => self.cancel().await,
            Deed::Meanwhile(path, content) => {
                (self.props.outside)(&fill(path, &args), &fill(content, &args));
            }
            Deed::FailOnce(words) => {
                let done = self.props.ledger.entries().unwrap_or_default();
                if !done.iter().any(|entry| entry.tool == format!("{}?", self.spec.name)) {
                    self.note(tx, "?")?;
                    return Err(Fault::of(Trouble::new(Code::TOOL_FAILED, fill(words, &args))));
                }
            }
        }
        Ok(())
    }

    fn reach(&self, tx: &Transaction) -> Result<(), Fault> {
        self.note(tx, "")
    }

    fn note(&self, tx: &Transaction, mark: &str) -> Result<(), Fault> {
        let entry = Entry {
            key: tx.idempotency_key(),
            tool: format!("{}{mark}", self.spec.name),
            args_hash: tx.call().args_hash().to_string(),
        };
        self.props.ledger.write(entry).map_err(|error| Fault::failed(error.to_string()))
    }

    async fn cancel(&self) {
        let cancel = self.props.cancel.lock().ok().and_then(|slot| slot.clone());
        if let Some(cancel) = cancel {
            cancel.cancel();
            // The call is cut off here; what comes after never happens.
            std::future::pending::<()>().await;
        }
    }
}
