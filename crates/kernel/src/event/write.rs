//! Decides how a record is written. The text is serde's, but the three records of every call are
//! put together by hand: writing them is the largest part of what a call costs.

use serde::Serialize;

use super::{
    Authored, CallAdmitted, CallSettled, Event, InboxEvent, ProjectEvent, RawCall, Record,
};
use crate::actor::Actor;
use crate::digest::{Digest, Tag, hex};
use crate::envelope::Envelope;
use crate::json::{write_inner, write_text};
use crate::key::{Key, Touched};
use crate::names::CallId;
use crate::receipt::Receipt;

/// An event that can be written to the log.
pub trait Written: Authored + Serialize {
    /// Appends the event as serde writes it.
    fn write(&self, out: &mut Vec<u8>) {
        Text(out).json(self);
    }
}

impl Written for ProjectEvent {}
impl Written for InboxEvent {}

impl Written for Event {
    fn write(&self, out: &mut Vec<u8>) {
        let mut text = Text(out);
        if let Self::CallReceived { call, of: None } = self {
            text.received(call);
        } else if let Self::CallAdmitted(admitted) = self {
            text.admitted(admitted);
        } else if let Self::CallSettled(settled) = self {
            text.settled(settled);
        } else {
            text.json(self);
        }
    }
}

impl<E: Written> Record<E> {
    /// Appends the record as serde writes it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut text = Text(out);
        text.raw("{\"seq\":").number(self.seq).raw(",\"at\":").number(self.at.0);
        text.raw(",\"actor\":").actor(&self.actor);
        text.raw(",\"epoch\":").number(self.epoch);
        if let Some(saw) = &self.saw {
            text.raw(",\"saw\":{\"seq\":")
                .number(saw.seq)
                .raw(",\"hash\":")
                .digest(&saw.hash)
                .raw("}");
        }
        text.raw(",\"event\":");
        self.event.write(text.0);
        if let Some(decision) = &self.decision {
            Text(out).raw(",\"decision\":").json(decision);
        }
        out.push(b'}');
        // Every test of the workspace writes records, so every test compares.
        debug_assert!(
            out.get(start..).map(String::from_utf8_lossy)
                == serde_json::to_string(self).ok().map(Into::into),
            "{}",
            String::from_utf8_lossy(out)
        );
    }
}

/// A record that is being written.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    /// Text of ours, as it is.
    fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// A name of ours in quotes: its grammar has nothing to escape.
    fn name(&mut self, name: &str) -> &mut Self {
        self.raw("\"").raw(name).raw("\"")
    }

    fn text(&mut self, text: &str) -> &mut Self {
        write_text(text, self.0);
        self
    }

    fn number(&mut self, number: impl itoa::Integer) -> &mut Self {
        self.raw(itoa::Buffer::new().format(number))
    }

    fn actor(&mut self, actor: &Actor) -> &mut Self {
        self.raw("\"").raw(actor.kind());
        if let Some(name) = actor.name() {
            self.raw(":");
            write_inner(name, self.0);
        }
        self.raw("\"")
    }

    fn call(&mut self, call: CallId) -> &mut Self {
        self.raw("\"c").number(call.0).raw("\"")
    }

    fn key(&mut self, key: &Key) -> &mut Self {
        self.raw("\"").raw(key.family().as_str());
        if !key.name().is_empty() {
            self.raw(":");
            write_inner(key.name(), self.0);
        }
        self.raw("\"")
    }

    fn digest(&mut self, digest: &Digest) -> &mut Self {
        self.raw("\"").hex(&digest.0).raw("\"")
    }

    fn tag(&mut self, tag: Tag) -> &mut Self {
        self.raw("\"").hex(tag.bytes()).raw("\"")
    }

    fn receipt(&mut self, receipt: &Receipt) -> &mut Self {
        self.raw("\"rcpt_").hex(receipt.bytes()).raw("\"")
    }

    fn hex(&mut self, bytes: &[u8]) -> &mut Self {
        let start = self.0.len();
        self.0.resize(start + 2 * bytes.len(), b'0');
        if let Some(digits) = self.0.get_mut(start..) {
            hex(bytes, digits);
        }
        self
    }

    /// Anything, the way serde does it.
    fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> &mut Self {
        // Writing our own plain types into memory has no way to fail.
        let written = serde_json::to_writer(&mut *self.0, value);
        debug_assert!(written.is_ok());
        self
    }

    /// A list that is left out when it is empty.
    fn list<T: Serialize>(&mut self, key: &str, list: &[T]) -> &mut Self {
        if list.is_empty() { self } else { self.raw(key).json(list) }
    }

    fn received(&mut self, call: &RawCall) {
        self.raw("{\"kind\":\"call_received\",\"call\":{\"id\":").call(call.id);
        self.raw(",\"name\":").text(&call.name).raw(",\"args\":").text(&call.args);
        if let Some(alias) = &call.alias {
            self.raw(",\"alias\":").text(alias);
        }
        self.raw("}}");
    }

    fn admitted(&mut self, admitted: &CallAdmitted) {
        self.raw("{\"kind\":\"call_admitted\",\"call\":").call(admitted.call);
        self.raw(",\"tool\":").name(admitted.tool.as_str());
        self.raw(",\"version\":").tag(admitted.version);
        self.raw(",\"effect\":").name(admitted.effect.as_str());
        if let Some(args) = &admitted.args {
            self.raw(",\"args\":").json(args);
        }
        self.raw(",\"args_hash\":").digest(&admitted.args_hash);
        if !admitted.basis.is_rules() {
            self.raw(",\"basis\":").json(&admitted.basis);
        }
        if let Some(frame) = &admitted.frame {
            self.raw(",\"frame\":").digest(frame);
        }
        self.touched(",\"touches\":[", &admitted.touches);
        self.list(",\"warnings\":", &admitted.warnings);
        if let Some(labels) = &admitted.labels {
            self.raw(",\"labels\":").json(labels);
        }
        self.raw("}");
    }

    fn settled(&mut self, settled: &CallSettled) {
        self.raw("{\"kind\":\"call_settled\",\"call\":").call(settled.call);
        self.raw(",\"outcome\":").name(settled.outcome.as_str());
        self.raw(",\"envelope\":").envelope(&settled.envelope);
        if settled.message_only {
            self.raw(",\"message_only\":true");
        }
        self.list(",\"changes\":", &settled.changes).list(",\"files\":", &settled.files);
        self.touched(",\"touched\":[", &settled.touched);
        self.list(",\"notices\":", &settled.notices);
        if let Some(kept) = &settled.kept {
            self.raw(",\"kept\":").json(kept);
        }
        self.list(",\"attached\":", &settled.attached);
        if let Some(spent) = &settled.spent {
            self.raw(",\"spent\":").json(spent);
        }
        self.raw("}");
    }

    fn envelope(&mut self, envelope: &Envelope) {
        self.raw(if envelope.ok { "{\"ok\":true,\"tool\":" } else { "{\"ok\":false,\"tool\":" });
        self.text(&envelope.tool);
        if !envelope.message.is_empty() {
            self.raw(",\"message\":").text(&envelope.message);
        }
        self.raw(",\"data\":");
        if envelope.data.is_null() {
            self.raw("null")
        } else {
            self.json(&envelope.data)
        };
        self.list(",\"warnings\":", &envelope.warnings).list(",\"errors\":", &envelope.errors);
        if let Some(receipt) = &envelope.receipt {
            self.raw(",\"receipt\":").receipt(receipt);
        }
        self.raw("}");
    }

    fn touched(&mut self, key: &str, list: &[Touched]) {
        for (at, touched) in list.iter().enumerate() {
            self.raw(if at == 0 { key } else { "," });
            self.raw("{\"access\":").name(touched.access.as_str());
            self.raw(",\"key\":").key(&touched.key);
            if let Some(version) = &touched.version {
                self.raw(",\"version\":").digest(version);
            }
            self.raw("}");
        }
        if !list.is_empty() {
            self.raw("]");
        }
    }
}
