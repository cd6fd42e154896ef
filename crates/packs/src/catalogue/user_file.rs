//! Reads the user's own prompt file: `{"version": 1, "prompts": [...]}`. A file with a mistake gives
//! nothing at all, and the mistake with its place.

use serde::{Deserialize, Serialize};
use toolgate_kernel::prompt_text::check_fields;

use super::prompt_tool::{PromptTool, TakenIds, core_look_alike, core_names, is_core};

/// Largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 2 << 20;

/// Something that is off with a prompt file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptFinding {
    /// What kind of mistake it is.
    pub code: &'static str,
    /// Where: a line and column, or an entry.
    pub place: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// What a prompt file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserPrompts {
    /// Its entries. They count once a person has accepted them.
    pub tools: Vec<PromptTool>,
    /// What is off with it.
    pub findings: Vec<PromptFinding>,
}

/// The form of a prompt file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptFile {
    version: u64,
    prompts: Vec<PromptTool>,
}

impl UserPrompts {
    /// Reads the bytes of a file.
    pub fn read(bytes: &[u8]) -> Self {
        let broken = |code, place: String, message: String| Self {
            tools: Vec::new(),
            findings: vec![PromptFinding { code, place, message }],
        };
        let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
        if bytes.len() > bytes_max {
            let message = format!("it has more than {FILE_BYTES_MAX} bytes; nothing is loaded");
            return broken("PROMPT_FILE_BROKEN", "the file".to_owned(), message);
        }
        let file: PromptFile = match serde_json::from_slice(bytes) {
            Ok(file) => file,
            Err(error) => {
                let place = format!("line {}, column {}", error.line(), error.column());
                let message = format!("{error}; nothing of the file is loaded");
                return broken("PROMPT_FILE_BROKEN", place, message);
            }
        };
        if file.version != 1 {
            let message = format!("version {} is not known; write 1", file.version);
            return broken("PROMPT_FILE_BROKEN", "version".to_owned(), message);
        }
        let (mut read, mut taken) = (Self::default(), TakenIds::default());
        for (at, tool) in file.prompts.into_iter().enumerate() {
            let place = format!("prompts[{at}] ({})", tool.id);
            if is_core(&tool.id) {
                let message = format!(
                    "{} is a core tool: the entry is ignored, and the core tool stays as it is",
                    tool.id
                );
                read.findings.push(PromptFinding { code: "CORE_ID_OVERRIDDEN", place, message });
                continue;
            }
            if taken.prompts.contains(&tool.id) {
                let message = format!("{} is there twice; nothing of the file is loaded", tool.id);
                return broken("PROMPT_FILE_BROKEN", place, message);
            }
            if let Err(error) = taken.check(&tool.id) {
                return broken(
                    "PROMPT_FILE_BROKEN",
                    place,
                    format!("{}; nothing of the file is loaded", error.message),
                );
            }
            taken.prompts.insert(tool.id.clone());
            let tool = tool.normalised();
            match unfit(&tool) {
                None => read.tools.push(tool),
                // It can never be accepted, so it does not wait for it either.
                Some(message) => {
                    read.findings.push(PromptFinding {
                        code: "PROMPT_TEXT_REFUSED",
                        place,
                        message,
                    });
                }
            }
        }
        read
    }
}

/// Why a tool cannot be taken in by anyone.
pub(super) fn unfit(tool: &PromptTool) -> Option<String> {
    if let Err(violation) = check_fields(&tool.text_fields(), &core_names()) {
        return Some(violation.to_string());
    }
    let core = core_look_alike(&tool.name)?;
    Some(format!("name {:?} reads like the core tool {core}; choose another", tool.name))
}
