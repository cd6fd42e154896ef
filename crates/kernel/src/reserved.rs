//! Lists the names of acts that only a person may do. No tool may have such a name, from any source: a
//! model that sees `facts_commit` or `approve` believes that it may decide what a person
//! decides, and a person who reads the log believes that a person did.

use std::sync::LazyLock;

/// The acts, each in the spellings that a tool would have. What matters is letters and digits: case,
/// `_`, `-` and `.` make no difference.
const ACTS: &[&str] = &[
    "accept_fact",
    "accept_facts",
    "accept_pin",
    "accept_pins",
    "accept_proposal",
    "accept_proposals",
    "accept_restore",
    "allow_always",
    "allow_call",
    "allow_tool_call",
    "always_allow",
    "always_approve",
    "apply_proposal",
    "apply_proposals",
    "approval",
    "approve",
    "approve_call",
    "approve_calls",
    "approve_proposal",
    "approve_proposals",
    "approval_deny",
    "approval_accept",
    "approval_confirm",
    "approval_decide",
    "approval_reject",
    "approval_grant",
    "approve_action",
    "approve_actions",
    "approve_all",
    "approve_always",
    "approve_and_run",
    "approve_edit",
    "approve_fact",
    "approve_facts",
    "approve_it",
    "approve_next",
    "approve_now",
    "approve_pending",
    "approve_request",
    "approve_requests",
    "approve_session",
    "approve_this",
    "approve_tool",
    "approve_tool_call",
    "approve_tool_calls",
    "approve_tools",
    "auto_approve",
    "call_approve",
    "call_deny",
    "calls_approve",
    "calls_deny",
    "clear_taint",
    "confirm_approval",
    "confirm_call",
    "confirm_tool_call",
    "confirm_fact",
    "confirm_facts",
    "catalog_approve",
    "catalogue_approve",
    "commit_fact",
    "commit_all_facts",
    "commit_facts",
    "deny",
    "deny_all",
    "deny_call",
    "deny_calls",
    "deny_tool_call",
    "delegate_approval",
    "delegate_approvals",
    "edit_call",
    "enrol",
    "enrol_key",
    "enrol_people",
    "enroll",
    "enroll_key",
    "enroll_person",
    "enrol_person",
    "fact_accept",
    "fact_approve",
    "fact_confirm",
    "fact_commit",
    "fact_lock",
    "fact_reject",
    "fact_unlock",
    "facts_accept",
    "facts_approve",
    "facts_commit",
    "facts_commit_all",
    "facts_confirm",
    "facts_lock",
    "facts_reject",
    "facts_unlock",
    "give_approval",
    "grant_approval",
    "grant_trust",
    "lock_fact",
    "lock_facts",
    "log_accept_restore",
    "log_move",
    "log_restart",
    "mcp_login",
    "mcp_trust",
    "mcp_pins_accept",
    "mcp_pins_reject",
    "people",
    "people_add",
    "people_approve",
    "people_enrol",
    "people_enroll",
    "people_remove",
    "people_revoke",
    "person_enrol",
    "person_enroll",
    "person_remove",
    "person_revoke",
    "pin_accept",
    "pin_reject",
    "pins",
    "pins_accept",
    "pins_reject",
    "prompt_tool_approve",
    "prompt_tool_reject",
    "prompt_tool_rollback",
    "proposal_accept",
    "proposal_apply",
    "proposal_approve",
    "proposal_reject",
    "proposals_accept",
    "proposals_apply",
    "proposals_approve",
    "proposals_reject",
    "reject_fact",
    "reject_facts",
    "reject_pin",
    "reject_pins",
    "reject_proposal",
    "reject_proposals",
    "restart_log",
    "revoke_people",
    "revoke_person",
    "revoke_trust",
    "self_approve",
    "session_undo",
    "sessions_undo",
    "sign_decision",
    "taint_clear",
    "tool_approve",
    "tools_approve",
    "trust",
    "trust_add",
    "trust_config",
    "trust_configuration",
    "trust_client_user",
    "trust_folder",
    "trust_project",
    "trust_revoke",
    "trust_server",
    "trust_tool",
    "unlock_fact",
    "unlock_facts",
    "untrust",
    "withdraw_approval",
    "withdraw_approvals",
];

/// Every name that begins so is one of them.
const FAMILIES: &[&str] = &["approvals"];

/// The act of a person that a name is taken for, or nothing. The part behind a `__` counts by itself:
/// `mcp__server__approve` is `approve`. The name of the server is the person's own choice.
pub fn person_only_act(name: &str) -> Option<&'static str> {
    let of_server = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    let name = of_server.map_or(name, |(_, tool)| tool);
    let parts = name.match_indices("__").filter_map(|(at, _)| name.get(at..));
    std::iter::once(name).chain(parts).find_map(act_of)
}

/// The act that a part of a name is taken for, with or without a version before it: `v1_approve`
/// reads like the act itself, and so does `toolgate_v1_approve`.
fn act_of(part: &str) -> Option<&'static str> {
    let mut rest = part;
    loop {
        if let Some(act) = versioned_act_of(rest) {
            return Some(act);
        }
        rest = without_first_word(rest)?;
    }
}

/// A name without a version or `toolgate` before it; nothing where it begins with neither.
fn without_first_word(name: &str) -> Option<&str> {
    let end = name.find(|c: char| !c.is_ascii_alphanumeric())?;
    let (word, rest) = name.split_at_checked(end)?;
    let digits = word.strip_prefix(['v', 'V']).unwrap_or(word);
    let is_version = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_own = word.eq_ignore_ascii_case("toolgate");
    (is_version || is_own).then(|| rest.get(1..))?
}

/// The same with or without a version behind it: `approve_v2`. A digit may be read as a letter or as
/// a number (`trus7`, `trust_7`), so every number of characters of the version is left out once.
fn versioned_act_of(part: &str) -> Option<&'static str> {
    let mut rest = part;
    loop {
        let versionless = rest.strip_suffix(['v', 'V']).filter(|_| rest.len() < part.len());
        let act = [Some(rest), versionless].into_iter().flatten().find_map(plain_act_of);
        let shorter = rest.strip_suffix(|c: char| !c.is_ascii_alphabetic()).or(versionless);
        match (act, shorter) {
            (None, Some(shorter)) => rest = shorter,
            (act, _) => return act,
        }
    }
}

fn plain_act_of(part: &str) -> Option<&'static str> {
    let name = folded(part);
    // `toolgate_approve` reads like the act too.
    let own = name.strip_prefix("toolgate");
    named_act(&name).or_else(|| own.and_then(named_act))
}

fn named_act(folded_name: &str) -> Option<&'static str> {
    /// Every family and act as names are compared with it.
    static FOLDED: LazyLock<[Vec<(String, &str)>; 2]> = LazyLock::new(|| {
        [FAMILIES, ACTS].map(|names| names.iter().map(|name| (folded(name), *name)).collect())
    });
    let [families, acts] = &*FOLDED;
    let family = families.iter().find(|(family, _)| folded_name.starts_with(family));
    let act = family.or_else(|| acts.iter().find(|(act, _)| act == folded_name));
    act.map(|(_, name)| *name)
}

/// A name as it is read at a glance: without case and signs, and with characters that are taken for
/// each other as one. Names of tools are ASCII, so no other alphabet needs a look.
fn folded(name: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        '0' => 'o',
        '1' | 'i' | '|' | '!' => 'l',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        other => other,
    };
    let letters = name.chars().map(letter).filter(char::is_ascii_alphanumeric);
    letters.collect::<String>().replace("rn", "m").replace("vv", "w").replace("cl", "d")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_of_people_are_known_in_any_spelling() {
        for name in [
            "facts_commit",
            "Facts-Commit",
            "facts.commit",
            "FACTS__COMMIT",
            "factsCommit",
            "facts_c0mmit",
            "facts_cornmit",
            "commit_fact",
            "approve",
            "APPROVE",
            "appr0ve",
            "_approve_",
            "approvals",
            "approvals_list",
            "approvals-grant",
            "Approvals.Approve",
            "trust",
            "Tru5t",
            "untrust",
            "pins_accept",
            "proposals_approve",
            "log_restart",
            "1og_restart",
            "mcp__web__facts_commit",
            "mcp__web__toolgate__approve",
            "mcp__a_b__Approvals_x",
            "toolgate_approve",
            "mcp__web__toolgate_facts_commit",
            "approve_v2",
            "facts_commit9",
            "enrol",
            "approve_v1",
            "approve_v10",
            "v1_approve",
            "V2.facts_commit",
            "approval_accept",
            "approve_tool_call",
            "proposals_apply",
            "trust_config",
            "2_approve",
            "v1.2-trust",
            "v1_approve_v2",
            "toolgate_v1_approve",
            "mcp__web__v3_approvals_list",
            "approve1",
            "facts_commit_1",
            "trust_1",
            "trus7",
            "trus7_2",
            "deny_v4",
            "deny-v4.5",
            "pins_accept_3",
            "mcp__web__approve_V07",
            "toolgate_trust_5",
            "approve_fact",
            "approve_facts",
            "facts_approve",
            "facts_accept",
            "accept_facts",
            "facts_commit_all",
            "clear_taint",
            "taint-clear",
            "toolgate_clear_taint",
            "auto_approve",
            "autoApprove",
            "approve_now",
            "approve_this_v2",
            "call_approve",
            "tool.approve",
            "allow_tool_call",
            "always_allow",
            "withdraw_approval",
            "sign_decision",
            "revoke_trust",
            "cleny",
            "cleny_ca11",
        ] {
            assert!(person_only_act(name).is_some(), "{name}");
        }
        for name in [
            "facts_propose",
            "approve_pull_request",
            "approval_rules_list",
            "trustpilot_reviews",
            "pin_message",
            "pins_list",
            "list_people",
            "add_person",
            "git_commit",
            "commit",
            "lock",
            "mcp__approve__list",
            "mcp__approvals__list",
            "mcp__people__add",
            "approve_pull_request_v1",
            "v1_approve_pull_request",
            "v1_list",
            "v1_",
            "_",
            "allow",
            "edit",
            "withdraw",
            "clear",
            "delegate",
            "decide",
            "approve_invoice",
            "withdraw_funds",
            "token_create",
            "commit_1",
            "convert_0",
            "v1",
            "10",
            "",
        ] {
            assert_eq!(person_only_act(name), None, "{name}");
        }
    }
}
