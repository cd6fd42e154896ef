//! Decides how tool calling is put together from what is said for all models and for one.

use super::{ModelText, ProviderName, ToolCallingText};

/// How a model is asked to call tools.
pub fn effective(
    global: &ToolCallingText,
    model: &ModelText,
    _provider: ProviderName,
) -> ToolCallingText {
    model.tool_calling.clone().unwrap_or_else(|| global.clone())
}
