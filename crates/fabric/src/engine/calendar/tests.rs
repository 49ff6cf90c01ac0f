use nic::Instant;
use proptest::prelude::*;

use super::*;
use crate::engine::Kind;
use crate::random::Random;

fn event(picos: u64, place: u32) -> Event {
    Event::new(Instant::from_picos(picos), Kind::Wake, place, 0)
}

#[test]
fn an_empty_queue_has_nothing_due() {
    let mut queue = Calendar::new();
    assert_eq!(queue.pop(), None);
    queue.push(event(5, 1));
    assert_eq!(queue.pop_until(4), None);
    assert_eq!(queue.pop_until(5), Some(event(5, 1)));
    assert!(queue.is_empty());
}

#[test]
fn an_event_may_be_pushed_before_one_that_was_looked_at() {
    let mut queue = Calendar::new();
    queue.push(event(1_000_000, 1));
    assert_eq!(queue.pop_until(10), None);
    queue.push(event(20, 2));
    assert_eq!(queue.pop(), Some(event(20, 2)));
    assert_eq!(queue.pop(), Some(event(1_000_000, 1)));
}

/// Pushes and pops as a simulation does, and compares every pop with a heap.
fn agrees_with_a_heap(seed: u64, pending: usize, operations: usize, ahead: &[u64]) {
    let mut random = Random::new(seed);
    let (mut queue, mut heap) = (Calendar::new(), BinaryHeap::new());
    let mut place = 0;
    let mut add = |now: u64, queue: &mut Calendar, heap: &mut BinaryHeap<_>| {
        let delay = ahead[random.below(ahead.len() as u64) as usize];
        place += 1;
        let event = event(now + random.below(delay + 1), place);
        queue.push(event);
        heap.push(Reverse(event));
    };
    for _ in 0..pending {
        add(0, &mut queue, &mut heap);
    }
    for _ in 0..operations {
        let popped = queue.pop().unwrap();
        assert_eq!(popped, heap.pop().unwrap().0);
        add(popped.picos(), &mut queue, &mut heap);
        assert_eq!(queue.len(), heap.len());
    }
    while let Some(Reverse(event)) = heap.pop() {
        assert_eq!(queue.pop(), Some(event));
    }
    assert_eq!(queue.pop(), None);
}

#[test]
fn the_order_is_that_of_a_heap_whatever_the_width_of_the_buckets() {
    agrees_with_a_heap(1, 10, 200_000, &[84_000, 1_084_000]);
    agrees_with_a_heap(2, 2_000, 300_000, &[84_000, 1_084_000, 500_000_000]);
    agrees_with_a_heap(3, 5_000, 300_000, &[100]);
    agrees_with_a_heap(5, 50, 400_000, &[2_000, 40_000_000_000]);
    agrees_with_a_heap(6, 400, 400_000, &[5_000, 100_000, 900_000_000]);
    agrees_with_a_heap(4, 1, 100_000, &[1_000_000_000_000, 0]);
}

#[test]
fn the_width_follows_the_load() {
    let mut crowded = Calendar::new();
    let mut sparse = Calendar::new();
    for place in 0..10_000 {
        crowded.push(event(u64::from(place), place));
    }
    sparse.push(event(0, 0));
    for _ in 0..4 * ADAPT_EVERY {
        let now = crowded.pop().unwrap();
        crowded.push(event(now.picos() + 10_000, now.place()));
        let now = sparse.pop().unwrap();
        sparse.push(event(now.picos() + 500_000_000, 0));
    }
    assert!(crowded.shift < Calendar::FIRST_SHIFT, "{}", crowded.shift);
    assert!(sparse.shift > Calendar::FIRST_SHIFT, "{}", sparse.shift);
}

proptest! {
    #[test]
    fn any_pattern_of_delays_comes_out_in_order(
        seed in any::<u64>(),
        pending in 1usize..200,
        ahead in proptest::collection::vec(0u64..1 << 36, 1..4),
    ) {
        agrees_with_a_heap(seed, pending, 500, &ahead);
    }
}
