//! Checks a reply against what it cites, in a fixed order: the first reason wins.

use std::collections::BTreeMap;

use super::parse::{Citation, EvidenceItem, LineRange, cut, evidence_lines, is_quote, items};
use super::{
    Archetype, CitedSource, EvidenceError, EvidenceReason, EvidenceVerdict, SourceRole,
    is_abstention,
};
use crate::digest::Digest;
use crate::receipt::Receipt;

/// Lines by which a quote may be beside the place that is told.
const LINES_BESIDE_MAX: u64 = 2;

/// How a reply begins that thinks aloud.
const THOUGHTS: &[&str] = &["we need to", "let's", "let us", "plan:", "step 1", "i will"];

/// Words of a reply that tells a problem or makes a suggestion, as they begin.
const CLAIMS: &[&str] = &["problem", "suggest"];

/// Words of a reply that says that something is not there.
const ABSENCES: &[&str] =
    &["nothing found", "found nothing", "nothing was found", "no mention", "not mentioned"];

/// What one call of this round says of a source that it read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptCoverage {
    /// The source.
    pub reference: String,
    /// SHA-256 of the text that it read.
    pub sha256: Digest,
    /// Whether it looked at all of it.
    pub whole: bool,
}

/// What a check looks up: sources as they are now, and receipts of this round.
pub trait EvidenceLookup {
    /// The source that a text names.
    fn source(&self, given: &str) -> Option<CitedSource>;

    /// The role that a source has by its name, be it there or not.
    fn role(&self, given: &str) -> SourceRole;

    /// Whether there is an issue with this number.
    fn has_issue(&self, number: u64) -> bool;

    /// What a call read, where its receipt counts in this round.
    fn receipt(&self, receipt: Receipt) -> Option<&[ReceiptCoverage]>;

    /// The text in normal form C.
    fn normal_form(&self, text: &str) -> String;

    /// Whether a word is the name of a tool.
    fn is_tool(&self, word: &str) -> bool;
}

/// Checks a reply. The first reason not to accept it wins.
pub fn check_reply(
    reply: &str,
    archetype: Archetype,
    lookup: &dyn EvidenceLookup,
) -> Result<EvidenceVerdict, EvidenceError> {
    use EvidenceReason as R;
    let no = |reason, detail: &str| Err(EvidenceError::new(reason, detail));
    let text = reply.trim();
    if text.is_empty() {
        return no(R::Empty, "the reply says nothing");
    }
    if is_abstention(text) {
        return Ok(EvidenceVerdict::Abstained {});
    }
    if is_tool_syntax(text) {
        return no(R::ToolSyntax, "answer in words; a call that is printed calls nothing");
    }
    if thinks_aloud(text) {
        return no(R::CotLeak, "begin with the answer, not with what you are going to do");
    }
    let (lines, rest) = evidence_lines(text);
    let line = match lines.as_slice() {
        [] => return no(R::Missing, "end with one line `Evidence: …`"),
        [line] => *line,
        _ => return no(R::Multiple, "put all evidence into one line, with `;` between the items"),
    };
    if line.trim_end_matches('.').eq_ignore_ascii_case("none") {
        return no(R::Missing, "the line cites nothing");
    }
    let items = items(line)?;
    let cited = Cited::of(&items);
    if cited.is_access_request() {
        return Ok(EvidenceVerdict::AccessRequest {});
    }
    let said = rest.join("\n").to_lowercase();
    cited.check_roles(archetype, lookup)?;
    let sources = cited.find(lookup)?;
    let claims = tokens(&said).any(|word| CLAIMS.iter().any(|claim| word.starts_with(claim)));
    let quoted = cited.places.iter().any(|place| place.quote.is_some());
    if claims && !quoted && !cited.places.is_empty() {
        return no(R::MissingQuote, "a problem or suggestion needs a quote, not lines alone");
    }
    if let Some(place) = cited.places.iter().find(|place| place.lines.is_none()) {
        let detail = format!("say the line of {}: `{} L3 \"…\"`", place.source, place.source);
        return Err(EvidenceError::new(R::MissingLocation, detail));
    }
    let absent = ABSENCES.iter().any(|words| said.contains(words));
    if absent && cited.scopes.is_empty() {
        let detail = "say where you looked: `scope SOURCE, SOURCE found nothing`";
        return no(R::MissingScope, detail);
    }
    let located = cited.places.iter().filter_map(|place| {
        let source = sources.get(place.source.as_str())?;
        Some((source, place.lines?, place.quote.as_deref()))
    });
    let located: Vec<(&CitedSource, LineRange, Option<&str>)> = located.collect();
    let mut misplaced = None;
    for (source, lines, quote) in &located {
        let found = find_quote(source, *lines, *quote, lookup)?;
        misplaced = misplaced.or(found);
    }
    if let Some(detail) = misplaced {
        return Err(EvidenceError::new(R::WrongLine, detail));
    }
    cited.check_receipts(&said, &sources, lookup)?;
    let items = u64::try_from(items.len()).unwrap_or(u64::MAX);
    let receipts = cited.receipts.iter().map(ToString::to_string).collect();
    Ok(EvidenceVerdict::Accepted { items, receipts })
}

/// The items of a line, by their kinds.
#[derive(Default)]
struct Cited<'a> {
    places: Vec<&'a Citation>,
    scopes: Vec<&'a str>,
    receipts: Vec<Receipt>,
    issues: Vec<u64>,
    requests: usize,
}

impl<'a> Cited<'a> {
    fn of(items: &'a [EvidenceItem]) -> Self {
        let mut cited = Self::default();
        for item in items {
            match item {
                EvidenceItem::Place(place) => cited.places.push(place),
                EvidenceItem::Scope(sources) => {
                    cited.scopes.extend(sources.iter().map(String::as_str));
                }
                EvidenceItem::Receipt(receipt) => cited.receipts.push(*receipt),
                EvidenceItem::Issue(number) => cited.issues.push(*number),
                EvidenceItem::AccessRequest(_) => cited.requests += 1,
            }
        }
        cited
    }

    /// Whether it asks for a source, and cites nothing that would have to be verified.
    fn is_access_request(&self) -> bool {
        let cites = self.places.len() + self.scopes.len() + self.receipts.len() + self.issues.len();
        self.requests > 0 && cites == 0
    }

    fn sources(&self) -> impl Iterator<Item = &'a str> {
        let places: Vec<&'a str> = self.places.iter().map(|place| place.source.as_str()).collect();
        places.into_iter().chain(self.scopes.clone())
    }

    fn check_roles(
        &self,
        archetype: Archetype,
        lookup: &dyn EvidenceLookup,
    ) -> Result<(), EvidenceError> {
        let wrong = || {
            let detail = format!("cite {}", archetype.cites());
            Err(EvidenceError::new(EvidenceReason::WrongSource, detail))
        };
        let is_chief = archetype == Archetype::Chief;
        if !is_chief && !self.issues.is_empty() {
            return wrong();
        }
        let mut sources = self.sources();
        let fits = match archetype.roles() {
            Some(roles) => sources.any(|source| roles.contains(&lookup.role(source))),
            None if is_chief => true,
            None => sources.next().is_some(),
        };
        if fits { Ok(()) } else { wrong() }
    }

    /// The sources that are cited, by the names they are cited by.
    fn find(
        &self,
        lookup: &dyn EvidenceLookup,
    ) -> Result<BTreeMap<&'a str, CitedSource>, EvidenceError> {
        let missing = |name: &str| {
            let detail = format!("there is no source {:?}", cut(name));
            EvidenceError::new(EvidenceReason::MissingFile, detail)
        };
        let mut found = BTreeMap::new();
        for given in self.sources() {
            if !found.contains_key(given) {
                found.insert(given, lookup.source(given).ok_or_else(|| missing(given))?);
            }
        }
        match self.issues.iter().find(|number| !lookup.has_issue(**number)) {
            Some(number) => Err(missing(&format!("#{number}"))),
            None => Ok(found),
        }
    }

    /// Whether every receipt counts and is about what is cited, and whether there is one where one
    /// is needed.
    fn check_receipts(
        &self,
        said: &str,
        sources: &BTreeMap<&str, CitedSource>,
        lookup: &dyn EvidenceLookup,
    ) -> Result<(), EvidenceError> {
        let missing =
            |detail: String| Err(EvidenceError::new(EvidenceReason::MissingReceipt, detail));
        let mut read: Vec<&ReceiptCoverage> = Vec::new();
        for receipt in &self.receipts {
            let Some(covered) = lookup.receipt(*receipt) else {
                return missing(format!("{receipt} is of no call since the last message to you"));
            };
            let is_cited = |one: &&ReceiptCoverage| {
                let mut cited = sources.values();
                cited.any(|it| it.reference == one.reference && it.sha256 == one.sha256)
            };
            let before = read.len();
            read.extend(covered.iter().filter(is_cited));
            if !sources.is_empty() && read.len() == before {
                let detail = "has not read what you cite, or it changed since: read it again";
                return missing(format!("the call of {receipt} {detail}"));
            }
        }
        for scope in &self.scopes {
            let Some(source) = sources.get(scope) else { continue };
            if !read.iter().any(|one| one.whole && one.reference == source.reference) {
                return missing(format!(
                    "cite the receipt of a call that read all of {}",
                    source.reference
                ));
            }
        }
        let tool = tokens(said).find(|word| lookup.is_tool(word));
        match tool.filter(|_| self.receipts.is_empty()) {
            Some(tool) => missing(format!("you name {tool}: cite the receipt of its call")),
            None => Ok(()),
        }
    }
}

/// Words of a text: letters, digits, `_` and `-`.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
    words.filter(|word| !word.is_empty())
}

fn is_tool_syntax(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().trim_start();
    let object = text.starts_with('{') && text.contains("\"tool\"");
    object || first.starts_with("```") || first.starts_with("<tool_call>")
}

fn thinks_aloud(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().to_lowercase().replace('’', "'");
    let first = first.trim_start_matches(|c: char| !c.is_alphanumeric());
    THOUGHTS.iter().any(|words| {
        let rest = first.strip_prefix(words);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    })
}

/// Looks a quote up in its source. A quote that is there and elsewhere is told; one that is nowhere
/// is an error.
fn find_quote(
    source: &CitedSource,
    lines: LineRange,
    quote: Option<&str>,
    lookup: &dyn EvidenceLookup,
) -> Result<Option<String>, EvidenceError> {
    let all: Vec<&str> = source.text.lines().collect();
    let last = source.first_line.saturating_add(u64::try_from(all.len()).unwrap_or(u64::MAX));
    let Some(quote) = quote else {
        // Lines that do not exist are no place.
        let there = lines.first >= source.first_line && lines.last < last;
        let told = || {
            format!(
                "{} has lines {} to {}",
                source.reference,
                source.first_line,
                last.saturating_sub(1)
            )
        };
        return Ok((!there).then(told));
    };
    let wanted = folded(&lookup.normal_form(quote));
    let is_in = |lines: &[&str]| folded(&lookup.normal_form(&lines.join("\n"))).contains(&wanted);
    let near = |number: u64| usize::try_from(number.saturating_sub(source.first_line)).ok();
    let from = near(lines.first.saturating_sub(LINES_BESIDE_MAX)).unwrap_or(usize::MAX);
    let to = near(lines.last.saturating_add(LINES_BESIDE_MAX).saturating_add(1));
    let to = to.unwrap_or(usize::MAX).min(all.len());
    if all.get(from..to).is_some_and(is_in) {
        return Ok(None);
    }
    if !is_in(&all) {
        let detail =
            format!("{:?} is not in {}; quote letter by letter", cut(quote), source.reference);
        return Err(EvidenceError::new(EvidenceReason::QuoteNotFound, detail));
    }
    let told =
        format!("{:?} is in {}, but not at line {}", cut(quote), source.reference, lines.first);
    Ok(Some(told))
}

/// A text with its blanks folded and its quotation marks alike.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().map(|c| match c {
            c if is_quote(c) => '"',
            '‘' | '’' | '‚' | '‛' => '\'',
            c => c,
        }));
    }
    folded
}
