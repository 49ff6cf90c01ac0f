//! Heaps that compare events.

use std::cmp::Reverse;

use fabric::engine::Event;

use crate::Queue;

/// The standard library's.
#[derive(Default)]
pub struct BinaryHeap(std::collections::BinaryHeap<Reverse<Event>>);

impl Queue for BinaryHeap {
    fn push(&mut self, event: Event) {
        self.0.push(Reverse(event));
    }

    fn pop(&mut self) -> Option<Event> {
        self.0.pop().map(|Reverse(event)| event)
    }
}

/// A heap of four children a node, which lie in one cache line.
#[derive(Default)]
pub struct QuaternaryHeap(Vec<Event>);

impl Queue for QuaternaryHeap {
    fn push(&mut self, event: Event) {
        let mut hole = self.0.len();
        self.0.push(event);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.0[parent] <= event {
                break;
            }
            self.0[hole] = self.0[parent];
            hole = parent;
        }
        self.0[hole] = event;
    }

    fn pop(&mut self) -> Option<Event> {
        let last = self.0.pop()?;
        let Some(first) = self.0.first().copied() else { return Some(last) };
        self.sink(last);
        Some(first)
    }
}

impl QuaternaryHeap {
    fn sink(&mut self, event: Event) {
        let mut hole = 0;
        loop {
            let first = 4 * hole + 1;
            let end = (first + 4).min(self.0.len());
            let Some(child) = (first..end).min_by_key(|child| self.0[*child].key()) else { break };
            if event <= self.0[child] {
                break;
            }
            self.0[hole] = self.0[child];
            hole = child;
        }
        self.0[hole] = event;
    }
}
