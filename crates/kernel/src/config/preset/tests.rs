//! How presets are merged (T33) and which ones a model gets (T34).

use serde_json::{Value, json};

use super::*;

/// What comes out, without what is empty.
fn merged(global: Value, model: Value, provider: &str) -> Value {
    let global = serde_json::from_value(global).unwrap();
    let model = serde_json::from_value(model).unwrap();
    let provider = ProviderName::parse(provider).unwrap();
    serde_json::to_value(effective(&global, &model, provider)).unwrap()
}

/// T33: lists are united, overrides merged in depth, everything else is the last word.
#[test]
fn what_is_said_later_is_laid_over_what_is_said_before() {
    let own = |calling: Value| json!({"model": "m", "presets": [], "tool_calling": calling});
    let cases = [
        (json!({}), json!({}), json!({})),
        (
            json!({"tool_use_mode": "enforced", "fix_empty_final": true, "fallback_retry_count": 2}),
            json!({"tool_use_mode": "relaxed"}),
            json!({"tool_use_mode": "relaxed", "fix_empty_final": true, "fallback_retry_count": 2}),
        ),
        (
            json!({"request_overrides": {"provider": {"order": ["a", "b"], "sort": "price"}, "top_k": 1}}),
            json!({"request_overrides": {"provider": {"order": ["c"]}, "route": "fallback"}}),
            json!({"request_overrides": {"provider": {"order": ["c"], "sort": "price"}, "top_k": 1, "route": "fallback"}}),
        ),
        (
            json!({"tool_allowlist": "a, b", "tool_denylist": ["x"]}),
            json!({"tool_allowlist": ["b", "c"], "tool_denylist": "y,x"}),
            json!({"tool_allowlist": ["a", "b", "c"], "tool_denylist": ["x", "y"]}),
        ),
        // An empty allow list clears, and then allows none; `all` clears, and filters nothing.
        (
            json!({"tool_allowlist": ["a"]}),
            json!({"tool_allowlist": []}),
            json!({"tool_allowlist": []}),
        ),
        (
            json!({"tool_allowlist": []}),
            json!({"tool_allowlist": ["a"]}),
            json!({"tool_allowlist": ["a"]}),
        ),
        (
            json!({"tool_allowlist": ["a"]}),
            json!({"tool_allowlist": "all"}),
            json!({"tool_allowlist": "all"}),
        ),
        (
            json!({"tool_allowlist": "all"}),
            json!({"tool_allowlist": ["a"]}),
            json!({"tool_allowlist": ["a"]}),
        ),
        (json!({"tool_allowlist": ["a"]}), json!({}), json!({"tool_allowlist": ["a"]})),
        // An empty deny list denies nothing more.
        (
            json!({"tool_denylist": ["a"]}),
            json!({"tool_denylist": []}),
            json!({"tool_denylist": ["a"]}),
        ),
        // Transforms keep their order, and one in two spellings is one.
        (
            json!({"response_transforms": ["assistant_function_call_to_tool_calls"]}),
            json!({"response_transforms": "assistant_tool_calls_object_to_array, Assistant-Function-Call-To-Tool-Calls"}),
            json!({"response_transforms": ["assistant_function_call_to_tool_calls", "assistant_tool_calls_object_to_array"]}),
        ),
    ];
    for (global, calling, expected) in cases {
        let case = format!("{global} and {calling}");
        assert_eq!(merged(global, own(calling), "openai"), expected, "{case}");
    }
}

/// The names of presets that a model gets by itself, by what they do.
fn automatic(model: &str, provider: &str, base_url: Option<&str>) -> Vec<&'static str> {
    let text = ModelText {
        model: model.to_owned(),
        base_url: base_url.map(str::to_owned),
        ..ModelText::default()
    };
    let provider = ProviderName::parse(provider).unwrap();
    let mut names = of_provider(&text, provider);
    names.extend(of_model(model, provider));
    names.dedup();
    names
}

/// T34, and what local models get.
#[test]
fn presets_are_chosen_by_provider_and_by_the_name_of_the_model() {
    const MENDED: &str = "openai_compatible_reliability";
    const ONE_BY_ONE: &str = "sequential_tool_calls";
    const STRICT: &str = "strict_chat_template";
    const THOUGHTS: &str = "inline_thoughts";
    let local = Some("http://127.0.0.1:1234/v1");
    let rows: &[(&str, &str, Option<&str>, &[&str])] = &[
        ("gpt-5", "openai", None, &[MENDED, ONE_BY_ONE]),
        ("gpt-oss-20b", "openai", local, &[MENDED]),
        ("x", "openai", Some("https://ark.cn-beijing.volces.com/api"), &[MENDED, ONE_BY_ONE]),
        ("x", "openai", Some("https://notopenrouter.ai/api"), &[MENDED]),
        ("gpt-5", "openai_responses", None, &[]),
        ("claude-opus-4-6", "anthropic", None, &[]),
        ("gemini-2.5-flash", "gemini", None, &[]),
        ("anthropic/claude-opus-4.6:nitro", "openrouter", None, &[MENDED, ONE_BY_ONE]),
        (
            "deepseek/deepseek-v3.2:nitro",
            "openrouter",
            None,
            &[
                MENDED,
                ONE_BY_ONE,
                "deepseek_openrouter_compat",
                THOUGHTS,
                "deepseek_printed_tool_calls",
            ],
        ),
        (
            "deepseek-reasoner",
            "deepseek",
            None,
            &[MENDED, "deepseek_openrouter_compat", THOUGHTS, "deepseek_printed_tool_calls"],
        ),
        (
            "google/gemini-2.5-flash",
            "openrouter",
            None,
            &[MENDED, ONE_BY_ONE, "gemini_openrouter_compat"],
        ),
        ("google/gemma-3", "lmstudio", None, &[MENDED, STRICT]),
        ("Qwen/Qwen3-Coder-30B", "vllm", None, &[MENDED, THOUGHTS, "hermes_printed_tool_calls"]),
        ("qwen2.5:7b", "ollama", None, &[MENDED, THOUGHTS, "hermes_printed_tool_calls"]),
        ("NousResearch/Hermes-3", "llamacpp", None, &[MENDED, "hermes_printed_tool_calls"]),
        ("hf.co/lab/Llama-3.2-3B-GGUF:Q4", "ollama", None, &[MENDED, "llama_printed_tool_calls"]),
        ("mistral-nemo", "lmstudio", None, &[MENDED, STRICT, "mistral_printed_tool_calls"]),
        (
            "mistralai/devstral-small",
            "lmstudio",
            None,
            &[MENDED, STRICT, "mistral_printed_tool_calls"],
        ),
        ("pixtral-12b", "mistral", None, &[MENDED, STRICT]),
        (
            "magistral-small",
            "ollama",
            None,
            &[MENDED, STRICT, THOUGHTS, "mistral_printed_tool_calls"],
        ),
        ("deepseek-r1:8b", "ollama", None, &[MENDED, THOUGHTS, "deepseek_printed_tool_calls"]),
    ];
    for (model, provider, base_url, expected) in rows {
        assert_eq!(automatic(model, provider, *base_url), *expected, "{provider}:{model}");
    }
}

#[test]
fn named_presets_come_after_the_automatic_ones_and_an_empty_list_means_none() {
    let of = |presets: Value| {
        merged(json!({}), json!({"model": "gpt-oss", "presets": presets}), "ollama")
    };
    let before = of(Value::Null);
    let responses = |text: &Value| text["response_transforms"].as_array().unwrap().clone();
    let after = of(json!("Content-Tag-Tool-Call-Fallback, openai_compatible_reliability"));
    let mut expected = responses(&before);
    expected.push(json!("assistant_content_tool_call_tags_to_tool_calls"));
    assert_eq!(responses(&after), expected);
    assert_eq!(of(json!([])), json!({}));
    assert_eq!(of(json!("")), json!({}));
}

#[test]
fn a_person_overrules_a_preset() {
    let model = json!({"model": "gpt-5"});
    let global = json!({"request_overrides": {"parallel_tool_calls": true}});
    let text = merged(global, model, "openai");
    assert_eq!(text["request_overrides"], json!({"parallel_tool_calls": true}));
}

/// That a model cannot call tools is known of the model: only its own word is stronger.
#[test]
fn a_model_without_tools_gets_none_unless_its_own_block_says_so() {
    let global = || json!({"tool_use_mode": "relaxed"});
    let model = |more: Value| {
        let mut model = json!({"model": "minimax/minimax-m2-her:nitro"});
        model.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        model
    };
    let mode = |model: Value| merged(global(), model, "openrouter")["tool_use_mode"].clone();
    assert_eq!(mode(model(json!({}))), "disabled");
    assert_eq!(mode(model(json!({"presets": []}))), "relaxed");
    assert_eq!(mode(model(json!({"tool_calling": {"tool_use_mode": "relaxed"}}))), "relaxed");
    assert_eq!(mode(json!({"model": "minimax/minimax-m2"})), "relaxed");
}

#[test]
fn no_preset_says_whether_tools_must_be_used_and_every_row_names_a_preset() {
    for preset in PRESETS {
        let text = preset.text();
        assert_eq!((text.tool_use_mode, text.tool_failure_policy), (None, None));
        assert_eq!(Preset::find(preset.name), Ok(preset));
    }
    for (glob, name) in BY_MODEL {
        assert!(Preset::find(name).is_ok(), "{glob}: {name}");
    }
    let refusal = Preset::find("printed_tool_call").unwrap_err();
    assert_eq!(refusal.help(), "did you mean `printed_tool_calls`?");
    assert!(Preset::find("magic").unwrap_err().help().starts_with("there is openai_"));
}

/// The page names every transform and every preset.
#[test]
fn the_docs_name_everything_there_is() {
    let page = include_str!("../../../../../docs/transforms.md");
    let transforms = Transform::ALL.iter().map(|transform| transform.name());
    for name in transforms.chain(PRESETS.iter().map(|preset| preset.name)) {
        assert!(page.contains(&format!("| `{name}` |")), "docs/transforms.md: {name}");
    }
    for (glob, _) in BY_MODEL {
        assert!(page.contains(&format!("`{glob}`")), "docs/transforms.md: {glob}");
    }
}

#[test]
fn a_star_stands_for_anything() {
    for (glob, text, expected) in [
        ("qwen*", "qwen", true),
        ("qwen*", "aqwen", false),
        ("*reasoner*", "deepseek-reasoner", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c", false),
        ("ab*bc", "abc", false),
        ("exact", "exact", true),
        ("exact", "exactly", false),
        ("*", "", true),
    ] {
        assert_eq!(fits(glob, text), expected, "{glob} {text}");
    }
}
