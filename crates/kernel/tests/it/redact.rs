//! Secrets are removed in every form in which a program may repeat them.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::redact::{REDACTED, Redactor, StreamRedactor};

const SECRETS: &[&str] =
    &["sk-CANARY/0123+456789", "pä\"ss\\wörd/<😀>&CANARY99", "s3cr3t-CANARY_v2"];

type Encoder = (&'static str, fn(&str) -> String);

fn json_text(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn json_full(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn json_mixed(text: &str) -> String {
    let odd = |(at, c): (usize, char)| {
        if at % 2 == 0 { json_full(&c.to_string()) } else { json_text(&c.to_string()) }
    };
    text.chars().enumerate().map(odd).collect()
}

fn percent_full(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn percent_needed(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// Escapes, which may be applied to each other in any order.
const ESCAPES: &[Encoder] = &[
    ("JSON", json_text),
    ("JSON, every letter", json_full),
    ("JSON, every second letter", json_mixed),
    ("percent", percent_needed),
    ("percent, every byte", percent_full),
];

/// Other forms, before any escape.
const FORMS: &[Encoder] = &[
    ("plain", str::to_owned),
    ("small letters", |text| text.to_lowercase()),
    ("reversed", |text| text.chars().rev().collect()),
    ("hex", |text| text.bytes().map(|byte| format!("{byte:02x}")).collect()),
    ("HEX:WITH:COLONS", |text| {
        text.bytes().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }),
    ("base64", |text| STANDARD.encode(text)),
    ("base64 after one byte", |text| STANDARD.encode(format!("a{text}zz"))),
    ("base64 after two bytes", |text| STANDARD.encode(format!("ab{text}zz"))),
    ("base64 for addresses", |text| URL_SAFE_NO_PAD.encode(format!("a?>{text}"))),
    ("base64 in lines", |text| {
        let whole = STANDARD.encode(format!("x{text}"));
        whole
            .as_bytes()
            .chunks(7)
            .map(|line| str::from_utf8(line).unwrap())
            .collect::<Vec<_>>()
            .join("\r\n")
    }),
    ("broken into lines", |text| {
        text.chars().map(|c| c.to_string()).collect::<Vec<_>>().join("\n")
    }),
];

fn redactor() -> Redactor {
    let secrets: Vec<Hidden> = SECRETS.iter().map(Hidden::new).collect();
    Redactor::new(&secrets)
}

/// Every form of a secret, with up to three levels of escapes around it.
fn written(secret: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        FORMS.iter().map(|(name, form)| ((*name).to_owned(), form(secret))).collect();
    let mut level = all.clone();
    for _ in 0..3 {
        let escaped = |(about, text): &(String, String)| {
            let about = about.clone();
            let text = text.clone();
            ESCAPES
                .iter()
                .map(move |(name, escape)| (format!("{about}, {name}"), escape(&text)))
                .collect::<Vec<_>>()
        };
        // The same escape of everything three times over is long; a part of it shows as much.
        level = level.iter().step_by(3).flat_map(escaped).collect();
        all.extend(level.clone());
    }
    all
}

#[test]
fn every_form_of_a_secret_is_removed() {
    let redactor = redactor();
    let mut count = 0;
    for secret in SECRETS {
        for (about, text) in written(secret) {
            let said = format!("before ä {text} after");
            let redacted = redactor.redact(&said);
            assert!(redacted.contains(REDACTED), "{about}: {said}");
            // Of base64, the digits shared with neighbours stay; they say less than two bytes.
            let chars: Vec<char> = text.chars().collect();
            let inner: String = chars[chars.len() / 3..chars.len() * 2 / 3].iter().collect();
            assert!(!redacted.contains(&inner), "{about}: {redacted}");
            assert!(
                redacted.starts_with("before ä ") && redacted.ends_with(" after"),
                "{redacted}"
            );
            count += 1;
        }
    }
    assert!(count > 300, "{count}");
}

fn bytes_in(text: &str, byte: fn(u8) -> String, between: &str) -> String {
    text.bytes().map(byte).collect::<Vec<_>>().join(between)
}

/// Forms and escapes of other programs: debuggers, shells, Windows, JavaScript.
const FOREIGN: &[Encoder] = &[
    ("HEX-WITH-DASHES", |text| bytes_in(text, |byte| format!("{byte:02X}"), "-")),
    ("a list in hex", |text| bytes_in(text, |byte| format!("0x{byte:02x}"), ", ")),
    ("a list of numbers", |text| bytes_in(text, |byte| byte.to_string(), ", ")),
    ("a dense list of numbers", |text| bytes_in(text, |byte| byte.to_string(), ",")),
    ("reversed in hex", |text| text.bytes().rev().map(|byte| format!("{byte:02x}")).collect()),
    ("UTF-16 read as bytes", |text| text.chars().map(|c| format!("{c}\0")).collect()),
    ("UTF-16 in base64", |text| {
        STANDARD.encode(text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>())
    }),
    ("in braces", |text| text.chars().map(|c| format!("\\u{{{:x}}}", u32::from(c))).collect()),
    ("backslashes before signs", |text| {
        let sign = |c: char| c.is_ascii_punctuation();
        text.chars().map(|c| if sign(c) { format!("\\{c}") } else { c.to_string() }).collect()
    }),
];

/// Of base64, the digits shared with neighbours stay.
fn is_gone(text: &str, redacted: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let inner: String = chars[chars.len() / 3..chars.len() * 2 / 3].iter().collect();
    redacted.contains(REDACTED) && !redacted.contains(&inner)
}

/// As a buffer of Node.js is written.
#[test]
fn a_list_of_the_bytes_of_a_secret_is_removed_from_json() {
    let redactor = redactor();
    for secret in SECRETS {
        let said = json!({ "type": "Buffer", "data": secret.as_bytes(), "rest": [1, 2, 3] });
        let wanted = json!({ "type": "Buffer", "data": REDACTED, "rest": [1, 2, 3] });
        assert_eq!(redactor.redact_json(said.to_string()), wanted.to_string());
        let mut value = said;
        assert!(redactor.redact_value(&mut value));
        assert_eq!(value, wanted);
    }
}

#[test]
fn forms_of_other_programs_are_removed() {
    let redactor = redactor();
    for secret in SECRETS {
        for (about, form) in FOREIGN {
            for (name, escape) in [("as it is", str::to_owned as fn(&str) -> String)]
                .iter()
                .chain(ESCAPES.iter().step_by(2))
            {
                let text = escape(&form(secret));
                let redacted = redactor.redact(&text);
                assert!(is_gone(&text, &redacted), "{about}, {name}: {redacted}");
            }
            // Also where it comes in pieces.
            let (mut stream, mut shown) = (StreamRedactor::default(), String::new());
            for c in form(secret).chars() {
                shown.push_str(&stream.push(&redactor, &c.to_string()));
            }
            shown.push_str(&stream.finish(&redactor));
            assert!(is_gone(&form(secret), &shown), "{about} in pieces: {shown}");
        }
    }
}

/// What looks like an escape may be part of a secret, or stand right before one.
#[test]
fn escapes_beside_and_inside_of_a_secret_do_not_save_it() {
    let table = [
        ("postgres://u:p%40ssw0rd@db/x", r#"{"url":"postgres:\/\/u:p%40ssw0rd@db\/x"}"#),
        ("postgres://u:p%40ssw0rd@db/x", "postgres://u:p@ssw0rd@db/x"),
        ("postgres://u:p%40ssw0rd@db/x", "the password is p%40ssw0rd"),
        ("deadbeef0123456789", r#"{"a":"%deadbeef\u0030123456789"}"#),
        ("deadbeef0123456789", "%deadbeef%30123456789"),
        ("tvly-0123456789", r"C:\tvly%2D0123456789"),
        ("tvly-0123456789", r"C:\tvly\u002d0123456789"),
        ("12:34:56:78", "at 12:34:56:78"),
        ("ab cd ef 12", "ab cd ef 12"),
    ];
    for (secret, text) in table {
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        assert!(redactor.redact(text).contains(REDACTED), "{secret} in {text}");
        assert!(redactor.redact_json(text.to_owned()).contains(REDACTED), "{secret} in {text}");
    }
}

/// A sign of an escape right before a form takes its first letters, and the rest of it has escapes.
#[test]
fn a_sign_of_an_escape_before_a_form_does_not_save_it() {
    let lines = |text: &str| {
        let digits = STANDARD.encode(text);
        let lines = digits.as_bytes().chunks(5).map(|line| str::from_utf8(line).unwrap());
        lines.collect::<Vec<_>>().join("%0A")
    };
    for secret in ["sk-CANARY/0123456789+abc==", "x1y2z3w4v5u6", "p%40ssword9!"] {
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        let text = format!("100%{}", lines(secret));
        assert!(redactor.redact(&text).contains(REDACTED), "{secret}: {text}");
    }
    let keys = "\u{1f511}".repeat(4);
    let redactor = Redactor::new(&[Hidden::new(&keys)]);
    let hex = bytes_in(&keys, |byte| format!("{byte:02x}"), "");
    let text = format!("C:\\{}", json_full(&hex).replace('\\', r"\\"));
    assert!(redactor.redact(&text).contains(REDACTED), "{text}");
    // `\u` takes four digits of hex.
    for secret in ["0##0&a_%1uZ%+-a", "X8%+$=$_-0.#0%0/0@u$.:1", "beefcafe-0123456789"] {
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        let hex = bytes_in(secret, |byte| format!("{byte:02X}"), "");
        for form in [hex.as_str(), secret] {
            let (begin, rest) = form.split_at(4);
            let text = format!("x \\u{begin}{} y", json_mixed(rest));
            assert!(redactor.redact(&text).contains(REDACTED), "{secret}: {text}");
        }
    }
}

#[test]
fn the_letters_of_any_alphabet_are_known_in_both_cases_and_backwards() {
    let secret = "ðäßπж-9931";
    let redactor = Redactor::new(&[Hidden::new(secret)]);
    let reversed: String = secret.chars().rev().collect();
    let backwards = bytes_in(&reversed, |byte| format!("{byte:02x}"), "");
    for text in [secret.to_uppercase(), secret.to_lowercase(), backwards] {
        assert_eq!(redactor.redact(&text), REDACTED, "{text}");
    }
}

#[test]
fn a_file_in_base64_hides_no_secret_of_its_json() {
    for secret in SECRETS {
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        let file = json!({ "key": secret }).to_string();
        let ascii: String = (file.chars())
            .map(|c| if c.is_ascii() { c.to_string() } else { json_full(&c.to_string()) })
            .collect();
        for file in [file.clone(), file.replace('/', "\\/"), ascii] {
            let text = STANDARD.encode(&file);
            assert!(redactor.redact(&text).contains(REDACTED), "{file}");
        }
    }
}

#[test]
fn a_secret_that_breaks_off_or_is_broken_into_lines_is_removed() {
    let redactor = redactor();
    let (cut, _) = SECRETS[0].split_at(SECRETS[0].len() - 2);
    assert_eq!(redactor.redact_cut(&format!("the key is {cut}")), "the key is ***");
    for text in ["the key is sk-", "nothing", ""] {
        assert_eq!(redactor.redact_cut(text), text);
    }
    for (at, _) in json_full(SECRETS[2]).char_indices().skip(1) {
        let form = json_full(SECRETS[2]);
        let broken = format!("{}\n{}", &form[..at], &form[at..]);
        assert!(redactor.redact(&broken).contains(REDACTED), "{broken}");
    }
}

/// A login that renews its token for days does not push out the key of a model.
#[test]
fn renewed_tokens_push_out_no_other_secret() {
    let redactor = redactor();
    let token = |at: usize| Hidden::new(format!("token-{at:08}-CANARY"));
    std::thread::scope(|scope| {
        for half in 0..2 {
            let redactor = &redactor;
            scope.spawn(move || {
                (0..150).for_each(|at| redactor.add_renewed(&[token(half * 1_000 + at)]));
            });
        }
    });
    for at in [149, 1_149] {
        assert_eq!(redactor.redact(token(at).reveal()), REDACTED);
    }
    assert_eq!(redactor.redact(SECRETS[0]), REDACTED);
}

/// What may be redacted by chance, and what readers could understand differently, is left as it is.
#[test]
fn json_that_is_not_clear_is_not_written_anew() {
    let redactor = redactor();
    for json in [r#"{"a":1,"a":"KEY"}"#, r#"{"n":9007199254740993.0,"a":"KEY"}"#] {
        let json = json.replace("KEY", SECRETS[2]);
        let wanted = json.replace(SECRETS[2], REDACTED);
        assert_eq!(redactor.redact_json(json), wanted);
    }
}

#[test]
fn what_is_not_a_secret_stays() {
    let redactor = redactor();
    let long = format!("{} 100% of \\n it", "\\u0041 %41 ".repeat(500));
    for text in ["", "ordinary words", "sk-CANARY", "50%", "\\", "\\u00", "%4", "ä😀", &long] {
        assert_eq!(redactor.redact(text), text);
    }
    let odd = [
        Hidden::new("lm-studio"),
        Hidden::new("not-needed"),
        Hidden::new("x"),
        Hidden::new(""),
        Hidden::open("written-in-the-open"),
        Hidden::new("postgres"),
    ];
    let text = "lm-studio, not-needed, postgres, x and written-in-the-open";
    assert_eq!(Redactor::new(&odd).redact(text), text);
    assert_eq!(Redactor::default().redact(text), text);
}

#[test]
fn json_stays_json() {
    let redactor = redactor();
    redactor.add(&[Hidden::new("1234567890")]);
    for secret in SECRETS {
        for (about, text) in written(secret) {
            let said =
                json!({ "a": [text.clone(), 1], text: { "b": 1234567890_u64 }, "kept": "ä\n" });
            let redacted: Value =
                serde_json::from_str(&redactor.redact_json(said.to_string())).unwrap();
            assert_eq!(
                (&redacted["kept"], &redacted["a"][1]),
                (&json!("ä\n"), &json!(1)),
                "{about}"
            );
            let text = redacted.to_string();
            assert!(
                text.matches(REDACTED).count() >= 3 && !text.contains("123456"),
                "{about}: {text}"
            );
            let mut value = said;
            assert!(redactor.redact_value(&mut value), "{about}");
            assert_eq!(value, redacted, "{about}");
        }
    }
    let same = r#"{"n":1.0, "m":1E2,"text":"a\u0041"}"#;
    assert_eq!(
        redactor.redact_json(same.to_owned()),
        same,
        "what has no secret is not written anew"
    );
    // Text that is no JSON is redacted all the same.
    assert_eq!(redactor.redact_json(format!("{{\"a\": {}", SECRETS[0])), "{\"a\": ***");
}

#[test]
fn a_secret_that_comes_in_pieces_is_removed() {
    let redactor = redactor();
    for secret in SECRETS {
        let short = |(_, text): &(String, String)| text.len() < 2_000;
        for (about, text) in written(secret).into_iter().filter(short).step_by(5) {
            let said = format!("Your key is {text}, ä 100% sure? sk-CAN \\u0041");
            let whole = redactor.redact(&said).into_owned();
            let chars: Vec<char> = said.chars().collect();
            for size in [1, 5, 64] {
                let mut stream = StreamRedactor::default();
                let mut shown = String::new();
                for piece in chars.chunks(size) {
                    let piece: String = piece.iter().collect();
                    shown.push_str(&stream.push(&redactor, &piece));
                }
                shown.push_str(&stream.finish(&redactor));
                assert_eq!(shown, whole, "{about} by {size}: {said}");
            }
        }
    }
}

#[test]
fn text_that_is_shown_does_not_wait_without_a_reason() {
    let (redactor, mut stream) = (redactor(), StreamRedactor::default());
    for piece in ["Once upon a time, ", "100% true, ", "there was a \\ in the sky."] {
        assert_eq!(stream.push(&redactor, piece), piece);
    }
    assert_eq!(stream.push(&redactor, "sk-"), "", "this may be the beginning of a secret");
    assert_eq!(stream.push(&redactor, "ating"), "sk-ating");
}

#[test]
fn errors_have_no_part_of_a_secret_and_no_short_one() {
    let redactor = redactor();
    redactor.add(&[Hidden::new("hush"), Hidden::new("Bearer t0ken-abcdef-99")]);
    let table = [
        (
            "Incorrect API key provided: sk-CANARY/0***789.",
            "Incorrect API key provided: ******789.",
        ),
        ("hush, or else; hushed", "***, or else; hushed"),
        ("the token t0ken-abcdef-99 is wrong", "the token *** is wrong"),
        ("nothing here", "nothing here"),
    ];
    for (said, wanted) in table {
        assert_eq!(redactor.redact_error(said), wanted);
    }
    assert!(!format!("{redactor:?}").contains("CANARY"));
}

#[test]
fn secrets_within_each_other_and_deep_escapes_uncover_nothing() {
    let secrets = ["Customers", "postgres://u:Hunter2pw@db/Customers-Tail99", "Tail99-more"];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let hidden = order.map(|at| Hidden::new(secrets[at]));
        let said = "url: postgres://u:Hunter2pw@db/Customers-Tail99-more; db: Customers.";
        let redactor = Redactor::new(&hidden);
        assert_eq!(redactor.redact(said), "url: ***; db: ***.");
        let mut stream = StreamRedactor::default();
        let shown: String = said.chars().map(|c| stream.push(&redactor, &c.to_string())).collect();
        let shown = shown + &stream.finish(&redactor);
        assert!(
            !shown.contains("db/") && !shown.contains("Tail") && shown.contains(REDACTED),
            "{shown}"
        );
    }
    // A long key in a long form comes piece by piece: nothing of it is shown.
    let long = "-----BEGIN KEY-----\n".to_owned() + &"MIIEvQIBADANBgkqhkiG9w0B".repeat(100);
    let redactor = Redactor::new(&[Hidden::new(&long)]);
    for form in [long.clone(), json_full(&long), json_full(&long).replace('\\', "\\\\")] {
        let mut stream = StreamRedactor::default();
        let chars: Vec<char> = format!("key {form} end").chars().collect();
        let mut shown = String::new();
        for piece in chars.chunks(900) {
            shown.push_str(&stream.push(&redactor, &piece.iter().collect::<String>()));
        }
        shown.push_str(&stream.finish(&redactor));
        assert!(shown.len() < 60 && shown.contains(REDACTED), "{shown:.100}");
    }
    // Deeper than anything is looked into: all of it goes.
    let deep = (0..20).fold(json_full("s3cr3t-CANARY_v2"), |text, _| {
        text.replace('%', "%25").replace('\\', "%5c")
    });
    assert_eq!(self::redactor().redact(&deep), REDACTED);
}

/// What is secret in a secret is removed where it is said alone.
#[test]
fn parts_of_a_secret_that_are_secret_are_removed() {
    const TOKEN: &str = "ghp_AbCdEf0123456789ZyXw";
    let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----";
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
    let json = serde_json::json!({ "type": "service_account", "private_key": TOKEN }).to_string();
    let nested = serde_json::json!({ "a": [{ "value": TOKEN }], "private_key": pem }).to_string();
    // `alice:` and the token, in base64.
    let basic = "Basic YWxpY2U6Z2hwX0FiQ2RFZjAxMjM0NTY3ODlaeVh3";
    let table: &[(&str, &str)] = &[
        ("https://ghp_AbCdEf0123456789ZyXw@github.com/org/repo", TOKEN),
        ("https://x:ghp_AbCdEf0123456789ZyXw@github.com/org/repo", TOKEN),
        ("https://ghp_AbCdEf0123456789ZyXw:x-oauth-basic@github.com/o/r", TOKEN),
        ("postgres://user:hunter2@S3cret@db/x", "hunter2@S3cret"),
        ("postgres://user:hun/ter2S3cret@db/x", "hun/ter2S3cret"),
        ("postgres://user:hun:ter2S3cret@db/x", "hun:ter2S3cret"),
        ("postgres://user:p%40ssw0rd-9@db/x", "p@ssw0rd-9"),
        ("https://api.host/v1?q=1&api_key=ghp_AbCdEf0123456789ZyXw#top", TOKEN),
        ("Server=db;User=sa;Password=ghp_AbCdEf0123456789ZyXw;", TOKEN),
        ("host=db user=sa password='ghp_AbCdEf0123456789ZyXw'", TOKEN),
        (&json, TOKEN),
        (&nested, TOKEN),
        (&nested, line),
        (pem, line),
        (&pem.replace('\n', "\\n"), line),
        (pem, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"),
        ("Bearer ghp_AbCdEf0123456789ZyXw", TOKEN),
        ("Bearer\tghp_AbCdEf0123456789ZyXw", TOKEN),
        ("Token token=ghp_AbCdEf0123456789ZyXw", TOKEN),
        ("Token token=\"ghp_AbCdEf0123456789ZyXw\", nonce=\"1\"", TOKEN),
        (basic, TOKEN),
        ("ghp_AbCdEf0123456789ZyXw,ghp_0123456789AbCdEfZyXw", TOKEN),
        ("\"ghp_AbCdEf0123456789ZyXw\"", TOKEN),
        ("p@ss w0rd! 99", "p@ss+w0rd!+99"),
        ("p@ss w0rd! 99", "p%40ss+w0rd%21+99"),
    ];
    let leaks: Vec<_> = table
        .iter()
        .filter(|(secret, part)| {
            let redactor = Redactor::new(&[Hidden::new(secret)]);
            redactor.redact(&format!("It is {part}.")).contains(part)
        })
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

/// What stands beside it in a secret is ordinary text.
#[test]
fn ordinary_words_in_a_secret_stay() {
    let google = serde_json::json!({
        "type": "service_account",
        "project_id": "my-project-123456",
        "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": "https://oauth2.googleapis.com/token",
        "client_email": "robot@my-project-123456.iam.gserviceaccount.com",
        "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n",
    });
    let google = google.to_string();
    let table: &[(&str, &[&str])] = &[
        (
            "postgres://administrator:hunter2-S3cret@database.internal:5432/production?sslmode=require",
            &["administrator", "database.internal", "production", "sslmode=require", "postgres"],
        ),
        (
            "Server=database-1;User=administrator;Password=S3cret-99x;",
            &["database-1", "administrator"],
        ),
        (
            &google,
            &["service_account", "my-project-123456", "oauth2.googleapis.com/token", "PRIVATE KEY"],
        ),
        (
            "https://api.host/v1?format=application-json&api_key=S3cret-99x",
            &["application-json", "api.host"],
        ),
    ];
    for (secret, words) in table {
        let redactor = Redactor::new(&[Hidden::new(secret)]);
        for word in *words {
            let said = format!("It is {word}.");
            assert_eq!(redactor.redact(&said), said);
        }
    }
}
