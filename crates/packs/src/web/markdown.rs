//! Decides how what is read of a page is written: as Markdown, or as plain lines, and never more
//! than there is room for.

use super::html::Form;

/// How deep a list is indented.
const INDENT_MAX: usize = 8;

/// Characters of an address in a link.
const LINK_CHARS_MAX: usize = 500;

/// A text that grows until it is full.
pub(super) struct Writer {
    form: Form,
    out: String,
    chars: usize,
    chars_max: usize,
    /// Line breaks that are due before the next word.
    breaks: usize,
    /// Whether a space is due before the next word.
    space: bool,
    /// Lists that are open; the number of the last item of one that counts.
    lists: Vec<Option<usize>>,
    /// What the next line begins with.
    lead: String,
    quotes: usize,
    /// Whether the last line stands in a quotation.
    quoted: bool,
    /// The link that is open: where its words begin, and where it leads.
    link: Option<(usize, Option<String>)>,
    /// A text whose spaces count, as it was read so far.
    pre: Option<String>,
    /// Cells of the row that is open, and whether it is the first of its table.
    cells: usize,
    first_row: bool,
}

impl Writer {
    pub(super) fn new(form: Form, chars_max: usize) -> Self {
        Self {
            form,
            out: String::new(),
            chars: 0,
            chars_max,
            breaks: 0,
            space: false,
            lists: Vec::new(),
            lead: String::new(),
            quotes: 0,
            quoted: false,
            link: None,
            pre: None,
            cells: 0,
            first_row: false,
        }
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.chars >= self.chars_max
    }

    /// The text, and whether that is all of it.
    pub(super) fn finish(mut self) -> (String, bool) {
        self.end_pre();
        self.end_link();
        // The address of a last link may be one too much.
        let end = self.out.char_indices().nth(self.chars_max).map(|(at, _)| at);
        self.out.truncate(end.unwrap_or(self.out.len()));
        self.out.truncate(self.out.trim_end().len());
        (self.out, end.is_none() && self.chars < self.chars_max)
    }

    pub(super) fn open(&mut self, name: &str) {
        let marked = self.form == Form::Markdown;
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.block();
                if marked {
                    let level = name.get(1..).and_then(|n| n.parse().ok()).unwrap_or(1);
                    self.lead = format!("{} ", "#".repeat(level));
                }
            }
            "ul" => self.list(None),
            "ol" => self.list(Some(0)),
            "li" => self.item(),
            "pre" => {
                self.block();
                self.pre = Some(String::new());
            }
            "br" => match &mut self.pre {
                Some(pre) => pre.push('\n'),
                None => self.breaks = self.breaks.max(1),
            },
            "hr" => {
                self.block();
                if marked {
                    self.put("---");
                }
                self.block();
            }
            "blockquote" => {
                self.block();
                self.quotes += 1;
            }
            "table" => {
                self.block();
                self.first_row = true;
            }
            "tr" => {
                self.breaks = self.breaks.max(1);
                self.cells = 0;
            }
            "td" | "th" => {
                if self.cells > 0 {
                    self.mark(" | ");
                }
                self.cells += 1;
            }
            "code" if marked && self.pre.is_none() => self.tight("`"),
            "strong" | "b" if marked && self.pre.is_none() => self.tight("**"),
            "em" | "i" if marked && self.pre.is_none() => self.tight("*"),
            _ if is_block(name) => self.block(),
            _ => {}
        }
    }

    pub(super) fn close(&mut self, name: &str) {
        let marked = self.form == Form::Markdown && self.pre.is_none();
        match name {
            "a" => self.end_link(),
            "pre" => self.end_pre(),
            "ul" | "ol" => {
                self.lists.pop();
                self.lead.clear();
                self.breaks = self.breaks.max(if self.lists.is_empty() { 2 } else { 1 });
            }
            "li" => self.breaks = self.breaks.max(1),
            "blockquote" => {
                self.block();
                self.quotes = self.quotes.saturating_sub(1);
            }
            "tr" if self.form == Form::Markdown && self.first_row && self.cells > 0 => {
                self.first_row = false;
                self.breaks = 1;
                let cells = self.cells;
                self.put(&vec!["---"; cells].join(" | "));
                self.breaks = 1;
            }
            "code" if marked => self.ends("`"),
            "strong" | "b" if marked => self.ends("**"),
            "em" | "i" if marked => self.ends("*"),
            _ if is_block(name) || is_heading(name) => self.block(),
            _ => {}
        }
    }

    pub(super) fn open_link(&mut self, target: Option<String>) {
        self.end_link();
        if self.form == Form::Markdown && self.pre.is_none() {
            let target = target.filter(|target| target.chars().nth(LINK_CHARS_MAX).is_none());
            self.due();
            self.link = Some((self.out.len(), target));
        }
    }

    /// Words of the page.
    pub(super) fn words(&mut self, text: &str) {
        if let Some(pre) = &mut self.pre {
            let room = self.chars_max.saturating_sub(self.chars + pre.chars().count());
            pre.extend(text.chars().take(room));
            if room == 0 {
                self.end_pre();
            }
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.space = true;
        }
        for word in text.split_whitespace() {
            self.put(word);
            self.space = true;
            if self.is_full() {
                return;
            }
        }
        self.space = text.ends_with(char::is_whitespace);
    }

    fn block(&mut self) {
        self.breaks = self.breaks.max(2);
    }

    fn list(&mut self, number: Option<usize>) {
        self.breaks = self.breaks.max(if self.lists.is_empty() { 2 } else { 1 });
        self.lists.push(number);
    }

    fn item(&mut self) {
        self.breaks = self.breaks.max(1);
        let depth = self.lists.len().saturating_sub(1).min(INDENT_MAX);
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{number}. ")
            }
            Some(None) | None => "- ".to_owned(),
        };
        self.lead = format!("{}{sign}", "  ".repeat(depth));
    }

    fn end_link(&mut self) {
        let Some((start, target)) = self.link.take() else { return };
        let words = self.out.get(start..).unwrap_or_default();
        let Some(target) = target.filter(|_| !words.trim().is_empty() && !words.contains('\n'))
        else {
            return;
        };
        let words = words.replace(']', "\\]");
        self.out.truncate(start);
        self.out.push_str(&format!("[{words}]({target})"));
        self.chars += target.chars().count() + 4;
    }

    fn end_pre(&mut self) {
        let Some(text) = self.pre.take() else { return };
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        self.due();
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest + 1).max(3));
        let text = match self.form {
            Form::Markdown => format!("{fence}\n{text}\n{fence}"),
            Form::Text => text.to_owned(),
        };
        self.push(&text);
        self.block();
    }

    /// A sign that words follow at once.
    fn tight(&mut self, sign: &str) {
        self.put(sign);
        self.space = false;
    }

    /// A sign that follows words at once.
    fn ends(&mut self, sign: &str) {
        let space = std::mem::take(&mut self.space);
        if self.breaks == 0 {
            // Two signs with nothing between them say nothing.
            if let Some(rest) = self.out.strip_suffix(sign) {
                self.out.truncate(rest.len());
            } else {
                self.push(sign);
            }
        }
        self.space = space;
    }

    fn mark(&mut self, sign: &str) {
        self.space = false;
        self.push(sign);
    }

    /// A word, after what is due before it.
    fn put(&mut self, word: &str) {
        self.due();
        self.push(word);
    }

    fn due(&mut self) {
        let begun = !self.out.is_empty();
        if self.breaks > 0 || !begun {
            if begun {
                let inside = self.quotes > 0 && self.quoted && self.form == Form::Markdown;
                for at in 0..self.breaks {
                    self.push("\n");
                    if inside && at + 1 < self.breaks {
                        self.push(">");
                    }
                }
            }
            self.quoted = self.quotes > 0;
            if self.quoted && self.form == Form::Markdown {
                self.push("> ");
            }
            let lead = std::mem::take(&mut self.lead);
            self.push(&lead);
        } else if self.space {
            self.push(" ");
        }
        (self.breaks, self.space) = (0, false);
    }

    fn push(&mut self, text: &str) {
        let room = self.chars_max.saturating_sub(self.chars);
        let mut taken = 0;
        self.out.extend(text.chars().take(room).inspect(|_| taken += 1));
        self.chars += taken;
    }
}

fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

fn is_block(name: &str) -> bool {
    const BLOCKS: &[&str] = &[
        "address",
        "article",
        "body",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "main",
        "nav",
        "p",
        "section",
        "summary",
        "table",
    ];
    BLOCKS.contains(&name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::web::html::{Form, Read, read};

    fn link(href: &str) -> Option<String> {
        href.starts_with('/').then(|| format!("https://example.com{href}"))
    }

    fn markdown(html: &str) -> String {
        read(html, Form::Markdown, 40_000, &link).content
    }

    #[test]
    fn a_page_becomes_markdown() {
        let page = "<!doctype html><html><head><title> A  page </title><style>p{}</style></head><body>\
            <nav><a href=/x>Menu</a></nav><script>alert('x')</script>\
            <h1>Storms &amp; lamps</h1><p>One <b>bold</b> <em>word</em>,\n <a href='/k'>a link</a> and \
            <a href='javascript:x'>none</a>.<br>Next line.</p>\
            <ul><li>one<li>two<ol><li>a</li><li>b</li></ol></li></ul>\
            <pre><code>let x = 1;\n  y();</code></pre><blockquote><p>Said.</p></blockquote>\
            <table><tr><th>a<th>b</tr><tr><td>1<td>2</tr></table><p>Use <code>ls -l</code>.\
            <img src=x alt='A lamp'></p><footer>(c)</footer></body></html>";
        let Read { title, content, whole } = read(page, Form::Markdown, 40_000, &link);
        assert_eq!((title.as_deref(), whole), (Some("A page"), true));
        let expected = "# Storms & lamps\n\nOne **bold** *word*, [a link](https://example.com/k) and \
            none.\nNext line.\n\n- one\n- two\n  1. a\n  2. b\n\n```\nlet x = 1;\n  y();\n```\n\n\
            > Said.\n\na | b\n--- | ---\n1 | 2\n\nUse `ls -l`.A lamp";
        assert_eq!(content, expected);
    }

    #[test]
    fn the_content_is_found_where_a_page_says_it_is() {
        let words = "word ".repeat(100);
        let page = format!("<div>Cookies?</div><main><p>{words}</p></main><div>More</div>");
        assert_eq!(markdown(&page), words.trim());
        // A main that says little is not all.
        assert_eq!(markdown("<p>a</p><main>b</main>"), "a\n\nb");
        // A menu that is not closed does not swallow the page.
        assert_eq!(markdown("<nav>x<body><p>a</p>"), "a");
        assert_eq!(markdown("<nav>only a menu</nav>"), "only a menu");
    }

    #[test]
    fn what_nobody_sees_is_not_read() {
        for hidden in [
            "<div style='Display : None'>X</div>",
            "<p hidden>X</p>",
            "<span aria-hidden=true>X</span>",
            "<template>X</template>",
            "<!-- X -->",
            "<noscript>X</noscript>",
        ] {
            assert_eq!(markdown(&format!("<p>a</p>{hidden}<p>b</p>")), "a\n\nb", "{hidden}");
            let text = read(&format!("a{hidden}b"), Form::Text, 100, &link).content;
            assert!(!text.contains('X'), "{text}");
        }
        let entity = "<!DOCTYPE x [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><p>&e;</p>";
        assert!(!markdown(entity).contains("root:"));
    }

    #[test]
    fn every_page_ends_somewhere() {
        let long = format!("<p>{}</p>", "a ".repeat(100_000));
        let Read { content, whole, .. } = read(&long, Form::Text, 40_000, &link);
        assert!((39_990..=40_000).contains(&content.chars().count()) && !whole);
        for deep in ["<div>", "<ul><li>", "<blockquote>", "<b>", "<table><tr><td>", "<a href=/x>"] {
            let page = format!("{}x", deep.repeat(20_000));
            let Read { content, .. } = read(&page, Form::Markdown, 40_000, &link);
            assert!(content.chars().count() <= 40_000, "{deep}");
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        let tags = [
            "a href=/x",
            "b",
            "p",
            "ul",
            "ol",
            "li",
            "pre",
            "code",
            "table",
            "tr",
            "td",
            "h2",
            "blockquote",
            "main",
            "nav",
            "title",
            "script",
            "style",
            "svg",
            "textarea",
            "br",
            "img alt=y",
            "div hidden",
            "!--",
            "!doctype html",
        ];
        let tag = proptest::sample::select(tags.to_vec());
        prop_oneof![
            tag.clone().prop_map(|tag| format!("<{tag}>")),
            tag.prop_map(|tag| format!("</{}>", tag.split(' ').next().unwrap_or_default())),
            "[a-z \n&;<>`*\\[\\]\"'é]{0,40}",
            Just("--> &amp; &#xE0041; \u{0}".to_owned()),
        ]
    }

    proptest! {
        /// However a page is nested or broken off, it is read, and in bounds.
        #[test]
        fn any_page_is_read_in_bounds(parts in proptest::collection::vec(piece(), 0..120)) {
            for form in [Form::Markdown, Form::Text] {
                let Read { content, whole, .. } = read(&parts.concat(), form, 300, &link);
                let count = content.chars().count();
                prop_assert!(count <= 300 && (whole || count > 0), "{count}: {content}");
                prop_assert_eq!(content.trim_end(), content.as_str());
            }
        }
    }
}
