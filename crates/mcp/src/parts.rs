//! Decides what of a server's answer is taken: its parts as they came, checked and bounded. Nothing
//! in them is followed.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::event::Attached;
use toolgate_kernel::json::parse_strict;
use toolgate_kernel::limits::Limits;
use toolgate_runtime::port::{Fault, Output, Part, Parts};

use crate::client::{Answered, shown};

/// Of what a result may have, the part that the text of an error may have.
const SHOWN_SHARE: u64 = 4;

/// Bytes of an answer's words that are left for what stands around them.
const AROUND_BYTES: u64 = 1_024;

/// Characters of a type that a server names.
const KIND_CHARS_MAX: usize = 100;

/// A result of a tool, as it came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Came<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
}

/// One part of it. What else it says is passed on unread.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    mime_type: Option<String>,
    data: Option<String>,
    uri: Option<String>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// What is being made of an answer.
struct Taking {
    /// Bytes of words that there is room for, as JSON writes them.
    room: usize,
    words: Vec<String>,
    parts: Vec<Part>,
    warnings: Vec<String>,
}

/// What a server's answer says: data where it has any, else its words; and all its parts.
pub(crate) fn output(
    answered: &Answered,
    declared: bool,
    limits: &Limits,
) -> Result<Output, Fault> {
    let came: Came<'_> = object(&answered.text)
        .ok_or_else(|| Fault::lost("The server's answer is no result of a tool."))?;
    let room = limits.result_bytes_max.saturating_sub(AROUND_BYTES);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let (words, parts, warnings) = (Vec::new(), Vec::new(), Vec::new());
    let mut taking = Taking { room, words, parts, warnings };
    let blocks = came.content.unwrap_or_default();
    let max = usize::try_from(limits.result_parts_max).unwrap_or(usize::MAX);
    let last = blocks.len().saturating_sub(1);
    for (at, raw) in blocks.iter().take(max).enumerate() {
        taking.block(&on_one_line(raw.get()), answered.cut_at.is_some() && at == last);
    }
    if blocks.len() > max {
        let more = blocks.len() - max;
        taking.warn(format!("{more} further parts of the answer were left out: {max} are taken."));
    }
    if let Some(bytes) = answered.cut_at {
        taking.say(format!("[cut off here: the answer has more than {bytes} bytes]"));
    }
    let words = taking.words.join("\n");
    match answered.is_error {
        Some(true) => {
            let said = if words.trim().is_empty() { "The tool failed." } else { &words };
            // The text stands twice in an envelope, as its message and among its errors.
            return Err(Fault::failed(bounded_text(said, limits.result_bytes_max / SHOWN_SHARE)));
        }
        None => return Err(unknown(&words, answered.cut_at.unwrap_or(0), limits)),
        Some(false) => {}
    }
    let data = came.structured_content.map(RawValue::get).filter(|data| *data != "null");
    // Data that nobody declared may stand back for the words, where it is too long for both.
    let data = match data {
        Some(data) if !declared && data.len() > room => {
            let bytes = data.len();
            taking.warn(format!("The data of the answer was left out: it has {bytes} bytes."));
            None
        }
        data => data,
    };
    let data: Option<Value> = data.map(|data| read(data, limits)).transpose()?;
    let structured = data.is_some();
    Ok(Output {
        message: String::new(),
        data: data.unwrap_or_else(|| json!({ "result": words })),
        message_only: false,
        warnings: taking.warnings,
        parts: Some(Arc::new(Parts { list: taking.parts, structured })),
    })
}

/// An answer that was cut off before it said whether the tool failed. It is never a success.
fn unknown(words: &str, bytes: usize, limits: &Limits) -> Fault {
    let max = usize::try_from(limits.result_bytes_max / SHOWN_SHARE).unwrap_or(usize::MAX);
    let begin = words.get(..words.floor_char_boundary(max)).unwrap_or_default();
    let message = format!(
        "The answer has more than {bytes} bytes and was cut off, so it is not known whether the \
         tool succeeded. Ask for a smaller part. It begins with: {begin}"
    );
    let trouble = Trouble::new(Code::TOOL_OUTPUT_TOO_LARGE, message);
    Fault { lost: true, ..Fault::of(trouble) }
}

/// JSON without line breaks: over pipes a message is a line, and what is passed on as it came must not
/// begin another one. Inside of texts they are escaped, so these stand between the parts.
fn on_one_line(json: &str) -> Cow<'_, str> {
    match json.contains(['\n', '\r']) {
        true => json.replace(['\n', '\r'], " ").into(),
        false => json.into(),
    }
}

/// The data of an answer. What cannot be taken is told, and never left out silently: the call ran.
fn read(data: &str, limits: &Limits) -> Result<Value, Fault> {
    let max = limits.result_depth_max;
    if u64::try_from(levels(data)).unwrap_or(u64::MAX) > max {
        let message = format!(
            "The tool ran, and its answer cannot be shown: its data is nested deeper than {max} \
             levels. Ask for a smaller part."
        );
        return Err(Fault::of(Trouble::new(Code::TOOL_OUTPUT_TOO_LARGE, message)));
    }
    let strict = Limits { args_items_max: u64::MAX, args_depth_max: max, ..Limits::default() };
    // Of a name that is there twice, readers take either; it is not chosen here.
    let clear = parse_strict(data, &strict).map(drop);
    let twice = clear.is_err_and(|refusal| refusal.to_string().contains("twice"));
    let read = serde_json::from_str(data).ok().filter(|_| !twice);
    read.ok_or_else(|| {
        let message = "The tool ran, and its answer cannot be shown: its data is no JSON that can be \
                       read, such as a number out of range or a name that is there twice.";
        Fault::of(Trouble::new(Code::TOOL_OUTPUT_INVALID, message))
    })
}

/// Levels of nesting of a JSON text: lists and objects in each other.
fn levels(text: &str) -> usize {
    let (mut open, mut most, mut quoted, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                open += 1;
                most = most.max(open);
            }
            b']' | b'}' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Reads an object. A list would be read as its fields, one after the other.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok())?
}

/// Whether a client can make something of a media type, such as `image/png`.
fn is_media_type(text: Option<&str>) -> bool {
    let Some((kind, rest)) = text.and_then(|text| text.split_once('/')) else { return false };
    let legal = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c);
    let own = rest.split(';').next().unwrap_or_default().trim_end();
    !kind.is_empty()
        && !own.is_empty()
        && kind.chars().chain(own.chars()).all(legal)
        && !rest.chars().any(char::is_control)
}

impl Taking {
    /// Takes one part. Of an answer that was cut off, the last one is whole only in its words.
    fn block(&mut self, raw: &str, cut: bool) {
        let Some(block) = object::<Block>(raw) else {
            return self.warn("A part of the answer was left out: it is no content.".to_owned());
        };
        let kind = shown(&block.kind, KIND_CHARS_MAX);
        let left_out = |why: &str| format!("A part of the answer ({kind}) was left out: {why}.");
        match (block.kind.as_str(), block.text, block.data, block.uri, block.resource) {
            ("text", Some(text), ..) => self.text(raw, text),
            (_, _, _, _, resource)
                if cut && resource.as_ref().is_none_or(|it| it.text.is_none()) =>
            {
                self.warn(left_out("it was cut off"));
            }
            ("image" | "audio", ..) if !is_media_type(block.mime_type.as_deref()) => {
                self.warn(left_out("it does not say of which type it is"));
            }
            ("image" | "audio", _, Some(data), ..) => match STANDARD.decode(&data) {
                Ok(bytes) => self.bytes(raw, &kind, block.mime_type, bytes),
                Err(_) => self.warn(left_out("its data is no base64")),
            },
            ("resource_link", _, _, Some(uri), _) => {
                self.words.push(format!("[link: {}]", shown(&uri, 2_000)));
                self.part(raw, &kind, block.mime_type, raw.as_bytes());
            }
            ("resource", _, _, _, Some(resource)) => match (resource.text, resource.blob) {
                (Some(text), _) => self.resource(raw, resource.mime_type, text),
                (None, Some(blob)) => match STANDARD.decode(&blob) {
                    Ok(bytes) => self.bytes(raw, &kind, resource.mime_type, bytes),
                    Err(_) => self.warn(left_out("its data is no base64")),
                },
                (None, None) => self.warn(left_out("it has no content")),
            },
            ("image" | "audio" | "text" | "resource" | "resource_link", ..) => {
                self.warn(left_out("it has no content"));
            }
            _ => self.warn(left_out("nobody here knows such a part")),
        }
    }

    fn text(&mut self, raw: &str, text: String) {
        let bytes = text.len();
        match self.fitting(&text) {
            None => {
                self.words.push(text);
                self.parts.push(Part { json: raw.to_owned(), attached: None, picture: None });
            }
            Some(begin) => {
                self.say(format!("{begin}\n[cut off here: the text has {bytes} bytes]"));
            }
        }
    }

    /// A file that is text: its words count like all others.
    fn resource(&mut self, raw: &str, media_type: Option<String>, text: String) {
        match self.fitting(&text) {
            None => {
                self.part(raw, "resource", media_type, text.as_bytes());
                self.words.push(text);
            }
            Some(begin) => {
                let bytes = text.len();
                self.say(format!("{begin}\n[cut off here: the file has {bytes} bytes]"));
            }
        }
    }

    fn bytes(&mut self, raw: &str, kind: &str, media_type: Option<String>, bytes: Vec<u8>) {
        let named = media_type.as_deref().map(|it| shown(it, KIND_CHARS_MAX)).unwrap_or_default();
        self.words.push(format!("[{kind}: {named}, {} bytes]", bytes.len()));
        self.part(raw, kind, media_type, &bytes);
        if let Some(last) = self.parts.last_mut().filter(|_| kind == "image") {
            last.picture = Some(bytes);
        }
    }

    fn part(&mut self, raw: &str, kind: &str, media_type: Option<String>, bytes: &[u8]) {
        let attached = Attached {
            kind: kind.to_owned(),
            media_type: media_type.map(|it| shown(&it, KIND_CHARS_MAX)),
            hash: Digest::of(bytes),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            shown: false,
        };
        let json = raw.to_owned();
        self.parts.push(Part { json, attached: Some(attached), picture: None });
    }

    /// Says something in a part of its own.
    fn say(&mut self, text: String) {
        let json = json!({ "type": "text", "text": text }).to_string();
        self.parts.push(Part { json, attached: None, picture: None });
        self.words.push(text);
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The beginning of a text for which there is no room; nothing when it fits.
    fn fitting<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let written = |c: char| match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        for (at, c) in text.char_indices() {
            match self.room.checked_sub(written(c)) {
                Some(room) => self.room = room,
                None => {
                    self.room = 0;
                    return text.get(..at);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, limits: &Limits) -> Output {
        let answered = Answered { text: text.to_owned(), is_error: Some(false), cut_at: None };
        output(&answered, false, limits).unwrap()
    }

    fn parts(output: &Output) -> Vec<Value> {
        let parts = output.parts.as_ref().unwrap();
        parts.list.iter().map(|part| serde_json::from_str(&part.json).unwrap()).collect()
    }

    /// Whoever breaks lines between the parts of an answer begins no message of their own.
    #[test]
    fn a_part_is_passed_on_in_one_line() {
        let text = "{\"content\":[{\"type\":\"text\",\r\n\"text\":\"a\\nb\",\"x\":[\n{\"jsonrpc\":\"2.0\"}\n]}]}";
        let output = taken(text, &Limits::default());
        let [part] = output.parts.as_ref().unwrap().list.as_slice() else { panic!("{output:?}") };
        assert!(!part.json.contains(['\n', '\r']), "{}", part.json);
        let came: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parts(&output), [came["content"][0].clone()]);
    }

    #[test]
    fn parts_are_passed_on_as_they_came_and_told_in_words() {
        let text = r#"{"content":[
            {"type":"text","text":"a","annotations":{"priority":1}},
            {"type":"image","mimeType":"image/png","data":"Zm9v","_meta":{"k":1}},
            {"type":"audio","mimeType":"audio/wav","data":"Zm9vYg=="},
            {"type":"resource_link","uri":"file:///etc/passwd","name":"x"},
            {"type":"resource","resource":{"uri":"x://y","text":"inside"}},
            {"type":"resource","resource":{"uri":"x://y","blob":"Zm9v","mimeType":"a/b"}}
        ]}"#;
        let output = taken(text, &Limits::default());
        let came: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::Array(parts(&output)), came["content"]);
        let words = "a\n[image: image/png, 3 bytes]\n[audio: audio/wav, 4 bytes]\n\
                     [link: file:///etc/passwd]\ninside\n[resource: a/b, 3 bytes]";
        assert_eq!(output.data, json!({ "result": words }));
        let list = &output.parts.as_ref().unwrap().list;
        let logged: Vec<_> = list.iter().filter_map(|part| part.attached.as_ref()).collect();
        assert_eq!(logged.len(), 5);
        assert_eq!((logged[0].hash, logged[0].bytes), (Digest::of(b"foo"), 3));
        assert!(list[1].picture.is_some() && list[2].picture.is_none());
        assert!(output.warnings.is_empty() && !output.parts.unwrap().structured);
    }

    #[test]
    fn what_is_broken_or_unknown_is_left_out_with_a_word() {
        let output = taken(
            r#"{"content":[
                {"type":"image","mimeType":"image/png","data":"Zm9"},
                {"type":"image","mimeType":"image/png","data":"<svg>"},
                {"type":"image","mimeType":"image/png"},
                {"type":"audio","data":"Zm9v"},
                {"type":"audio","data":"Zm9v","mimeType":"text/html\r\nX: y"},
                {"type":"hologram","data":"Zm9v"},
                {"type":"text","text":7},
                "text",
                ["text","smuggled"],
                {"type":"text","text":"kept"}
            ],"structuredContent":{"n":1}}"#,
            &Limits::default(),
        );
        assert_eq!(parts(&output), [json!({"type":"text","text":"kept"})]);
        assert_eq!(
            output.warnings,
            [
                "A part of the answer (image) was left out: its data is no base64.",
                "A part of the answer (image) was left out: it has no content.",
                "A part of the answer (audio) was left out: it does not say of which type it is.",
                "A part of the answer (hologram) was left out: nobody here knows such a part.",
                "A part of the answer was left out: it is no content.",
            ]
        );
        assert_eq!(output.data, json!({"n":1}));
        assert!(output.parts.unwrap().structured);
    }

    /// MWR-013: what is over the limit is cut off with a marker.
    #[test]
    fn words_over_the_limit_are_cut_off_with_a_marker() {
        let limits = Limits { result_bytes_max: 1_044, ..Limits::default() };
        for (said, begin) in [("é".repeat(30), "é".repeat(10)), ("\n".repeat(30), "\n".repeat(10))]
        {
            let text = json!({"content":[{"type":"text","text":said},{"type":"text","text":"b"}]});
            let output = taken(&text.to_string(), &limits);
            let bytes = said.len();
            let cut = format!(
                "{begin}\n[cut off here: the text has {bytes} bytes]\n\n[cut off here: the text has 1 bytes]"
            );
            assert_eq!(output.data, json!({ "result": cut }));
            assert!(output.data.to_string().len() < 1_044);
        }
        let limits = Limits { result_parts_max: 2, ..limits };
        let text = json!({"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}]});
        let output = taken(&text.to_string(), &limits);
        assert_eq!((parts(&output).len(), output.warnings.len()), (2, 1));
    }

    #[test]
    fn an_answer_cut_off_before_it_said_so_is_no_success() {
        let text = r#"{"content":[{"type":"text","text":"payment declined"}]}"#.to_owned();
        let answered = Answered { text, is_error: None, cut_at: Some(60) };
        for declared in [false, true] {
            let fault = output(&answered, declared, &Limits::default()).unwrap_err();
            assert!(fault.lost && fault.errors[0].message.contains("payment declined"));
            assert_eq!(fault.errors[0].code, Code::TOOL_OUTPUT_TOO_LARGE);
        }
    }

    #[test]
    fn an_error_is_told_in_its_words_and_what_is_no_result_is_lost() {
        let said = |text: &str| {
            let answered = Answered { text: text.to_owned(), is_error: Some(true), cut_at: None };
            output(&answered, false, &Limits::default()).unwrap_err()
        };
        let failed = said(r#"{"content":[{"type":"text","text":"no such city"}]}"#);
        assert_eq!((failed.errors[0].message.as_str(), failed.lost), ("no such city", false));
        assert!(said("[]").lost);
    }

    #[test]
    fn data_that_is_too_long_stands_back_for_words_unless_it_was_declared() {
        let limits = Limits { result_bytes_max: 1_044, ..Limits::default() };
        let text = json!({"content":[{"type":"text","text":"a"}],"structuredContent":{"n":"x".repeat(50)}});
        let answered = Answered { text: text.to_string(), is_error: Some(false), cut_at: None };
        let undeclared = output(&answered, false, &limits).unwrap();
        assert_eq!((undeclared.data, undeclared.warnings.len()), (json!({"result":"a"}), 1));
        assert_eq!(output(&answered, true, &limits).unwrap().data["n"], "x".repeat(50));
    }
}
