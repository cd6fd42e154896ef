//! `change_phase`: where one may go from here, and what is said when one may not (1.5, R10, R11).

use serde_json::json;
use toolgate_kernel::envelope::Code;

use crate::room::Room;

#[tokio::test]
async fn a_phase_is_entered_when_the_present_one_leads_there() {
    let mut room = Room::open().await;
    let all = vec!["A_END", "B_DRAFT", "C_REVISE"];
    let table = [
        ("NOWHERE", "There is no phase NOWHERE.", all.clone()),
        ("no such phase!", "There is no phase \"no such phase!\".", all),
        ("A_END", "Phase B_DRAFT does not lead to A_END.", vec!["C_REVISE", "B_DRAFT"]),
    ];
    for (phase, message, allowed) in table {
        let args = json!({ "new_phase": phase, "reason": "why not" });
        let (code, told, path, may) = room.fails("change_phase", args).await;
        assert_eq!((code, told.as_str()), (Code::TRANSITION_REFUSED, message));
        assert_eq!(
            (path.as_deref(), may.unwrap()),
            (Some("new_phase"), allowed.iter().map(|p| (*p).to_owned()).collect())
        );
        assert_eq!(room.driver.session().phase.as_ref().unwrap().as_str(), "B_DRAFT");
    }
    // To the same phase, when it is listed; spaces around a name are no part of it.
    for (phase, message) in
        [("B_DRAFT", "Now in phase B_DRAFT."), (" C_REVISE ", "Now in phase C_REVISE.")]
    {
        let args = json!({ "new_phase": phase, "reason": "done" });
        assert_eq!(room.works("change_phase", args).await.0, message);
    }
    assert_eq!(room.driver.session().phase.as_ref().unwrap().as_str(), "C_REVISE");
}

#[tokio::test]
async fn a_reason_must_be_given() {
    let mut room = Room::open().await;
    for reason in [json!(""), json!(" \n"), json!("x".repeat(1_001))] {
        let args = json!({ "new_phase": "C_REVISE", "reason": reason });
        let (code, message, ..) = room.fails("change_phase", args).await;
        assert_eq!(code, Code::ARGUMENTS_INVALID);
        assert!(message.starts_with("reason: has "), "{message}");
    }
    let (_, message, ..) = room.fails("change_phase", json!({ "new_phase": "C_REVISE" })).await;
    assert_eq!(message, "reason: is required");
}
