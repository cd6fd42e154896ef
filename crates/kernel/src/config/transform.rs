//! Decides which transforms there are: their names, their kind, and which dialects they are for.

use crate::names::nearest;

/// What a transform changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransformKind {
    /// An outgoing message.
    Message,
    /// The tools that are sent.
    Tool,
    /// A reply before its calls are read.
    Response,
    /// The calls of a reply before they are judged.
    Call,
    /// A result before it is sent.
    Result,
}

impl TransformKind {
    /// Every kind, in the order of the docs.
    pub const ALL: [Self; 5] =
        [Self::Message, Self::Tool, Self::Response, Self::Call, Self::Result];

    /// The key of `tool_calling` that lists transforms of this kind.
    pub fn key(self) -> &'static str {
        match self {
            Self::Message => "message_transforms",
            Self::Tool => "tool_transforms",
            Self::Response => "response_transforms",
            Self::Call => "tool_call_transforms",
            Self::Result => "tool_result_transforms",
        }
    }
}

/// Which dialects a transform can do something for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only the messages of OpenAI chat completions have what it changes.
    Chat,
    /// It works on words, names and arguments, which every dialect has.
    Every,
}

macro_rules! transforms {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $kind:ident, $reach:ident;)*) => {
        /// A transform: a small change of what is sent or received, enabled by its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Transform {
            $($(#[$doc])* $variant,)*
        }

        impl Transform {
            /// Every transform, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it changes.
            pub fn kind(self) -> TransformKind {
                match self {
                    $(Self::$variant => TransformKind::$kind,)*
                }
            }

            /// Which dialects it is for.
            pub fn reach(self) -> Reach {
                match self {
                    $(Self::$variant => Reach::$reach,)*
                }
            }
        }
    };
}

transforms! {
    /// Blank content beside calls becomes null.
    ContentNullIfBlank = "assistant_tool_calls_content_null_if_blank", Message, Chat;
    /// Messages with calls get an empty `reasoning_content`.
    ReasoningEmptyIfMissing =
        "assistant_tool_calls_reasoning_content_empty_if_missing", Message, Chat;
    /// Calls without a signature get the word that skips its check.
    SignatureSkipIfMissing =
        "assistant_tool_calls_signature_skip_validator_if_missing", Message, Chat;
    /// User and assistant take turns, and no message of the assistant is blank.
    AlternateRoles = "messages_alternate_user_and_assistant", Message, Chat;
    /// Ids of calls are nine letters and digits.
    ShortIds = "tool_call_ids_nine_letters_or_digits", Message, Chat;
    /// Tools are sent without their descriptions.
    StripDescriptions = "openai_tools_strip_function_descriptions", Tool, Chat;
    /// The old `function_call` becomes a call.
    FunctionCall = "assistant_function_call_to_tool_calls", Response, Chat;
    /// A single call becomes a list of one.
    CallsToArray = "assistant_tool_calls_object_to_array", Response, Chat;
    /// Arguments that came as JSON become text.
    ArgumentsToText = "assistant_tool_calls_arguments_json_string_if_hash", Response, Chat;
    /// A thought that the content begins with becomes `reasoning_content`.
    LeadingThought = "assistant_content_leading_thought_to_reasoning_content", Response, Chat;
    /// Calls printed between `<tool_call>` tags become calls.
    PrintedTags = "assistant_content_tool_call_tags_to_tool_calls", Response, Every;
    /// Calls printed as Hermes and Qwen models print them become calls.
    PrintedHermes = "assistant_content_hermes_to_tool_calls", Response, Every;
    /// Calls printed as Llama models print them become calls.
    PrintedLlama = "assistant_content_llama_to_tool_calls", Response, Every;
    /// Calls printed as Mistral models print them become calls.
    PrintedMistral = "assistant_content_mistral_to_tool_calls", Response, Every;
    /// Calls printed as DeepSeek models print them become calls.
    PrintedDeepSeek = "assistant_content_deepseek_to_tool_calls", Response, Every;
    /// A text that begins with the JSON of a domain tool becomes its call.
    PrintedDomain = "assistant_content_domain_json_to_tool_calls", Response, Every;
    /// Blank arguments become `{}`.
    BlankArguments = "assistant_tool_calls_arguments_blank_to_empty_object", Call, Every;
    /// Names that differ in blanks, case, `-` and `.` become the name of the one granted tool.
    NormalizeNames = "tool_names_normalize", Call, Every;
    /// Results are sent without empty parts.
    CompactEnvelope = "tool_result_compact_envelope", Result, Every;
}

/// A transform that cannot be used as it is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformRefusal {
    /// No transform has this name.
    #[error("{}: there is no transform `{name}`", kind.key())]
    Unknown {
        /// The list it stands in.
        kind: TransformKind,
        /// What was written.
        name: String,
        /// The nearest name that would do.
        near: Option<&'static str>,
    },
    /// It stands in a list of another kind.
    #[error("{}: `{}` belongs under `{}`", kind.key(), transform.name(), transform.kind().key())]
    Misplaced {
        /// The list it stands in.
        kind: TransformKind,
        /// The transform.
        transform: Transform,
    },
}

impl TransformRefusal {
    /// What to write instead.
    pub fn help(&self) -> String {
        match self {
            Self::Unknown { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Unknown { kind, near: None, .. } => {
                let names: Vec<&str> = Transform::of(*kind).map(Transform::name).collect();
                format!("there is {}", names.join(", "))
            }
            Self::Misplaced { transform, .. } => {
                format!("move it to `{}`", transform.kind().key())
            }
        }
    }
}

impl Transform {
    /// The transforms of a kind.
    pub fn of(kind: TransformKind) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |transform| transform.kind() == kind)
    }

    /// The transform of this kind with this name; blanks around it, case and `-` are of no account.
    pub fn parse(kind: TransformKind, name: &str) -> Result<Self, TransformRefusal> {
        let wanted = canonical(name);
        match Self::ALL.iter().copied().find(|transform| transform.name() == wanted) {
            Some(transform) if transform.kind() == kind => Ok(transform),
            Some(transform) => Err(TransformRefusal::Misplaced { kind, transform }),
            None => {
                let near = nearest(&wanted, Self::of(kind).map(Self::name));
                let name = name.chars().take(80).collect();
                Err(TransformRefusal::Unknown { kind, name, near })
            }
        }
    }
}

/// A name of a transform or a preset in its one spelling.
pub(super) fn canonical(name: &str) -> String {
    name.trim().to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_own_spelling_and_found_by_others() {
        for transform in Transform::ALL.iter().copied() {
            let (kind, name) = (transform.kind(), transform.name());
            assert_eq!(canonical(name), name);
            assert_eq!(Transform::parse(kind, name), Ok(transform));
            let loud = format!("  {} ", name.to_uppercase().replace('_', "-"));
            assert_eq!(Transform::parse(kind, &loud), Ok(transform));
            assert_eq!(Transform::ALL.iter().filter(|other| other.name() == name).count(), 1);
        }
    }

    #[test]
    fn what_is_unknown_or_misplaced_is_refused_for_each_kind() {
        for kind in TransformKind::ALL {
            let known = Transform::of(kind).next().unwrap();
            let mistyped = known.name().replacen("_", "__", 1);
            let refusal = Transform::parse(kind, &mistyped).unwrap_err();
            assert!(refusal.help().contains(known.name()), "{refusal}: {}", refusal.help());
            let refusal = Transform::parse(kind, "make_it_work").unwrap_err();
            assert_eq!(
                refusal.to_string(),
                format!("{}: there is no transform `make_it_work`", kind.key())
            );
            assert!(refusal.help().starts_with("there is "));
            let other = Transform::ALL.iter().find(|other| other.kind() != kind).unwrap();
            let refusal = Transform::parse(kind, other.name()).unwrap_err();
            assert!(refusal.help().contains(other.kind().key()));
        }
    }
}
