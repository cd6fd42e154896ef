//! Lists what no prompt text may say, as patterns, and finds it.
//!
//! In a pattern a blank stands for whatever may lie between two words, `{start}` for the place of
//! a command (the start of a clause, or a word such as `you must` before it), `{near}` for a few
//! words of the same sentence. An exception is held against the whole sentence.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::TextRule;
use super::forms::{Form, Reading};

/// One thing that must not be said.
struct Pattern {
    rule: TextRule,
    /// What is looked for.
    says: &'static str,
    /// Sentences in which it is harmless; empty for none.
    except: &'static str,
}

const fn pattern(rule: TextRule, says: &'static str) -> Pattern {
    Pattern { rule, says, except: "" }
}

const fn except(rule: TextRule, says: &'static str, except: &'static str) -> Pattern {
    Pattern { rule, says, except }
}

const PATTERNS: &[Pattern] = &[
    // Rules and instructions are to be put aside.
    except(
        TextRule::Override,
        r"\b(ignor(e|ing)|disregard(ing)?|forget(ting)?|overrid(e|ing)|overrul(e|ing)|bypass(ing)?|discard(ing)?|violat(e|ing)|(do not|don't|never|stop|no longer) (follow(ing)?|obey(ing)?|heed(ing)?)|pay no (attention|heed) to)\b{near}\b(previous|prior|earlier|above|preceding|foregoing|other|all|any|every|system|developer|user'?s?|your|these|those|initial|original|current|existing|former|core|the) (\w+ )?(instructions?|system prompts?|prompts?|guardrails?|safeguards?|directives?)\b",
        r"\b(instructions?|prompts?|directives?) (of|by|from|for|in) (the |his |her |their |its |an? )?(king|queen|captain|general|father|mother|master|doctor|chapter|recipe|letter|scene|story|note|book)",
    ),
    except(
        TextRule::Override,
        r"\b(ignor(e|ing)|disregard(ing)?|forget(ting)?|overrid(e|ing)|bypass(ing)?|discard(ing)?|(do not|don't|never|stop) (follow|obey|heed)(ing)?)\b{near}\b(previous|prior|preceding|foregoing|system|developer|your|user'?s?) (\w+ )?(rules?|polic(y|ies)|messages?|guidelines?|directions?|constraints?|restrictions?|limits|orders|commands)\b",
        r"\b(he|she|they|it|who|king|queen|captain|hero|heroine|soldiers?|character|protagonist) (\w+ )?(ignore|disregard|forget|override|bypass|discard)|rules? of (grammar|style|spelling|punctuation|magic)",
    ),
    except(
        TextRule::Override,
        r"{start}(ignore|disregard|forget|override|bypass|discard|break) ((all|any|every|the|other|earlier|above|these|those|of) )+(rules?|polic(y|ies)|guidelines?|constraints?|restrictions?|safety)\b",
        r"\b(rules?|guidelines?|constraints?|polic(y|ies)|restrictions?) (of|about|for|on|that|in) ",
    ),
    except(
        TextRule::Override,
        r"\b(ignore|disregard|forget|override) ((all|any|everything|what|the|that|was|your|of|is|came|said|written) )*(previous|previously|prior|preceding|above)\b",
        r"\b(previous|previously|prior|preceding|above) (\w+ ){0,2}(drafts?|versions?|chapters?|scenes?|revisions?|editions?|books?|volumes?|outlines?|notes?|comments?|feedback|suggestions?|marriages?|li(fe|ves)|sightings?|decks?|ground|water\w*|average)\b",
    ),
    except(
        TextRule::Override,
        r"\bforget (everything|all|anything|what|whatever) (that )?(you|i|we) ('?ve |were |have |are |had )?(been )?(told|taught|instructed|know|learned|learnt|said|trained|read)\b",
        r"\bknow about\b",
    ),
    pattern(
        TextRule::Override,
        r"\b(ignoriere?|missachte|vergiss|ignorieren|vergessen) {near}\b(anweisung|instruktion|vorgabe|regeln oben|systemprompt)|\b(ignore[rz]?|oublie[rz]?) {near}\b(instructions|consignes|directives) (précédentes|antérieures|ci|du système)|\b(ignora|olvida|ignore|olvide) {near}\b(instrucciones|indicaciones) (anteriores|previas|del sistema)|\b(ignora|dimentica) {near}\bistruzioni (precedenti|di sistema)|\b(ignore|esqueça) {near}\binstruções (anteriores|do sistema)|\bnegeer {near}\b(instructies|aanwijzingen)|(игнорируй|забудь|проигнорируй)\w* {near}(инструкци|указани)|(忽略|无视|無視|忘记|忘記).{0,12}(指令|指示|提示|规则|規則)|(指示|命令|プロンプト|ルール)を(すべて|全て)?(無視|忘れ)",
    ),
    pattern(
        TextRule::Override,
        r"\bsystem override\b|\bjailbr(eak|oken)\b|\bdeveloper mode\b|\bdo anything now\b|\bgod mode (enabled|on)\b|\bnew (system )?instructions ?:|\byou are now (an? )?(free|unrestricted|uncensored|unfiltered|unbound|the (system|admin\w*|owner|operator|user)|no longer|in )|\b(you|assistant|model) (are|is|be) (no longer|not) (bound|subject|limited|restricted|constrained) (by|to)\b|\b(answer|respond|act|reply|operate|behave|work) (freely )?without (any )?(restrictions?|limits|limitations|filters?|guardrails?|rules)\b",
    ),
    except(
        TextRule::Override,
        r"\b(supersedes?|overrides?|overrules?|outranks?|replaces?|(takes?|has|have|taking|having) (precedence|priority) over|(is|are) above|(comes?|go(es)?) before) ((all|any|the|every|your|other|previous|earlier|prior|these|those|existing|system|platform|tool) )*(instructions?|system prompts?|prompts?|protocols?|guardrails?|polic(y|ies)|rules?)\b",
        r"\b(rules?|protocols?|polic(y|ies)) (of|about|for) |\bnever (overrides?|overrules?|replaces?)|\b(not|cannot) (override|overrule|replace|supersede)\b",
    ),
    pattern(
        TextRule::Override,
        r"\b(skip|bypass|disable|circumvent|switch off|turn off|work around|get around|evade) ((the|any|all|every|this|your|its) )*(\w+ )?(approvals?|polic(y|ies)|permissions?|guardrails?|phase (rules?|grants?)|tool (rules?|policy|policies|permissions?)|human review|confirmations?)\b",
    ),
    except(
        TextRule::Override,
        r"\b(set|mark|make|return|output|give|change|record) {near}\b(verdict|recommendation|decision|approval)s? (to |as |of |be |is )*['\x22]?(approved?|accept(ed)?|yes)\b|\bverdict['\x22]?\s*:\s*['\x22]?(approved?|accept)|\balready (been )?approved by\b|\bapprove ((all|this|the|every|any|these|each|pending|open|new) )+proposals?\b|\b(all|every) phases? (is|are)? ?visible\b",
        r"\bapproved?( ?\([^)\n]*\))?\s*(\||/|\bor\b)",
    ),
    pattern(
        TextRule::Override,
        r"\b(decode|decrypt|unscramble|rot13|base64){near}\b(obey|follow|execute|comply|carry out|run) (it|them|this|that|what)\b",
    ),
    // Speaks as if it were not the writer of a prompt.
    pattern(
        TextRule::Role,
        r"(^|[\n>\[(])[\s#*>\x22'`-]*(system|developer|operator|assistant)( (prompt|message|note|instructions?))?[\s*\x22'`]*:",
    ),
    pattern(
        TextRule::Role,
        r"(^|\n)[\s#*>]*(human|user)[\s*]*:[^\n]*(\n[^\n]*){0,4}\n[\s#*>]*(ai|assistant|model|bot)[\s*]*:",
    ),
    pattern(
        TextRule::Role,
        r"<[|｜]|[|｜]>|\[/?inst\]|<</?sys>>|</?(system|assistant|developer|operator|admin|important|system-reminder|instructions)>|<(start|end)_of_turn>|\[/?(system|system_prompt|available_tools)\]|(^|\n)#{1,6} *(system|assistant|developer) *(:|\n|$)",
    ),
    // Speaks the language of calls.
    pattern(
        TextRule::Protocol,
        r"[\x22'“”`]tool[\x22'“”`]\s*:.{0,400}[\x22'“”`](args|arguments|nonce)[\x22'“”`]\s*:|[\x22'“”`](args|arguments|nonce)[\x22'“”`]\s*:.{0,400}[\x22'“”`]tool[\x22'“”`]\s*:|\{\s*[\x22'“”`]tool[\x22'“”`]\s*:|\btool[_-]nonce\b|\bstop[_-]hook\b|[\x22“”]action[\x22“”]\s*:|[\x22“”]nonce[\x22“”]\s*:",
    ),
    pattern(
        TextRule::Protocol,
        r"</?(\w+:)?(function_calls?|tool_calls?|tool_use|tool_response|tool_results?|function_results?|invoke|parameter)\b[^<>\n]{0,80}>|\[/?tool_(calls?|results?)\]|```+[ \t]*(tool_code|tool_call|tool|function_call)\b",
    ),
    // Ends the block that it stands in, or begins another.
    pattern(
        TextRule::Delimiter,
        r"\bcatalog(ue)? of prompt tools\b|\(id ?:[^)\n]{0,80}\)[\s*]*\[(core|user|project)|\[(core|user|project)\]\s*$|\btexts marked user\b|(^|\n)[\s\x22'`#*=<>\[\]-]*[0-9a-f]{32}[\s\x22'`#*=<>\[\]-]*($|\n)|</?(proposal|catalog(ue)?|grounding|protocol|untrusted|prompt_tools?)>|(^|\n)[^\w\n]*(begin|end|start)( of)?( the)? (proposal|catalog(ue)?|prompt tools?|grounding|protocol|nonce|untrusted( text)?)\b",
    ),
    // Evidence is to be left out or made up.
    except(
        TextRule::Evidence,
        r"\b(skip(ping)?|omit(ting)?|leav(e|ing) (out|off)|drop(ping)?|ignor(e|ing)|bypass(ing)?|suppress(ing)?|(do not|don't|never|no need to|need not|needn't|not|needless to) (give|include|write|add|need|bother with|provide|require|attach|cite|supply|show|print)) ((the|any|all|every|your|its|an?|with|line|of) )*(evidence|receipts?|quotes?|quotations?|citations?|sources)\b",
        r"\b(never|not|don't|nor|avoid|without|cannot|must not|instead of|rather than|if you) (\w+ ){0,2}(skip|omit|leav|drop|ignor|bypass|suppress)|\b(quot(e|ation)|quotes?) marks?\b|\b(more|fewer|less|longer|shorter) than\b|\b(over|beyond) \d|\b(evidence|quotes?|sources?) (of|that|from|for) ",
    ),
    except(
        TextRule::Evidence,
        r"\b(evidence|receipts?|quotes?|quotations?|citations?|sources)( lines?)? (may|can|could|should|need|is|are|must|might|shall|will)( be)?( safely| simply| always| just| not)? (be )?(omitted|skipped|optional|left (out|off)|not (needed|required|necessary|wanted)|unnecessary|invented|faked|fabricated|made up|made-up|guessed|dropped|ignored|waived)\b",
        r"\b(must|may|should|can|will|need|shall)( be)? (not|never) (be )?(omitted|skipped|left|invented|faked|fabricated|made|guessed|dropped|ignored)|\bcannot be\b|\bno (evidence|quotes?|receipts?|sources?)\b|\bif\b",
    ),
    except(
        TextRule::Evidence,
        r"{start}(fake|forge|fabricate|invent|make up|falsify|simulate|pretend|guess) ((the|any|all|some|your|an?|plausible|realistic|suitable|to|have|with|convincing) )*(evidence|receipts?|quotes?|quotations?|citations?|sources|receipt ids?)\b",
        r"\b(never|not|don't|nor|avoid|without|cannot|must not|instead of|rather than) (\w+ ){0,3}(fake|forge|fabricate|invent|make|falsify|simulate|pretend|guess)|\bno (evidence|quotes?|receipts?|sources?)\b",
    ),
    pattern(
        TextRule::Evidence,
        r"\brcpt[_-]|\bevidence\s*:\s*(none|n/a|not (needed|required|applicable))\b",
    ),
    pattern(
        TextRule::Evidence,
        r"\b(invented|fabricated|made-up|made up|fake|forged|imaginary) (evidence|receipts?|quotes?|citations?) (is|are|will be) (fine|ok|okay|allowed|acceptable|enough|welcome)\b|\b(without|no need (of|for)) (evidence|receipts|citations) (is|are) (fine|ok|okay|allowed)\b|\banswer without (evidence|receipts?|citations?)\b",
    ),
    // Something is to be kept from people.
    except(
        TextRule::Secrecy,
        r"\b(do not|don't|never|avoid|must not|mustn't|should not|shouldn't) (\w+ ){0,2}?(tell(ing)?|mention(ing)?|inform(ing)?|reveal(ing)?|notify(ing)?|disclos(e|ing)|report(ing)?|admit(ting)?|alert(ing)?)\b{near}\b(user|human|operator|owner|supervisor|reviewer|chief of staff)s?\b",
        r"\b(tell|telling|inform|notify) (the |your |a |any )?(user|human|operator|owner|supervisor|reviewer)s? (how|what to|which|more|to )",
    ),
    except(
        TextRule::Secrecy,
        r"\b(do not|don't|never|avoid) (mention|reveal|disclose|repeat|refer to|acknowledge|show|print|log|quote) ((any of|this|these|your) )+(instructions?|prompts?|rules?|tools?|guardrails?|catalog(ue)?)\b",
        "",
    ),
    except(
        TextRule::Secrecy,
        r"{start}(secretly|covertly|silently|quietly|stealthily) (add|append|call|copy|forward|include|read|run|send|upload|use|store|save|write|change|rewrite|insert|delete|remove|replace|commit|approve)\b",
        "",
    ),
    except(
        TextRule::Secrecy,
        r"\b(keep|hide|conceal|withhold)\b{near}\bfrom (the |your |any |all )?(user|human|operator|owner|reviewer|chief|supervisor)s?\b|\bkeep (this|these) (prompt|instructions?|rules?|tool|text) (a )?(secret|hidden|private|confidential|to yourself)\b",
        r"\b(do not|don't|never) (keep|hide|conceal|withhold)\b",
    ),
    except(
        TextRule::Secrecy,
        r"\bwithout (telling|informing|notifying|alerting) (the |your |any |a )?(user|human|operator|owner|reviewer|chief|supervisor)s?\b|\bwithout (the |your )?(user|human|operator|owner|reviewer|supervisor)'?s?'? (knowledge|knowing|noticing|consent|approval|permission)\b|\bbehind the (user|owner|operator)'?s back\b",
        r"\b(never|not|don't|nor|no|nothing|cannot)\b",
    ),
    // Credentials, what the model was told, and ways out.
    pattern(
        TextRule::Secrets,
        r"~/\.ssh|\bid_(rsa|ed25519)\b|/etc/(passwd|shadow)|\.aws/credentials|\bmcp\.json\b|(^|[\s/`'\x22(])\.(env|npmrc|netrc|git-credentials)\b|\.config/gh\b|\bauthorized_keys\b",
    ),
    except(
        TextRule::Secrets,
        r"\b(pass|send|forward|include|attach|append|leak|exfiltrate|upload|copy|post|print|reveal|output|show|repeat|quote|read|dump|list|give|tell|fetch|collect)\b{near}\b(api keys?|access tokens?|private keys?|ssh keys?|secret keys?|env(ironment)? variables?|system prompt|hidden (prompt|instructions)|chat history|conversation history|bearer tokens?|login tokens?)\b",
        r"\b(never|not|don't) (\w+ )?(pass|send|forward|include|attach|append|leak|upload|copy|post|print|reveal|output|show|repeat|quote|read|dump|list|give|tell|fetch|collect)\b",
    ),
    pattern(
        TextRule::Secrets,
        r"{start}(pass|send|forward|include|attach|append|leak|exfiltrate|upload|copy|post|print|output|dump|collect) ((the|all|any|your|every|user'?s?|stored|saved|following) )+(credentials?|passwords?|secrets|tokens)\b",
    ),
    pattern(
        TextRule::Secrets,
        r"\b(send|post|upload|forward|submit|transmit|e?mail|exfiltrate|deliver)\b[^!?\n]{0,60}?\bto:? <?((https?|ftp|wss?)://|[\w.+-]{1,60}@[\w-]{1,60}\.)",
    ),
    pattern(
        TextRule::Secrets,
        r"!\[[^\]\n]{0,200}\]\s*\(\s*<?\s*((https?|ftp|data):|//)|\{\{[^}\n]{0,80}\b(secrets?|env|process|credentials?|api_?keys?|passwords?|conversation)\b|\$\{\{?\s*(env|secrets?)\b",
    ),
];

/// What stands before a command: the start of a clause, or words that lead to one.
const START: &str = r"(?:(?:^|[.!?:;,)\]\n\x22'>*•]|\n\s*[-\d.]+)\s*|\b(?:you|please|always|simply|just|also|then|instead|and then|now|may|feel free to|allowed to|free to|rather)[\s,]+(?:(?:may|can|should|must|will|could|to|simply|just|always|also|please)\s+)*)";

/// A few words of the same sentence.
const NEAR: &str = r"[^.!?]{0,40}?";

/// What lies between two words, however they are set apart.
const BETWEEN: &str = r"(?:[\s_*~`,–—-]+)";

/// Nonsense words of a text without its blanks.
const SQUEEZED: &[&str] = &[
    r"(ignor|disregard|forget|overrid|bypass|discard)(e|ing)?(all|any|every|the|of|these|those|your|my|other|what|was)*(previous|prior|preceding|above|earlier|system|foregoing|developer)(ly)?(all|the|your|system)*(instruct|ru[li]e|prompt|po[li][li]c|message|guide[li]ine|direct[li]ve|guardra)",
    r"(ignor|disregard|forget|overrid|bypass)(e|ing)?(all|any|these|those|your|other)+(instruct[li]on|guardra[li][li]|systemprompt)",
    r"systemoverr[li]de|you?arenowunrestr[li]cted|revea[li](your|the)systemprompt",
];

struct Compiled {
    set: RegexSet,
    each: Vec<(Regex, Option<Regex>)>,
}

impl Compiled {
    fn new(reading: Reading) -> Result<Self, regex::Error> {
        let source = |says: &str| format!("(?is){}", expanded(says, reading));
        let set = regex::RegexSetBuilder::new(PATTERNS.iter().map(|p| source(p.says)))
            .size_limit(PATTERN_BYTES_MAX)
            .build()?;
        let one = |source: String| {
            regex::RegexBuilder::new(&source).size_limit(PATTERN_BYTES_MAX).build()
        };
        let pair = |p: &Pattern| {
            let except = (!p.except.is_empty()).then(|| one(source(p.except))).transpose()?;
            Ok((one(source(p.says))?, except))
        };
        Ok(Self { set, each: PATTERNS.iter().map(pair).collect::<Result<_, _>>()? })
    }
}

/// Bytes of all compiled patterns of one reading.
const PATTERN_BYTES_MAX: usize = 64 << 20;

static EXACT: LazyLock<Option<Compiled>> = LazyLock::new(|| Compiled::new(Reading::Exact).ok());
static LOOK_ALIKE: LazyLock<Option<Compiled>> =
    LazyLock::new(|| Compiled::new(Reading::LookAlike).ok());
static SQUEEZED_SET: LazyLock<Option<Vec<Regex>>> = LazyLock::new(|| {
    SQUEEZED.iter().map(|says| Regex::new(&expanded(says, Reading::LookAlike)).ok()).collect()
});

/// A pattern with its placeholders filled in.
fn expanded(says: &str, reading: Reading) -> String {
    let says = says.replace("{start}", START).replace("{near}", NEAR);
    let mut out = String::with_capacity(says.len() * 2);
    let mut chars = says.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match (c, reading) {
            ('\\', _) => {
                out.push(c);
                out.extend(chars.next());
            }
            ('[', _) => {
                in_class = true;
                out.push(c);
            }
            (']', _) => {
                in_class = false;
                out.push(c);
            }
            (' ', _) if !in_class => out.push_str(BETWEEN),
            ('i' | 'l', Reading::LookAlike) if !in_class => out.push_str("[il]"),
            ('m', Reading::LookAlike) if !in_class => out.push_str("(?:m|rn)"),
            (c, _) => out.push(c),
        }
    }
    out
}

/// Whether something in a text of letters alone overrides instructions, and what.
pub(super) fn squeezed_override(letters: &str) -> Option<String> {
    let Some(set) = &*SQUEEZED_SET else { return Some(UNREADABLE.to_owned()) };
    let reversed: String = letters.chars().rev().collect();
    let find = |text: &str| set.iter().find_map(|re| Some(re.find(text)?.as_str().to_owned()));
    find(letters).or_else(|| find(&reversed))
}

/// Told where the patterns cannot be used, so that nothing passes unread.
const UNREADABLE: &str = "(the text cannot be looked through)";

/// What a form says that it must not, as rule and quote, in the order of the rules.
pub(super) fn find(form: &Form) -> Vec<(TextRule, String)> {
    let compiled = match form.reading {
        Reading::Exact => &*EXACT,
        Reading::LookAlike => &*LOOK_ALIKE,
    };
    let Some(compiled) = compiled else {
        return vec![(TextRule::Override, UNREADABLE.to_owned())];
    };
    let matched = compiled.set.matches(&form.text);
    let each = PATTERNS.iter().zip(&compiled.each).enumerate();
    let found = each.filter(|(at, _)| matched.matched(*at)).filter_map(|(_, (p, (re, except)))| {
        let hits = re.find_iter(&form.text).find(|hit| {
            let sentence = sentence(&form.text, hit.start(), hit.end());
            except.as_ref().is_none_or(|except| !except.is_match(sentence))
        });
        hits.map(|hit| (p.rule, hit.as_str().trim().to_owned()))
    });
    found.collect()
}

/// The sentence around a place, or several when the place spans them.
fn sentence(text: &str, start: usize, end: usize) -> &str {
    let ends = |c: char| matches!(c, '.' | '!' | '?' | '\n' | ';');
    // A command may begin with the mark that ended the sentence before.
    let hit = text.get(start..end).unwrap_or_default();
    let lead = hit.find(|c: char| c.is_alphanumeric()).unwrap_or(0);
    let before = text.get(..start + lead).unwrap_or_default();
    let after = text.get(end..).unwrap_or_default();
    let from = before.rfind(ends).map_or(0, |at| at + 1);
    let to = after.find(ends).map_or(text.len(), |at| end + at);
    text.get(from..to).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for reading in [Reading::Exact, Reading::LookAlike] {
            if let Err(error) = Compiled::new(reading) {
                panic!("{reading:?}: {error}");
            }
        }
        assert!(SQUEEZED_SET.is_some());
    }

    #[test]
    fn a_sentence_is_the_one_of_its_place() {
        let text = "One. Two three! Four";
        assert_eq!(sentence(text, 5, 8).trim(), "Two three");
        assert_eq!(sentence(text, 3, 8).trim(), "Two three");
        assert_eq!(sentence(text, 16, 20).trim(), "Four");
    }
}
