//! Decides where blocks stand: by rising numbers with room between them, so that few ever move.

/// Room between two blocks that are put one after the other.
const STEP: u64 = 1 << 20;

/// Places for blocks in the order in which they are given: their present places, and none for new
/// ones. As many as possible stay; where there is no room, neighbours move too.
pub(super) fn places(present: &[Option<u64>]) -> Vec<u64> {
    let mut staying = rising(present);
    let mut places = Vec::with_capacity(present.len());
    let mut last = 0_u64;
    while let Some(here) = staying.get(places.len()).copied() {
        if let Some(at) = here {
            places.push(at);
            last = at;
            continue;
        }
        let begin = places.len();
        // Goes on to the next block that stays and leaves room for all that do not.
        let (end, step) = loop {
            let after = staying.iter().enumerate().skip(begin);
            let Some((next, at)) = after.filter_map(|(i, at)| Some((i, (*at)?))).next() else {
                break (staying.len(), STEP);
            };
            let count = u64::try_from(next - begin).unwrap_or(u64::MAX);
            match at.saturating_sub(last) / count.saturating_add(1) {
                0 => staying.iter_mut().skip(next).take(1).for_each(|at| *at = None),
                step => break (next, step),
            }
        };
        for _ in begin..end {
            last = last.saturating_add(step);
            places.push(last);
        }
    }
    places
}

/// The longest run of present places that rise; the others are taken out.
fn rising(present: &[Option<u64>]) -> Vec<Option<u64>> {
    let at = |index: &usize| present.get(*index).copied().flatten();
    // The last block of the best run of each length, and the block before each block.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(present.len());
    for (index, place) in present.iter().enumerate() {
        if place.is_none() {
            before.push(None);
            continue;
        }
        let length = ends.partition_point(|end| at(end) < *place);
        before.push(length.checked_sub(1).and_then(|shorter| ends.get(shorter).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut staying = vec![None; present.len()];
    let mut next = ends.last().copied();
    while let Some(index) = next {
        if let Some(stays) = staying.get_mut(index) {
            *stays = at(&index);
        }
        next = before.get(index).copied().flatten();
    }
    staying
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_move() {
        let table: &[(&[Option<u64>], &[u64])] = &[
            (&[None], &[STEP]),
            (&[Some(STEP), None], &[STEP, 2 * STEP]),
            (&[Some(10), None, Some(20)], &[10, 15, 20]),
            (&[None, Some(10)], &[5, 10]),
            // No room: the next one moves into the room behind it.
            (&[Some(10), None, Some(11), Some(40)], &[10, 20, 30, 40]),
            (&[Some(10), None, Some(11)], &[10, 10 + STEP, 10 + 2 * STEP]),
            // One block was carried to the front.
            (&[Some(30), Some(10), Some(20)], &[5, 10, 20]),
            (&[Some(7), Some(7)], &[7, 7 + STEP]),
        ];
        for (present, expected) in table {
            assert_eq!(places(present), *expected, "{present:?}");
        }
    }

    proptest! {
        #[test]
        fn places_rise(present in prop::collection::vec(prop::option::of(0_u64..40), 0..30)) {
            let places = places(&present);
            prop_assert_eq!(places.len(), present.len());
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", places);
            if present.is_sorted() && present.iter().all(Option::is_some)
                && present.windows(2).all(|pair| pair[0] < pair[1]) {
                let before: Vec<u64> = present.into_iter().flatten().collect();
                prop_assert_eq!(places, before);
            }
        }
    }
}
