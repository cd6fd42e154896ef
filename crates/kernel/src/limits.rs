//! Decides how much of anything is too much: every bound and deadline, units last.

use serde::{Deserialize, Serialize};

/// Every bound and every deadline. Zero never means "no limit": it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of a call's arguments.
    #[serde(alias = "max_tool_args_bytes")]
    pub args_bytes_max: u64,
    /// Nesting depth of a call's arguments.
    pub args_depth_max: u64,
    /// Keys and list items in a call's arguments, counted together.
    pub args_items_max: u64,
    /// Bytes of a result shown to the model; the full result is kept aside by its hash.
    #[serde(alias = "max_tool_output_bytes")]
    pub result_bytes_max: u64,
    /// Bytes of a result that are kept at all.
    pub result_kept_bytes_max: u64,
    /// Parts of a result, such as texts and pictures of an MCP server; those beyond are left out.
    pub result_parts_max: u64,
    /// Levels of nesting in a result.
    pub result_depth_max: u64,
    /// Milliseconds one call may take.
    pub call_ms_max: u64,
    /// Milliseconds a model may take for one reply.
    pub reply_ms_max: u64,
    /// Milliseconds a model may take for one turn with all its tries; one that stands in for it
    /// has as long again.
    pub turn_ms_max: u64,
    /// Bytes of a model's reply, its words and its calls together.
    pub reply_bytes_max: u64,
    /// Calls of a model's reply; one with more counts as one that failed.
    pub reply_calls_max: u64,
    /// Bytes of the name of a tool that a model or a client calls; a longer one is cut, and names
    /// no tool.
    pub call_name_bytes_max: u64,
    /// Bytes of the id that a provider or a client gives a call; a longer one is cut.
    pub call_id_bytes_max: u64,
    /// Bytes of what a provider says about a failure; more is cut.
    pub fault_bytes_max: u64,
    /// Milliseconds a person is waited for before a question is left pending.
    pub answer_ms_max: u64,
    /// Milliseconds after which a call that waits for a person's yes waits no more.
    pub approval_ms_max: u64,
    /// Calls of a session that wait for a person's yes; more are refused.
    pub approvals_max: u64,
    /// Calls of one MCP client that wait for a person's yes in a session; more are refused.
    pub approvals_client_max: u64,
    /// Bytes of the log; when it has more, calls are refused.
    pub log_bytes_max: u64,
    /// Bytes that the calls of one MCP client may add to a session in a day; more are refused.
    pub client_bytes_per_day_max: u64,
    /// Milliseconds one append to the log may take.
    pub append_ms_max: u64,
    /// Milliseconds the tools from outside that a phase needs may take to be there.
    pub supply_ms_max: u64,
    /// Milliseconds for the same before a client of `toolgate mcp` is shown a list without them: some
    /// clients wait for ten seconds.
    pub list_ms_max: u64,
    /// Milliseconds a run may be driven.
    pub run_ms_max: u64,
    /// Calls of one turn; the rest are answered with an error.
    pub turn_calls_max: u64,
    /// Turns of one iteration.
    pub iteration_turns_max: u64,
    /// Iterations of one session.
    pub iterations_max: u64,
    /// Iterations in a row in which no call succeeded before a run ends.
    pub idle_iterations_max: u64,
    /// Failed requests to the model in a row before a run comes to a halt.
    pub model_failures_max: u64,
    /// Milliseconds to wait after a failed request.
    pub retry_ms_max: u64,
    /// Tries of one request, the first among them.
    pub attempts_max: u64,
    /// Milliseconds between two tries, when the server does not say how long.
    pub backoff_ms_max: u64,
    /// Milliseconds a server may ask to wait before the next try.
    pub retry_after_ms_max: u64,
    /// Turns in a row that fail before a provider is left alone.
    pub breaker_failures_max: u64,
    /// Milliseconds a provider is left alone at a time.
    pub breaker_rest_ms_max: u64,
    /// Milliseconds a provider is left alone when there is no money.
    pub breaker_billing_ms_max: u64,
    /// Bytes of one picture.
    pub picture_bytes_max: u64,
    /// Pictures shown at once.
    pub pictures_max: u64,
    /// Bytes of all pictures of an iteration; those beyond are told of in words.
    pub pictures_bytes_max: u64,
    /// Times the same call may be repeated in a row.
    pub repeat_calls_max: u64,
    /// State changes one call may stage.
    pub changes_max: u64,
    /// Bytes of one staged value.
    pub value_bytes_max: u64,
    /// Notices one call may publish.
    pub notices_max: u64,
    /// Bytes of one message of an MCP server; a longer answer is cut off.
    pub mcp_message_bytes_max: u64,
    /// Tools an MCP server may have.
    pub mcp_tools_max: u64,
    /// Pages the list of an MCP server may have.
    pub mcp_pages_max: u64,
    /// Bytes that are kept of what the program of an MCP server writes to its error output.
    pub mcp_stderr_bytes_max: u64,
    /// Failures of an MCP server in a row, before it is left alone.
    pub mcp_failures_max: u64,
    /// Milliseconds an MCP server is left alone then.
    pub mcp_rest_ms_max: u64,
    /// Bytes of one message of an MCP client.
    pub mcp_body_bytes_max: u64,
    /// Connections of MCP clients at once.
    pub mcp_connections_max: u64,
    /// Messages of an MCP client in one batch.
    pub mcp_batch_max: u64,
    /// Calls of MCP clients that wait to be made.
    pub mcp_queue_max: u64,
    /// Calls of one MCP client that wait to be made.
    pub mcp_client_queue_max: u64,
    /// Milliseconds a call of an MCP client waits to be made.
    pub mcp_queue_ms_max: u64,
    /// Calls of MCP clients that are judged together.
    pub mcp_calls_together_max: u64,
    /// Calls of MCP clients at work at once.
    pub mcp_calls_at_once_max: u64,
    /// Questions to the users of MCP clients that wait for an answer.
    pub mcp_questions_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            args_bytes_max: 200_000,
            args_depth_max: 64,
            args_items_max: 10_000,
            result_bytes_max: 200_000,
            result_kept_bytes_max: 16 << 20,
            result_parts_max: 100,
            result_depth_max: 64,
            call_ms_max: 60_000,
            reply_ms_max: 120_000,
            turn_ms_max: 600_000,
            reply_bytes_max: 4 << 20,
            reply_calls_max: 1_000,
            call_name_bytes_max: 256,
            call_id_bytes_max: 4_096,
            fault_bytes_max: 4_096,
            answer_ms_max: 600_000,
            approval_ms_max: 24 * 3_600_000,
            approvals_max: 20,
            approvals_client_max: 5,
            log_bytes_max: 2 << 30,
            client_bytes_per_day_max: 256 << 20,
            append_ms_max: 30_000,
            supply_ms_max: 120_000,
            list_ms_max: 8_000,
            run_ms_max: 24 * 3_600_000,
            turn_calls_max: 32,
            iteration_turns_max: 100,
            iterations_max: 10_000,
            idle_iterations_max: 5,
            model_failures_max: 4,
            retry_ms_max: 3_000,
            attempts_max: 4,
            backoff_ms_max: 8_000,
            retry_after_ms_max: 60_000,
            breaker_failures_max: 3,
            breaker_rest_ms_max: 600_000,
            breaker_billing_ms_max: 300_000,
            picture_bytes_max: 5 << 20,
            pictures_max: 16,
            pictures_bytes_max: 64 << 20,
            repeat_calls_max: 5,
            changes_max: 1_000,
            value_bytes_max: 4 << 20,
            notices_max: 100,
            mcp_message_bytes_max: 4 << 20,
            mcp_tools_max: 512,
            mcp_pages_max: 100,
            mcp_stderr_bytes_max: 64 << 10,
            mcp_failures_max: 5,
            mcp_rest_ms_max: 60_000,
            mcp_body_bytes_max: 1 << 20,
            mcp_connections_max: 512,
            mcp_batch_max: 50,
            mcp_queue_max: 256,
            mcp_client_queue_max: 128,
            mcp_queue_ms_max: 60_000,
            mcp_calls_together_max: 32,
            mcp_calls_at_once_max: 64,
            mcp_questions_max: 256,
        }
    }
}

/// Longest deadline a call may be given: fifteen minutes.
pub const CALL_MS_CEILING: u64 = 15 * 60_000;

/// A limit that would switch itself off or promise the impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefusal {
    /// Zero was given where a bound is due.
    #[error("limit {0} is 0: every limit must be at least 1; leave the line out for the default")]
    Zero(&'static str),
    /// The bound is above what can be kept.
    #[error("limit {name} is {given}: at most {ceiling} is possible")]
    TooHigh {
        /// The limit's name.
        name: &'static str,
        /// What was asked for.
        given: u64,
        /// What is possible.
        ceiling: u64,
    },
}

impl LimitRefusal {
    /// The limit.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Zero(name) | Self::TooHigh { name, .. } => name,
        }
    }
}

impl Limits {
    /// Refuses zero and what cannot be kept.
    pub fn check(&self) -> Result<(), LimitRefusal> {
        self.refusals().next().map_or(Ok(()), Err)
    }

    /// Every limit that is zero or cannot be kept.
    pub fn refusals(&self) -> impl Iterator<Item = LimitRefusal> {
        self.table().into_iter().filter_map(|(name, given, ceiling)| match given {
            0 => Some(LimitRefusal::Zero(name)),
            _ if given > ceiling => Some(LimitRefusal::TooHigh { name, given, ceiling }),
            _ => None,
        })
    }

    /// Every limit with its name, its value and its ceiling, in the order of the docs.
    pub fn table(&self) -> [(&'static str, u64, u64); 59] {
        const BYTES: u64 = 64 << 20;
        // What is read from a file is no longer than this.
        const FILE_BYTES: u64 = 16 << 20;
        const HOUR_MS: u64 = 3_600_000;
        const MS: u64 = 30 * 24 * HOUR_MS;
        const COUNT: u64 = 1_000_000;
        [
            ("args_bytes_max", self.args_bytes_max, BYTES),
            // The parser itself stops at 128 levels.
            ("args_depth_max", self.args_depth_max, 120),
            ("args_items_max", self.args_items_max, COUNT),
            ("result_bytes_max", self.result_bytes_max, BYTES),
            ("result_kept_bytes_max", self.result_kept_bytes_max, BYTES),
            ("result_parts_max", self.result_parts_max, 10_000),
            ("result_depth_max", self.result_depth_max, 120),
            ("call_ms_max", self.call_ms_max, CALL_MS_CEILING),
            ("reply_ms_max", self.reply_ms_max, CALL_MS_CEILING),
            ("turn_ms_max", self.turn_ms_max, HOUR_MS),
            ("reply_bytes_max", self.reply_bytes_max, BYTES),
            ("reply_calls_max", self.reply_calls_max, 10_000),
            ("call_name_bytes_max", self.call_name_bytes_max, 65_536),
            ("call_id_bytes_max", self.call_id_bytes_max, 65_536),
            ("fault_bytes_max", self.fault_bytes_max, 65_536),
            ("answer_ms_max", self.answer_ms_max, MS),
            ("approval_ms_max", self.approval_ms_max, MS),
            ("approvals_max", self.approvals_max, 1_000),
            ("approvals_client_max", self.approvals_client_max, 1_000),
            ("log_bytes_max", self.log_bytes_max, 1 << 40),
            ("client_bytes_per_day_max", self.client_bytes_per_day_max, 1 << 40),
            ("append_ms_max", self.append_ms_max, CALL_MS_CEILING),
            ("supply_ms_max", self.supply_ms_max, CALL_MS_CEILING),
            ("list_ms_max", self.list_ms_max, CALL_MS_CEILING),
            ("run_ms_max", self.run_ms_max, MS),
            ("turn_calls_max", self.turn_calls_max, 1_000),
            ("iteration_turns_max", self.iteration_turns_max, COUNT),
            ("iterations_max", self.iterations_max, COUNT),
            ("idle_iterations_max", self.idle_iterations_max, COUNT),
            ("model_failures_max", self.model_failures_max, COUNT),
            ("retry_ms_max", self.retry_ms_max, CALL_MS_CEILING),
            ("attempts_max", self.attempts_max, 100),
            ("backoff_ms_max", self.backoff_ms_max, CALL_MS_CEILING),
            ("retry_after_ms_max", self.retry_after_ms_max, CALL_MS_CEILING),
            ("breaker_failures_max", self.breaker_failures_max, COUNT),
            ("breaker_rest_ms_max", self.breaker_rest_ms_max, 24 * HOUR_MS),
            ("breaker_billing_ms_max", self.breaker_billing_ms_max, 24 * HOUR_MS),
            ("picture_bytes_max", self.picture_bytes_max, FILE_BYTES),
            ("pictures_max", self.pictures_max, 100),
            ("pictures_bytes_max", self.pictures_bytes_max, 256 << 20),
            ("repeat_calls_max", self.repeat_calls_max, COUNT),
            ("changes_max", self.changes_max, COUNT),
            ("value_bytes_max", self.value_bytes_max, BYTES),
            ("notices_max", self.notices_max, 10_000),
            ("mcp_message_bytes_max", self.mcp_message_bytes_max, BYTES),
            ("mcp_tools_max", self.mcp_tools_max, 10_000),
            ("mcp_pages_max", self.mcp_pages_max, 10_000),
            ("mcp_stderr_bytes_max", self.mcp_stderr_bytes_max, FILE_BYTES),
            ("mcp_failures_max", self.mcp_failures_max, 1_000),
            ("mcp_rest_ms_max", self.mcp_rest_ms_max, 24 * HOUR_MS),
            ("mcp_body_bytes_max", self.mcp_body_bytes_max, BYTES),
            ("mcp_connections_max", self.mcp_connections_max, 10_000),
            ("mcp_batch_max", self.mcp_batch_max, 1_000),
            ("mcp_queue_max", self.mcp_queue_max, 10_000),
            ("mcp_client_queue_max", self.mcp_client_queue_max, 10_000),
            ("mcp_queue_ms_max", self.mcp_queue_ms_max, CALL_MS_CEILING),
            ("mcp_calls_together_max", self.mcp_calls_together_max, 1_000),
            ("mcp_calls_at_once_max", self.mcp_calls_at_once_max, 1_000),
            ("mcp_questions_max", self.mcp_questions_max, 10_000),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_zero_never_means_unlimited() {
        assert_eq!(Limits::default().check(), Ok(()));
        let limits = Limits { call_ms_max: 0, ..Limits::default() };
        assert_eq!(limits.check(), Err(LimitRefusal::Zero("call_ms_max")));
        let limits = Limits { call_ms_max: CALL_MS_CEILING + 1, ..Limits::default() };
        assert!(matches!(limits.check(), Err(LimitRefusal::TooHigh { .. })));
    }

    #[test]
    fn the_table_lists_every_field() {
        let fields = serde_json::to_value(Limits::default()).unwrap();
        let mut named: Vec<_> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        let mut listed: Vec<_> = Limits::default().table().iter().map(|row| row.0).collect();
        named.sort_unstable();
        listed.sort_unstable();
        assert_eq!(named, listed);
    }
}
