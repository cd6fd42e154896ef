//! Decides which parts of a page are read: what a person would see of it, without scripts, menus
//! and what is hidden. It goes through the tags once and keeps no tree, however deep a page is.

use html5gum::emitters::default::{DefaultEmitter, StartTag};
use html5gum::{Token, Tokenizer};

use super::markdown::Writer;

/// What is never read.
const SILENT: &[&str] = &[
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas",
    "audio", "video", "select", "button", "dialog",
];

/// What stands around the content of a page.
const AROUND: &[&str] = &["nav", "header", "footer", "aside", "form"];

/// Elements without an end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];

/// Characters of a title.
const TITLE_CHARS_MAX: usize = 300;

/// Characters that make a part of a page its content.
const CONTENT_CHARS_MIN: usize = 200;

/// How a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// All its text, without tags.
    Text,
    /// Its content, as Markdown.
    Markdown,
}

/// A page that was read.
pub(super) struct Read {
    pub(super) title: Option<String>,
    pub(super) content: String,
    /// Whether that is all of it.
    pub(super) whole: bool,
}

/// Reads a page. `link` makes an address of what a link says, or nothing.
pub(super) fn read(
    html: &str,
    form: Form,
    chars_max: usize,
    link: &dyn Fn(&str) -> Option<String>,
) -> Read {
    let pass = |region: &'static str, form| Pass::new(region, form, chars_max, link).run(html);
    if form == Form::Markdown {
        for region in ["main", "article"] {
            if !has_tag(html, region) {
                continue;
            }
            let read = pass(region, form);
            if read.content.chars().nth(CONTENT_CHARS_MIN).is_some() {
                return read;
            }
        }
    }
    let read = pass("", form);
    // A page that is all menu is shown as it is.
    if read.content.trim().is_empty() && form == Form::Markdown {
        pass("", Form::Text)
    } else {
        read
    }
}

/// Whether an element may be in a page; going through the tags says so for sure.
fn has_tag(html: &str, name: &str) -> bool {
    let named = |rest: &str| rest.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name));
    html.match_indices('<').any(|(at, _)| html.get(at + 1..).is_some_and(named))
}

/// One walk through the tags of a page.
struct Pass<'a> {
    /// The element that is read; the whole page when it has no name.
    region: &'static str,
    inside: usize,
    form: Form,
    /// The element that is not read, and how often it is nested in itself.
    silent: Option<(Vec<u8>, usize)>,
    in_title: bool,
    title: String,
    out: Writer,
    link: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Pass<'a> {
    fn new(
        region: &'static str,
        form: Form,
        chars_max: usize,
        link: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let out = Writer::new(form, chars_max);
        let (silent, title) = (None, String::new());
        Self { region, inside: 0, form, silent, in_title: false, title, out, link }
    }

    fn run(mut self, html: &str) -> Read {
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(html, emitter) {
            if self.out.is_full() {
                break;
            }
            match token {
                Ok(Token::StartTag(tag)) => self.start(&tag),
                Ok(Token::EndTag(tag)) => self.end(&tag.name),
                Ok(Token::String(text)) => self.text(&String::from_utf8_lossy(&text)),
                Ok(Token::Comment(_) | Token::Doctype(_) | Token::Error(_)) | Err(_) => {}
            }
        }
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let title: String = title.chars().take(TITLE_CHARS_MAX).collect();
        let title = Some(title).filter(|title| !title.is_empty());
        let (content, whole) = self.out.finish();
        Read { title, content, whole }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        let content = [&b"main"[..], b"article", b"body"].contains(&name);
        match &mut self.silent {
            // A menu that is never closed ends where the content begins.
            Some((silent, _)) if content && is_one(silent, AROUND) => self.silent = None,
            Some((silent, depth)) => {
                if silent == name {
                    *depth += 1;
                }
                return;
            }
            None => {}
        }
        if name == b"title" {
            self.in_title = self.title.is_empty();
            return;
        }
        let around = self.form == Form::Markdown && is_one(name, AROUND);
        let ends = !is_one(name, VOID) && !tag.self_closing;
        if ends && (is_one(name, SILENT) || around || is_hidden(tag)) {
            self.silent = Some((name.to_vec(), 1));
            return;
        }
        if name == self.region.as_bytes() {
            self.inside += 1;
        }
        if self.reads() {
            let attribute = |name: &[u8]| attribute(tag, name);
            match name {
                b"a" => {
                    let target = attribute(b"href").and_then(|href| (self.link)(href.trim()));
                    self.out.open_link(target);
                }
                b"img" => self.out.words(&attribute(b"alt").unwrap_or_default()),
                name => self.out.open(&String::from_utf8_lossy(name)),
            }
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((silent, depth)) = &mut self.silent {
            if silent == name {
                *depth -= 1;
                if *depth == 0 {
                    self.silent = None;
                }
            } else if name == b"body" && is_one(silent, AROUND) {
                self.silent = None;
            }
            return;
        }
        if name == b"title" {
            self.in_title = false;
            return;
        }
        if self.reads() {
            self.out.close(&String::from_utf8_lossy(name));
        }
        if name == self.region.as_bytes() {
            self.inside = self.inside.saturating_sub(1);
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            let room = TITLE_CHARS_MAX * 4;
            self.title.extend(text.chars().take(room.saturating_sub(self.title.len())));
        } else if self.silent.is_none() && self.reads() {
            self.out.words(text);
        }
    }

    fn reads(&self) -> bool {
        self.region.is_empty() || self.inside > 0
    }
}

fn is_one(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| other.as_bytes() == name)
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = tag.attributes.get(name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Whether a page says that nobody sees this.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let style = attribute(tag, b"style").unwrap_or_default().to_ascii_lowercase();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    let styled = ["display:none", "visibility:hidden", "opacity:0;", "font-size:0"];
    tag.attributes.contains_key(&b"hidden"[..])
        || attribute(tag, b"aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || styled.iter().any(|hidden| style.contains(hidden))
}
