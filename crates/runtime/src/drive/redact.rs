//! Removes secrets from what tools answer, before any of it is logged, counted or shown.

use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::redact::Redactor;

use crate::port::{Fault, Output};

/// An answer without secrets.
pub(super) fn redact_output(redactor: &Redactor, output: &mut Output) {
    redact_text(redactor, &mut output.message);
    redactor.redact_value(&mut output.data);
    output.warnings.iter_mut().for_each(|warning| redact_text(redactor, warning));
    let Some(parts) = &mut output.parts else { return };
    let is_redacted = |json: &str| redactor.redact(json) != json;
    if parts.list.iter().any(|part| is_redacted(&part.json)) {
        for part in &mut Arc::make_mut(parts).list {
            part.json = redactor.redact_json(std::mem::take(&mut part.json));
        }
    }
}

/// The errors of a tool without secrets.
pub(super) fn redact_fault(redactor: &Redactor, fault: &mut Fault) {
    for error in &mut fault.errors {
        redact_text(redactor, &mut error.message);
        let more = error.path.iter_mut().chain(error.allowed.iter_mut().flatten());
        more.for_each(|text| redact_text(redactor, text));
    }
    if !fault.data.is_empty() {
        let mut data = Value::Object(std::mem::take(&mut fault.data));
        redactor.redact_value(&mut data);
        if let Value::Object(data) = data {
            fault.data = data;
        }
    }
}

fn redact_text(redactor: &Redactor, text: &mut String) {
    if let std::borrow::Cow::Owned(redacted) = redactor.redact(text) {
        *text = redacted;
    }
}
