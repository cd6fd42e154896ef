//! When a configuration may be used: the whole table of evidence.

use toolgate_kernel::config::{
    ConfigDigests, GateRule, MachinePolicy, TrustBasis, TrustEvidence, TrustGap,
};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::fold::TrustedConfig;

const ADA: PersonKey = PersonKey([1; 32]);
const BOB: PersonKey = PersonKey([2; 32]);

fn digests(reach: u8, gate: u8) -> ConfigDigests {
    let of = |byte: u8| Digest::of(&[byte]);
    ConfigDigests { reach: of(reach), gate: of(gate), rest: Digest::ZERO }
}

fn statement(reach: u8, gate: u8, by: PersonKey) -> TrustedConfig {
    let ConfigDigests { reach, gate, .. } = digests(reach, gate);
    TrustedConfig { reach, gate, by }
}

struct Case {
    is_harmless: bool,
    gate_rule: GateRule,
    statements: Vec<TrustedConfig>,
    operator: Option<Digest>,
    policy: MachinePolicy,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            is_harmless: false,
            gate_rule: GateRule::Any,
            statements: Vec::new(),
            operator: None,
            policy: MachinePolicy::default(),
        }
    }
}

/// What is decided about the configuration of reach 1 and gate 1.
fn decide(case: &Case) -> Result<TrustBasis, TrustGap> {
    let Case { is_harmless, gate_rule, statements, operator, policy } = case;
    let (is_harmless, gate_rule, operator) = (*is_harmless, *gate_rule, *operator);
    let digests = &digests(1, 1);
    TrustEvidence { digests, is_harmless, gate_rule, statements, operator, policy }.decide()
}

#[test]
fn what_reaches_something_needs_a_statement_for_exactly_that() {
    let with = |statements: Vec<TrustedConfig>| decide(&Case { statements, ..Case::default() });
    assert_eq!(with(vec![]), Err(TrustGap::NeverTrusted));
    assert_eq!(with(vec![statement(1, 1, ADA)]), Ok(TrustBasis::Statement));
    assert_eq!(with(vec![statement(2, 1, ADA)]), Err(TrustGap::Changed));
    assert_eq!(with(vec![statement(1, 2, ADA)]), Err(TrustGap::Changed));
}

#[test]
fn harmless_configurations_are_free_until_a_person_decided() {
    let gate = |byte: u8| digests(1, byte).gate;
    let with = |gate_rule, statements| {
        decide(&Case { is_harmless: true, gate_rule, statements, ..Case::default() })
    };
    assert_eq!(with(GateRule::Any, vec![]), Ok(TrustBasis::Harmless));
    assert_eq!(with(GateRule::Only(gate(1)), vec![]), Ok(TrustBasis::Harmless));
    assert_eq!(with(GateRule::Only(gate(2)), vec![]), Err(TrustGap::GateChanged));
    assert_eq!(with(GateRule::Trusted, vec![]), Err(TrustGap::GateChanged));
    assert_eq!(with(GateRule::Trusted, vec![statement(1, 2, ADA)]), Err(TrustGap::GateChanged));
    // It reaches something else than what was trusted, and that is harmless.
    assert_eq!(with(GateRule::Trusted, vec![statement(2, 1, ADA)]), Ok(TrustBasis::Harmless));
}

#[test]
fn a_digest_on_the_command_line_must_be_the_one_of_the_file() {
    let digest = |reach, gate| Some(digests(reach, gate).trust_digest());
    for is_harmless in [false, true] {
        let with = |operator| decide(&Case { is_harmless, operator, ..Case::default() });
        assert_eq!(with(digest(1, 1)), Ok(TrustBasis::CommandLine));
        for given in [digest(2, 1), digest(1, 2)] {
            assert_eq!(with(given), Err(TrustGap::OtherDigest { given: given.unwrap() }));
        }
    }
}

#[test]
fn a_machine_may_ask_for_two_owners_or_for_certain_people() {
    let with = |people: &[PersonKey], trust_count, statements| {
        let policy = MachinePolicy { people: people.to_vec(), digests: vec![], trust_count };
        decide(&Case { policy, statements, ..Case::default() })
    };
    let (ada, bob) = (statement(1, 1, ADA), statement(1, 1, BOB));
    let one_of_two = Err(TrustGap::TooFewOwners { found: 1, wanted: 2 });
    assert_eq!(with(&[], 2, vec![ada]), one_of_two);
    assert_eq!(with(&[], 2, vec![ada, ada]), one_of_two, "one owner twice is one owner");
    assert_eq!(with(&[], 2, vec![ada, statement(1, 2, BOB)]), one_of_two);
    assert_eq!(with(&[], 2, vec![ada, bob]), Ok(TrustBasis::Statement));
    assert_eq!(with(&[BOB], 1, vec![ada]), Err(TrustGap::Changed));
    assert_eq!(with(&[BOB], 1, vec![bob]), Ok(TrustBasis::Statement));
}

#[test]
fn the_policy_of_the_machine_wins_over_the_command_line() {
    let digest = digests(1, 1).trust_digest();
    let people = MachinePolicy { people: vec![ADA], ..MachinePolicy::default() };
    let with = |policy, operator| decide(&Case { policy, operator, ..Case::default() });
    assert_eq!(with(people.clone(), Some(digest)), Err(TrustGap::PeopleNeeded));
    let named = MachinePolicy { digests: vec![digest], ..people };
    assert_eq!(with(named, None), Ok(TrustBasis::MachinePolicy));
}
