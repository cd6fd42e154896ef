//! What chat completions are sent where a server is strict, and where it is its provider's own.

use serde_json::{Value, json};
use toolgate_kernel::config::Transform;
use toolgate_kernel::event::{Finish, Native, Note, NoteKind, Usage};
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::{Reply, ReplyCall};

use crate::dialect::{Capabilities, Dialect, Options, sample};
use crate::transform::Transforms;

fn options(transforms: &[Transform]) -> Options {
    let names = transforms.iter().map(|transform| (transform.kind(), transform.name()));
    Options { transforms: Transforms::parse(names).unwrap(), ..sample::options("m") }
}

fn strict() -> Options {
    options(&[Transform::AlternateRoles, Transform::ShortIds])
}

fn reply(text: &str, ids: &[&str]) -> Reply {
    let call = |id: &&str| ReplyCall {
        alias: Some((*id).to_owned()),
        name: "read_file".to_owned(),
        args: "{}".to_owned(),
    };
    let finish = if ids.is_empty() { Finish::Stop } else { Finish::Calls };
    Reply::new(text, ids.iter().map(call).collect(), finish, Usage::default())
}

fn asked(plan: &Plan, options: &Options) -> Vec<Value> {
    let request = sample::encoded(Dialect::Chat, plan, options);
    sample::messages(&request).to_vec()
}

/// The roles and words of messages; a call and its result with their ids.
fn told(messages: &[Value]) -> Vec<String> {
    let word = |message: &Value| {
        let role = message["role"].as_str().unwrap();
        let ids = message["tool_calls"].as_array().into_iter().flatten();
        let ids: Vec<&str> = ids.filter_map(|call| call["id"].as_str()).collect();
        match (role, message["content"].as_str()) {
            ("tool", _) => format!("tool {}", message["tool_call_id"].as_str().unwrap()),
            (_, _) if !ids.is_empty() => format!("calls {}", ids.join(" ")),
            (role, words) => format!("{role} {}", words.unwrap_or("[…]").replace("\n\n", " + ")),
        }
    };
    messages.iter().map(word).collect()
}

/// Replies with what is said before each of them, as one request after another.
fn talk(options: &Options) -> Vec<Vec<Value>> {
    let steps: &[(&[&str], Reply)] = &[
        (&["Be quick."], reply("", &["call_0", "AbCdEfGh1"])),
        (&["Mind the time."], reply("", &["AbCdEfGh2"])),
        (&[], reply("", &[])),
        (&["Well?"], reply("So.", &[])),
        (&[], reply("", &["c00000001"])),
        (&["One.", "Two."], reply("Done.", &[])),
        (&["More."], reply("", &[])),
    ];
    let mut plan = sample::plan();
    let mut requests = Vec::new();
    for (said, reply) in steps {
        plan.feedback = said.iter().take(1).map(|words| (*words).into()).collect();
        let note = |words: &&str| Note { about: NoteKind::Phase, text: (*words).to_owned() };
        plan.notes = said.iter().skip(1).map(note).collect();
        requests.push(asked(&plan, options));
        sample::answered(&mut plan, reply.clone(), said);
    }
    requests
}

#[test]
fn user_and_assistant_take_turns_and_what_was_sent_stays() {
    let requests = talk(&strict());
    let last = requests.last().unwrap();
    let wanted = [
        "system Be brief.",
        "user Begin. + Be quick.",
        "calls c00000001 AbCdEfGh1",
        "tool c00000001",
        "tool AbCdEfGh1",
        "assistant Understood.",
        "user Mind the time.",
        "calls AbCdEfGh2",
        "tool AbCdEfGh2",
        "assistant (no words)",
        "user Well?",
        "assistant So.",
        "user Go on.",
        // It looks like one of ours and is none, so it gets its own.
        "calls c00000004",
        "tool c00000004",
        "assistant Understood.",
        "user One. + Two.",
        "assistant Done.",
        "user More.",
    ];
    assert_eq!(told(last), wanted);
    for (before, after) in requests.iter().zip(requests.iter().skip(1)) {
        assert!(after.starts_with(before), "{:?}\n{:?}", told(before), told(after));
    }
}

/// Without the transforms everything is as it was.
#[test]
fn other_servers_are_sent_what_was_said() {
    let requests = sample::plan();
    let mut plan = requests;
    sample::answered(&mut plan, reply("", &["call_0"]), &["Be quick."]);
    plan.feedback = vec!["Mind the time.".into()];
    let wanted = [
        "system Be brief.",
        "user Begin.",
        "user Be quick.",
        "calls call_0",
        "tool call_0",
        "user Mind the time.",
    ];
    assert_eq!(told(&asked(&plan, &sample::options("m"))), wanted);
}

#[test]
fn a_picture_and_words_are_one_message_where_turns_are_taken() {
    let mut plan = sample::plan();
    sample::with_picture(&mut plan);
    plan.feedback = vec!["Look.".into()];
    let can = Capabilities { images: true, ..Capabilities::default() };
    let messages = asked(&plan, &Options { capabilities: can, ..strict() });
    assert_eq!(messages.len(), 2);
    let kinds: Vec<&str> = messages[1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|p| p["type"].as_str())
        .collect();
    assert_eq!(kinds, ["text", "image_url", "text"]);
}

/// A reply that was kept in its own form, and no system prompt.
#[test]
fn kept_thoughts_are_words_enough() {
    let mut plan = sample::plan();
    plan.system = "".into();
    let content = json!({ "content": [{ "type": "thinking", "thinking": [] }] });
    let native = Some(Native::new("chat", content));
    sample::answered(&mut plan, Reply { native, ..reply("", &[]) }, &[]);
    assert_eq!(told(&asked(&plan, &strict())), ["user Begin.", "assistant […]", "user Go on."]);
}

/// What another server wants back is not known to Mistral, which refuses the whole request for it.
#[test]
fn mistral_is_sent_no_key_that_it_does_not_know() {
    let content = json!({
        "content": [{ "type": "thinking", "thinking": [] }], "reasoning_content": "why",
        "reasoning_details": [{}], "tool_calls": [{ "extra_content": { "google": "s" } }],
    });
    let native = Some(Native::new("chat", content));
    let mut plan = sample::plan();
    sample::answered(&mut plan, Reply { native, ..reply("", &["AbCdEfGh1"]) }, &[]);
    let sent = |base_url: &str| {
        let mut options = strict();
        options.transforms = options.transforms.at(base_url);
        let reply = asked(&plan, &options).swap_remove(2);
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        (keys(&reply).join(" "), keys(&reply["tool_calls"][0]).join(" "))
    };
    let own = ("role content tool_calls".to_owned(), "id type function".to_owned());
    assert_eq!(sent("https://api.mistral.ai/v1"), own);
    let (keys, call) = sent("http://127.0.0.1:1234/v1");
    assert!(keys.contains("reasoning_content") && call.contains("extra_content"), "{keys} {call}");
}

#[test]
fn a_provider_at_home_is_asked_in_its_own_words() {
    let key = |base_url: &str, model: &str| {
        let mut options = sample::options(model);
        options.transforms = options.transforms.at(base_url);
        (options.output_tokens_max, options.stream) = (Some(9), true);
        let body = sample::encoded(Dialect::Chat, &sample::plan(), &options).body;
        let (new, old) =
            (body.contains_key("max_completion_tokens"), body.contains_key("max_tokens"));
        assert_ne!(new, old, "{base_url} {model}");
        (new, body.contains_key("stream_options"))
    };
    for model in ["gpt-4o", "gpt-6", "o9", "whatever-comes"] {
        assert_eq!(key("https://api.openai.com/v1", model), (true, true), "{model}");
    }
    assert_eq!(key("https://api.mistral.ai/v1", "mistral-large"), (false, false));
    assert_eq!(key("http://127.0.0.1:1234/v1", "gpt-oss"), (false, true));
    // Somebody's proxy before OpenAI: its thinking models refuse the older key.
    assert_eq!(key("https://proxy.example/v1", "gpt-5"), (true, true));
}
