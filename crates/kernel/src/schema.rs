//! Decides how names and fingerprints appear in published JSON Schemas: as text with a pattern.

/// Gives a type that is written as text its schema.
macro_rules! text_schema {
    ($type:ty, $name:literal, $pattern:literal) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

text_schema!(
    crate::names::ToolName,
    "ToolName",
    "^([a-z0-9_-]{1,64}|mcp:[a-z0-9_-]{1,64}:[A-Za-z0-9_.-]{1,128}|(View|Update)SystemPromptTool|Web(Search|Fetch)Tool)$"
);
text_schema!(crate::credential::PersonKey, "PersonKey", "^[0-9a-f]{64}$");
text_schema!(crate::credential::Signature, "Signature", "^[0-9a-f]{128}$");
text_schema!(crate::names::GroupName, "GroupName", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::SectionName, "SectionName", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::ServerName, "ServerName", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::PolicyName, "PolicyName", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::AgentId, "AgentId", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::SessionId, "SessionId", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::ToolPattern, "ToolPattern", "^[A-Za-z0-9_.:-]*\\*?$");
text_schema!(crate::names::Family, "Family", "^[a-z0-9_-]{1,64}$");
text_schema!(crate::names::PhaseName, "PhaseName", "^[A-Za-z0-9_.-]{1,64}$");
text_schema!(crate::names::CallId, "CallId", "^c[0-9]+$");
text_schema!(crate::digest::Digest, "Digest", "^[0-9a-f]{64}$");
text_schema!(crate::digest::Tag, "Tag", "^[0-9a-f]{16}$");
text_schema!(crate::receipt::Receipt, "Receipt", "^rcpt_[0-9a-f]{24}$");
text_schema!(crate::key::Key, "Key", "^[a-z0-9_-]{1,64}(:.*)?$");
text_schema!(
    crate::actor::Actor,
    "Actor",
    "^(system|(human|file|client_user|agent|model|client):.+)$"
);
