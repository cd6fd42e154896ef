//! Locks the core tools: a digest over their prompts, argument schemas and handlers, compared with a
//! compiled constant at every start.

use toolgate_kernel::digest::Digest;
use toolgate_kernel::section::Section;

use super::prompt_tool::PromptTool;
use crate::core_tools::core_prompts;

/// Raised whenever a core tool answers the same call in another way.
const HANDLERS: u32 = 1;

/// The digest of the core tools of this version.
pub const CORE_DIGEST: &str = "243c90b84fdc66a70c3018fe860bf60c281e5616c19ed8504d39f13afc8f351c";

/// The core tools are not those that this program was built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the core tools have the digest {found}, and this program was built with {built_in}; nothing was \
     started. Install toolgate again"
)]
pub struct CoreLockError {
    /// What they have.
    pub found: String,
    /// What they should have.
    pub built_in: String,
}

/// The digest of the core tools of a section.
pub(super) fn digest_of(section: &Section) -> Digest {
    let mut tools: Vec<(String, Digest)> = Vec::new();
    for core in core_prompts() {
        let spec = section.tools.iter().find(|spec| spec.name.as_str() == core.id);
        let schema = spec.map(|spec| spec.input.clone());
        let fields = PromptTool::from(core).fields_json();
        let face = serde_json::json!({ "fields": fields, "schema": schema, "handler": HANDLERS });
        tools.push((core.id.clone(), Digest::of_json(&face)));
    }
    tools.sort();
    Digest::of_json(&serde_json::json!(tools))
}

/// Refuses to go on with other core tools than the constant says.
pub fn check_core_lock(found: Digest, built_in: &str) -> Result<(), CoreLockError> {
    let found = found.to_string();
    if found == built_in {
        return Ok(());
    }
    Err(CoreLockError { found, built_in: built_in.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_tools::{self, CoreToolsOptions};

    fn core_digest() -> Digest {
        digest_of(&core_tools::catalogue(CoreToolsOptions::default()).unwrap().section)
    }

    /// A change of a core tool changes this digest: look at it, then write the new one.
    #[test]
    fn the_constant_is_that_of_the_core_tools() {
        check_core_lock(core_digest(), CORE_DIGEST).unwrap();
    }

    #[test]
    fn another_constant_is_refused() {
        let wrong = Digest::of(b"another").to_string();
        let error = check_core_lock(core_digest(), &wrong).unwrap_err();
        assert!(error.to_string().contains("nothing was started"), "{error}");
    }
}
