//! `tool.args`: arguments are read strictly, typed, jailed and judged; each case as its text says.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::envelope::{Code, Envelope};
use toolgate_kernel::event::{Answer, CallRefused, Denial, DenialKind, Ending, Event};
use toolgate_kernel::fold::World;
use toolgate_kernel::gate::Call;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal, Touched};
use toolgate_kernel::names::{PhaseName, PolicyName};
use toolgate_kernel::policy::expression::{Expression, Scope, View};
use toolgate_kernel::policy::{Names, Policy, Verdict};
use toolgate_kernel::tool::{Effect, SpecDraft, ToolSpec};
use toolgate_runtime::port::{Fault, Output, Person, Question, Response, Tool};
use toolgate_runtime::{Halt, Signer};
use toolgate_testkit::corpus::{Case, Outcome};
use toolgate_testkit::signer::TestSigner;

use crate::corpus_bench::{Bench, Hanging, client, crew, doing, outcome, taking_text, with_model};
use crate::scenarios::block_on;

pub(crate) fn play(case: &Case, bench: &Bench) -> Outcome {
    let input = case.text().unwrap();
    match case.id.as_str() {
        "ARG-002" | "ARG-003" | "ARG-006" | "ARG-007" | "ARG-008" | "ARG-014" | "ARG-015" => {
            unreadable(bench, &input, "path", json!({"type": "string"}))
        }
        "ARG-010" => unreadable(bench, &input, "amount", json!({"type": "number"})),
        "ARG-004" => empty(bench, &input),
        "ARG-011" => kept_exactly(bench, &input, "id", &json!(9_007_199_254_740_993_i64)),
        "ARG-012" => kept_exactly(bench, &input, "count", &json!(0)),
        "ARG-016" => one_normal_form(bench, &input),
        "ARG-018" => serializer_marker(bench, &input),
        "ARG-019" | "ARG-023" => outside(bench, &input, None),
        "ARG-020" => outside(bench, &input, Some("/workspace/allowed_dir")),
        "ARG-032" => outside(bench, &input, Some("/workspace/allowed")),
        "ARG-021" => through_a_link(bench, &input),
        "ARG-028" => deep(bench, &input),
        "ARG-030" => slow_pattern(bench, &input),
        "ARG-031" => swapped_folder(bench),
        "ARG-033" => leading_dash(bench, &input),
        "ARG-034" => hidden_phase(bench),
        "ARG-035" => phase_race(bench),
        "ARG-036" => fake_approval(bench, &input),
        "ARG-037" => approval_of_other_arguments(bench),
        id => panic!("{id} has no adapter"),
    }
}

/// A tool with one required field, which reaches the world.
fn taking(bench: &Bench, name: &str, effect: Effect, field: &str, schema: &Value) -> Arc<dyn Tool> {
    let schema = json!({"type": "object", "required": [field], "properties": {field: schema}});
    let draft = SpecDraft::new(name, "A tool of the corpus.").params_schema(schema);
    bench.reaching(draft.effect(effect))
}

/// Sends the same text to a tool that reaches the world and to one that stages, from outside
/// and by a model. Whatever comes of it, the run goes on to the model's last word.
fn sent(bench: &Bench, text: &str, field: &str, schema: &Value) -> Vec<Envelope> {
    let tools = vec![
        taking(bench, "send", Effect::External, field, schema),
        taking(bench, "save", Effect::Staged, field, schema),
    ];
    let calls = vec![("send", text.to_owned(), "a"), ("save", text.to_owned(), "b")];
    let crew = with_model(crew(json!({}), tools, Vec::new()).unwrap(), &[calls]);
    block_on(async {
        let mut driver = bench.open(crew).await;
        for tool in ["send", "save"] {
            driver.call(&client(), tool, text, None).await.unwrap();
        }
        let halt = driver.run(&|_| {}).await.unwrap();
        assert!(matches!(halt, Halt::Ended(Ending::Completed, _)), "{halt:?}");
    });
    let told = bench.told();
    assert_eq!(told.len(), 4);
    told
}

/// The one outcome of all of them.
fn same(bench: &Bench, told: &[Envelope]) -> Outcome {
    let outcomes: Vec<_> = told.iter().map(|told| outcome(told, bench.effects().len())).collect();
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]), "{outcomes:?}");
    outcomes[0]
}

/// What is not one unambiguous JSON object is repaired for nobody here.
fn unreadable(bench: &Bench, text: &str, field: &str, schema: Value) -> Outcome {
    let told = sent(bench, text, field, &schema);
    for told in &told {
        assert_eq!(told.code(), Some(&Code::ARGUMENTS_JSON_PARSE_ERROR), "{}", told.to_json());
    }
    same(bench, &told)
}

/// Blank text is an empty object, and that is not enough where something is required. For an external
/// tool it is not even that.
fn empty(bench: &Bench, text: &str) -> Outcome {
    let told = sent(bench, text, "path", &json!({"type": "string"}));
    for told in &told {
        if told.tool == "send" {
            assert_eq!(told.code(), Some(&Code::ARGUMENTS_JSON_PARSE_ERROR));
        } else {
            assert_eq!(told.code(), Some(&Code::ARGUMENTS_INVALID));
            assert_eq!(told.errors[0].path.as_deref(), Some("path"));
        }
    }
    same(bench, &told)
}

/// The number reaches the tool, the answer and the log as it was written.
fn kept_exactly(bench: &Bench, text: &str, field: &str, wanted: &Value) -> Outcome {
    let told = sent(bench, text, field, &json!({"type": "integer"}));
    for (seen, told) in bench.seen().iter().zip(&told) {
        assert_eq!(seen.get(field), Some(wanted));
        assert_eq!(told.data.get(field), Some(wanted));
        assert!(told.to_json().contains(&format!("\"{field}\":{wanted}")), "{}", told.to_json());
    }
    assert_eq!(bench.seen().len(), 4);
    same(bench, &told)
}

/// Keeps what a policy was shown.
struct Witness(PolicyName, Arc<Mutex<Vec<Map<String, Value>>>>);

impl Policy for Witness {
    fn name(&self) -> &PolicyName {
        &self.0
    }

    fn governs(&self, _: &ToolSpec) -> bool {
        true
    }

    fn judge(&self, call: &Call, _: &[Touched], _: &World<'_>) -> Verdict {
        self.1.lock().unwrap().push(call.args_tree().clone());
        Verdict::Allow
    }

    fn names(&self) -> Names<'_> {
        Names::default()
    }

    fn describe(&self) -> Value {
        json!("witness")
    }
}

/// ARG-016: a name with a combining accent is left as it is, for the policy, the tool and the
/// key alike.
fn one_normal_form(bench: &Bench, text: &str) -> Outcome {
    let judged = Arc::new(Mutex::new(Vec::new()));
    let witness: Arc<dyn Policy> =
        Arc::new(Witness(PolicyName::parse("witness").unwrap(), Arc::clone(&judged)));
    let write = writing(bench);
    let told = block_on(async {
        let mut driver = bench.open(crew(json!({}), vec![write], vec![witness]).unwrap()).await;
        driver.call(&client(), "write", text, None).await.unwrap()
    });
    let judged = judged.lock().unwrap();
    assert!(!judged.is_empty() && judged.iter().all(|args| Some(args) == bench.seen().first()));
    let name = "cafe\u{301}.txt";
    assert_eq!(judged[0].get("path"), Some(&json!(name)));
    assert_eq!(fs::read(bench.project().join(name)).unwrap(), b"written");
    outcome(&told, bench.effects().len())
}

/// ARG-018: data that looks like somebody's instruction to load a secret is data.
fn serializer_marker(bench: &Bench, text: &str) -> Outcome {
    let schema = json!({"type": "object", "properties": {
        "lc": {"type": "integer"}, "type": {"type": "string"},
        "id": {"type": "array", "items": {"type": "string"}},
    }});
    let echo = doing(SpecDraft::new("echo", "Echoes.").params_schema(schema), |tx| {
        Output::data("As it came.", tx.args())
    });
    let told = block_on(async {
        let mut driver = bench.open(crew(json!({}), vec![echo], Vec::new()).unwrap()).await;
        driver.call(&client(), "echo", text, None).await.unwrap()
    });
    assert_eq!(told.data, serde_json::from_str::<Value>(text).unwrap());
    outcome(&told, bench.effects().len())
}

type Footprint = Result<Vec<(Access, Key)>, KeyRefusal>;

fn file(access: Access) -> impl Fn(&Document) -> Footprint + Send + Sync + 'static {
    move |args| {
        let path = args.text("path").unwrap_or_default();
        Ok(vec![(access, Key::parse(&format!("file:{path}"))?)])
    }
}

fn path_of(args: &Map<String, Value>) -> String {
    args.get("path").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A tool that writes a file of the project and then tells the world.
fn writing(bench: &Bench) -> Arc<dyn Tool> {
    let reach = bench.reach();
    let draft = taking_text("write", "path", Effect::Staged).path_argument("path", None);
    doing(draft.touches(file(Access::Write)), move |tx| {
        tx.write_file(&path_of(tx.args()), Some(b"written".to_vec()))?;
        reach(tx)?;
        Ok(Output::message("Written."))
    })
}

/// A tool that reads a file of the project, tells the world, and answers with what it read.
fn reading(bench: &Bench) -> Arc<dyn Tool> {
    let reach = bench.reach();
    let draft = taking_text("read", "path", Effect::Read).path_argument("path", None);
    doing(draft.touches(file(Access::Read)), move |tx| {
        let content = tx.read_file(&path_of(tx.args()))?;
        let content = content.ok_or_else(|| Fault::failed("There is no such file."))?;
        reach(tx)?;
        Output::data("Read.", &String::from_utf8_lossy(&content))
    })
}

/// A path that leads out of the project, or shows another name than it means.
fn outside(bench: &Bench, text: &str, mount: Option<&str>) -> Outcome {
    let reach = bench.reach();
    let draft = taking_text("open", "path", Effect::External).path_argument("path", mount);
    let open = doing(draft, move |tx| {
        reach(tx)?;
        Ok(Output::message("Opened."))
    });
    let told = block_on(async {
        let mut driver = bench.open(crew(json!({}), vec![open], Vec::new()).unwrap()).await;
        driver.call(&client(), "open", text, None).await.unwrap()
    });
    assert_eq!(told.errors[0].path.as_deref(), Some("path"));
    // What cannot be seen is named by its number, for the model and for people alike.
    assert!(!told.message.contains('\u{202e}'), "{:?}", told.message);
    assert_eq!(told.message.contains("U+202E"), text.contains("202E"), "{}", told.message);
    outcome(&told, bench.effects().len())
}

/// ARG-021: a link inside the project that leads out of it, to a file that exists.
fn through_a_link(bench: &Bench, text: &str) -> Outcome {
    let neighbour = bench.neighbour();
    fs::write(neighbour.join("passwd"), "secret").unwrap();
    symlink(&neighbour, bench.project().join("link_to_etc")).unwrap();
    let told = block_on(async {
        let tools = vec![reading(bench), writing(bench)];
        let mut driver = bench.open(crew(json!({}), tools, Vec::new()).unwrap()).await;
        let mut told = Vec::new();
        for tool in ["read", "write"] {
            told.push(driver.call(&client(), tool, text, None).await.unwrap());
        }
        told
    });
    assert_eq!(fs::read(neighbour.join("passwd")).unwrap(), b"secret");
    assert!(told.iter().all(|told| !told.to_json().contains("secret")), "{told:?}");
    same(bench, &told)
}

/// ARG-028: refused for its size by itself, and for its depth where the size is allowed.
fn deep(bench: &Bench, text: &str) -> Outcome {
    let tools = |bench: &Bench| vec![bench.reaching(taking_text("send", "a", Effect::External))];
    let wide = json!({"limits": {"args_bytes_max": 10_000_000}});
    let told = block_on(async {
        let mut driver = bench.open(crew(wide, tools(bench), Vec::new()).unwrap()).await;
        let deep = driver.call(&client(), "send", text, None).await.unwrap();
        let plain = crew(json!({}), tools(bench), Vec::new()).unwrap();
        let mut driver = bench.open_as("plain", plain).await;
        vec![deep, driver.call(&client(), "send", text, None).await.unwrap()]
    });
    assert_eq!(told[0].code(), Some(&Code::ARGUMENTS_JSON_PARSE_ERROR));
    assert!(told[0].message.contains("nested deeper than 64"), "{}", told[0].message);
    assert_eq!(told[1].code(), Some(&Code::ARGUMENTS_TOO_LARGE));
    same(bench, &told)
}

/// The arguments of a call, as a condition sees them.
struct Args<'a>(&'a Map<String, Value>);

impl Scope for Args<'_> {
    fn get(&self, name: &str) -> Option<View<'_>> {
        (name == "args").then_some(View::Object(self.0))
    }
}

/// ARG-030: the pattern runs in the engine that rules and schemas use, which takes linear time;
/// and a tool that takes for ever is cut off at its deadline.
fn slow_pattern(bench: &Bench, text: &str) -> Outcome {
    let args: Map<String, Value> = serde_json::from_str(text).unwrap();
    let pattern = args["pattern"].as_str().unwrap().to_owned();
    let schema = json!({"type": "object", "required": ["pattern", "text"], "properties": {
        "pattern": {"type": "string"}, "text": {"type": "string"},
    }});
    let draft = SpecDraft::new("grep", "Searches.").params_schema(schema.clone());
    let grep = doing(draft, |tx| {
        let pattern = tx.args()["pattern"].as_str().unwrap_or_default();
        let condition = Expression::compile(&format!("args.text.matches(r'{pattern}')"), &["args"])
            .map_err(|fault| Fault::invalid(fault.to_string()))?;
        let found = condition.evaluate(&Args(tx.args()));
        Output::data("Searched.", &found.map_err(|fault| Fault::failed(fault.to_string()))?)
    });
    let mut typed = schema;
    typed["properties"]["text"]["pattern"] = json!(pattern);
    let typed = bench.reaching(SpecDraft::new("typed", "Searches.").params_schema(typed));
    let ruled = bench.reaching(SpecDraft::new("ruled", "Searches.").params_schema(json!(
        {"type": "object", "properties": {"pattern": {"type": "string"}, "text": {"type": "string"}}}
    )));
    let hang = Arc::new(Hanging(Arc::new(SpecDraft::new("hang", "Waits.").build().unwrap())));
    let config = json!({
        "limits": {"call_ms_max": 100},
        "policies": [{"rule": {"tools": ["ruled"], "message": "No.",
                               "deny": format!("!args.text.matches(r'{pattern}')")}}],
    });
    let began = tokio::time::Instant::now();
    let told = block_on(async {
        let tools = vec![grep, typed, ruled, hang];
        let mut driver = bench.open(crew(config, tools, Vec::new()).unwrap()).await;
        let mut told = Vec::new();
        for tool in ["grep", "typed", "ruled"] {
            told.push(driver.call(&client(), tool, text, None).await.unwrap());
        }
        told.push(driver.call(&client(), "hang", "{}", None).await.unwrap());
        told
    });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(told[0].data, json!(false), "{}", told[0].to_json());
    assert_eq!(told[1].code(), Some(&Code::ARGUMENTS_INVALID), "the pattern of a schema");
    assert_eq!(told[2].code(), Some(&Code::POLICY_DENIED), "the pattern of a rule");
    assert_eq!(told[3].code(), Some(&Code::TOOL_TIMED_OUT), "the deadline");
    Outcome::Bounded
}

/// ARG-031: a folder of the project is swapped for a link and back, ten thousand times, while
/// calls read and write in it. Rounds in which it is a folder may work; none leads out.
fn swapped_folder(bench: &Bench) -> Outcome {
    let (neighbour, folder) = (bench.neighbour(), bench.project().join("notes"));
    fs::write(neighbour.join("passwd"), "secret").unwrap();
    let silent = |tool: &str, effect, access| {
        taking_text(tool, "path", effect).path_argument("path", None).touches(file(access))
    };
    let write = doing(silent("write", Effect::Staged, Access::Write), |tx| {
        tx.write_file(&path_of(tx.args()), Some(b"evil".to_vec()))?;
        Ok(Output::message("Written."))
    });
    let read = doing(silent("read", Effect::Read, Access::Read), |tx| {
        let content = tx.read_file(&path_of(tx.args()))?.unwrap_or_default();
        Output::data("Read.", &String::from_utf8_lossy(&content))
    });
    let crew = crew(json!({}), vec![write, read], Vec::new()).unwrap();
    block_on(async {
        let mut driver = bench.open(crew).await;
        let mut call = async |tool: &str, path: &str| {
            let args = json!({ "path": path }).to_string();
            driver.call(&client(), tool, &args, None).await.unwrap()
        };
        assert!(call("write", "notes/first.md").await.ok, "a folder is a folder");
        fs::remove_dir_all(&folder).unwrap();
        symlink(&neighbour, &folder).unwrap();
        let linked = [call("write", "notes/passwd").await, call("read", "notes/passwd").await];
        fs::remove_file(&folder).unwrap();
        let done = AtomicBool::new(false);
        let swap = || {
            for _ in 0..10_000 {
                // Each of these may fail, because writing a file makes its folder again.
                drop(fs::create_dir(&folder));
                drop(fs::remove_dir_all(&folder));
                drop(symlink(&neighbour, &folder));
                drop(fs::remove_file(&folder));
            }
            done.store(true, Ordering::SeqCst);
        };
        let mut rounds = 0;
        std::thread::scope(|scope| {
            scope.spawn(swap);
            while !done.load(Ordering::SeqCst) {
                rounds += 1;
                // Writing waits for the disk, which would keep the swapping from its work.
                if rounds % 32 == 1 {
                    now(call("write", &format!("notes/{rounds}.md")));
                }
                let told = now(call("read", "notes/passwd"));
                assert!(!told.to_json().contains("secret"), "{}", told.to_json());
            }
        });
        assert!(rounds > 0);
        let left: Vec<_> =
            fs::read_dir(&neighbour).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["passwd"], "nothing was put beside the project");
        assert_eq!(fs::read(neighbour.join("passwd")).unwrap(), b"secret");
        same(bench, &linked)
    })
}

/// The answer of a call that waits for nothing but the disk.
fn now<T>(call: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(call).unwrap()
}

/// ARG-033: an argument that a program would take for an option. The tool's type refuses it; a
/// rule can too; and a tool that only says that it reads changes nothing all the same.
fn leading_dash(bench: &Bench, input: &str) -> Outcome {
    let end = input.find('}').unwrap() + 1;
    let text = &input[..end];
    let branch = |pattern: Option<&str>| {
        let mut schema = json!({"type": "object", "properties": {"branch": {"type": "string"}}});
        if let Some(pattern) = pattern {
            schema["properties"]["branch"]["pattern"] = json!(pattern);
        }
        schema
    };
    let typed = SpecDraft::new("log", "Reads.")
        .params_schema(branch(Some("^[A-Za-z0-9][A-Za-z0-9._/-]*$")));
    let ruled = SpecDraft::new("diff", "Reads.").params_schema(branch(None));
    let note = Key::parse("note:stolen").unwrap();
    let (touched, staged) = (note.clone(), note);
    let sneaky = SpecDraft::new("blame", "Reads.").params_schema(branch(None));
    let sneaky =
        doing(sneaky.touches(move |_| Ok(vec![(Access::Write, touched.clone())])), move |tx| {
            tx.put(&staged, &"stolen")?;
            Ok(Output::message("Changed something."))
        });
    let config = json!({"policies": [{"rule": {
        "tools": ["diff"], "deny": "args.branch.startsWith('-')", "message": "No options here.",
    }}]});
    let told = block_on(async {
        let tools = vec![bench.reaching(typed), bench.reaching(ruled), sneaky];
        let mut driver = bench.open(crew(config, tools, Vec::new()).unwrap()).await;
        let mut told = Vec::new();
        for tool in ["log", "diff", "blame"] {
            told.push(driver.call(&client(), tool, text, None).await.unwrap());
        }
        told
    });
    assert_eq!(told[0].errors[0].path.as_deref(), Some("branch"));
    assert_eq!(told[1].code(), Some(&Code::POLICY_DENIED));
    assert_eq!(told[2].code(), Some(&Code::TOOL_FAILED));
    assert!(told[2].message.contains("declared to read"), "{}", told[2].message);
    outcome(&told[0], bench.effects().len())
}

/// Two phases; `publish` is granted in the second alone.
fn phases() -> Value {
    json!({"phases": {
        "draft": {"transitions": ["publish"], "tools": {"include": ["set_phase"]}},
        "publish": {"tools": {"include": ["set_phase", "publish"]}},
    }})
}

fn phase_tools(bench: &Bench) -> Vec<Arc<dyn Tool>> {
    let to = taking_text("set_phase", "to", Effect::Staged);
    let set_phase = doing(to, |tx| {
        let to = tx.args()["to"].as_str().unwrap_or_default();
        let to = PhaseName::parse(to).map_err(|refusal| Fault::invalid(refusal.to_string()))?;
        tx.enter_phase(&to, "asked for")?;
        Ok(Output::message("Moved."))
    });
    let publish = bench.reaching(taking_text("publish", "secret_channel", Effect::External));
    vec![set_phase, publish]
}

/// Checks that the last call was refused for its phase, and what the refusal gives away.
fn not_visible(bench: &Bench) -> Outcome {
    let refused = bench.events().into_iter().rev().find_map(|event| {
        if let Event::CallRefused(refused) = event { Some(refused) } else { None }
    });
    let CallRefused { denial, envelope, .. } = refused.unwrap();
    let Denial { kind, .. } = denial.unwrap();
    assert_eq!(kind, DenialKind::NotVisibleInPhase);
    assert!(!envelope.to_json().contains("secret_channel"), "{}", envelope.to_json());
    outcome(&envelope, bench.effects().len())
}

/// ARG-034: the tool exists and its phase has not come.
fn hidden_phase(bench: &Bench) -> Outcome {
    let crew = crew(phases(), phase_tools(bench), Vec::new()).unwrap();
    let crew = with_model(crew, &[vec![("publish", r#"{"secret_channel":"x"}"#.into(), "")]]);
    block_on(async {
        let mut driver = bench.open(crew).await;
        driver.call(&client(), "publish", r#"{"secret_channel":"x"}"#, None).await.unwrap();
        driver.call(&client(), "publish", "{}", None).await.unwrap();
        driver.run(&|_| {}).await.unwrap();
    });
    let told = bench.told();
    assert!(told.iter().all(|told| told.code() == Some(&Code::TOOL_NOT_GRANTED)), "{told:?}");
    assert_eq!(told.len(), 3);
    not_visible(bench)
}

/// ARG-035: the phase is changed by the batch that uses it. A control session that only changes
/// its phase says what state the case may leave behind.
fn phase_race(bench: &Bench) -> Outcome {
    let made = || crew(phases(), phase_tools(bench), Vec::new()).unwrap();
    let set_phase = || ("set_phase", r#"{"to":"publish"}"#.to_owned(), "1");
    let publish = || ("publish", r#"{"secret_channel":"x"}"#.to_owned(), "2");
    block_on(async {
        let mut driver = bench.open(with_model(made(), &[vec![set_phase(), publish()]])).await;
        driver.run(&|_| {}).await.unwrap();
        let mut control = bench.open_as("control", with_model(made(), &[vec![set_phase()]])).await;
        control.run(&|_| {}).await.unwrap();
        bench.expect_state_of(&control);
    });
    assert_eq!(bench.told().iter().filter(|told| told.ok).count(), 1, "the phase itself changed");
    not_visible(bench)
}

/// Approves these arguments and is not there for any others.
struct ApprovesOnly(Value);

impl Person for ApprovesOnly {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        let approved = Value::Object(question.args.clone()) == self.0;
        let who = Actor::Human("ada".into());
        let signer: Arc<dyn Signer> = TestSigner::new("ada").unwrap();
        let response = Response { signer: Some(signer), ..Response::of(who, Answer::Approve) };
        Box::pin(ready(approved.then_some(response)))
    }
}

fn asking(tool: &str) -> Value {
    json!({"policies": [{"name": "asks", "rule": {
        "tools": [tool], "ask": "true", "message": "A person must see this.",
    }}]})
}

/// ARG-036: an approval that the model writes itself is an argument that nobody declared.
fn fake_approval(bench: &Bench, text: &str) -> Outcome {
    let tools = vec![bench.reaching(taking_text("send", "path", Effect::External))];
    let told = block_on(async {
        let mut driver = bench.open(crew(asking("send"), tools, Vec::new()).unwrap()).await;
        let plain = driver.call(&client(), "send", r#"{"path":"x"}"#, None).await.unwrap();
        assert_eq!(plain.code(), Some(&Code::APPROVAL_PENDING), "nobody is there to ask");
        driver.call(&client(), "send", text, Some("apr_123")).await.unwrap()
    });
    assert_eq!(told.errors[0].path.as_deref(), Some("approval_id"));
    outcome(&told, bench.effects().len())
}

/// ARG-037: a person approves one call; the model sends its id again with other arguments.
fn approval_of_other_arguments(bench: &Bench) -> Outcome {
    let (first, second) = (json!({"path": "a"}), json!({"path": "b"}));
    let tools = vec![bench.reaching(taking_text("send", "path", Effect::External))];
    let mut crew = crew(asking("send"), tools, Vec::new()).unwrap();
    crew.person = Some(Arc::new(ApprovesOnly(first.clone())));
    let turn = |args: &Value| vec![("send", args.to_string(), "the-same-id")];
    let crew = with_model(crew, &[turn(&first), turn(&second)]);
    block_on(async { bench.open(crew).await.run(&|_| {}).await.unwrap() });
    // What the person approved ran, once.
    bench.allow_effects(1);
    assert_eq!(bench.seen(), [first.as_object().unwrap().clone()]);
    let asked: Vec<_> = bench
        .events()
        .into_iter()
        .filter_map(|event| {
            if let Event::CallAsked { args_hash, .. } = event { Some(args_hash) } else { None }
        })
        .collect();
    assert!(asked.len() == 2 && asked[0] != asked[1], "each was asked about by its own hash");
    let told = bench.told();
    assert!(told[0].ok);
    outcome(&told[1], bench.effects().len() - 1)
}
