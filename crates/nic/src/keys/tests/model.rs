//! The table against a model that looks through lists and computes in 128 bits.

use proptest::prelude::*;
use std::vec::Vec;

use super::*;

/// What a key gives access to, as the model sees it.
#[derive(Clone, Debug)]
struct Reach {
    key: u32,
    pd: Pd,
    qpn: Option<Qpn>,
    iova: i128,
    address: u64,
    length: i128,
    access: Access,
}

#[derive(Clone, Debug)]
struct ModelRegion {
    mr: Mr,
    reach: Reach,
}

#[derive(Clone, Debug)]
struct ModelWindow {
    mw: Mw,
    mw_type: MwType,
    pd: Pd,
    key: u32,
    bound: Option<(Mr, Reach)>,
}

#[derive(Default)]
struct Model {
    regions: Vec<ModelRegion>,
    windows: Vec<ModelWindow>,
    /// Every key there ever was.
    keys: Vec<u32>,
}

/// Indices pick among what exists.
#[derive(Clone, Debug)]
enum Step {
    Register { pd: Pd, address: u64, length: u64, iova: u64, access: Access },
    Reregister { pick: usize, change: MrChange },
    Deregister { pick: usize },
    AllocateWindow { pd: Pd, mw_type: MwType },
    DeallocateWindow { pick: usize },
    Bind { pd: Pd, qpn: Qpn, pick: usize, tag: u8, region: usize, offset: u64, length: u64, access: Access },
    Invalidate { pd: Pd, qpn: Qpn, pick: usize },
    Access { pd: Pd, qpn: Qpn, pick: usize, offset: u64, length: u64, need: RemoteNeed },
}

impl Reach {
    /// Where the range is, if it is wholly inside.
    fn place(&self, address: u64, length: u64) -> Option<u64> {
        let offset = i128::from(address) - self.iova;
        let inside = offset >= 0 && offset + i128::from(length) <= self.length;
        inside.then(|| self.address + offset as u64)
    }
}

impl Model {
    fn reaches(&self) -> impl Iterator<Item = &Reach> {
        let bound = self.windows.iter().filter_map(|window| window.bound.as_ref());
        self.regions.iter().map(|region| &region.reach).chain(bound.map(|(_, reach)| reach))
    }

    fn remote(&self, pd: Pd, qpn: Qpn, key: u32, address: u64, length: u64, need: RemoteNeed) -> Option<u64> {
        if length == 0 {
            return Some(address);
        }
        let reach = self.reaches().find(|reach| reach.key == key)?;
        let allowed =
            reach.pd == pd && reach.qpn.is_none_or(|owner| owner == qpn) && need.is_allowed_by(reach.access);
        let place = reach.place(address, length).filter(|_| allowed)?;
        (need != RemoteNeed::Atomic || place % 8 == 0).then_some(place)
    }

    fn local(&self, pd: Pd, sge: &Sge, write: bool) -> Option<u64> {
        if sge.length == 0 {
            return Some(sge.address);
        }
        let reach = &self.regions.iter().find(|region| region.reach.key == sge.lkey)?.reach;
        let allowed = reach.pd == pd && (!write || reach.access.local_write);
        reach.place(sge.address, u64::from(sge.length)).filter(|_| allowed)
    }

    /// A key: mostly one that gives access to something.
    fn key(&self, pick: usize) -> Option<u32> {
        let live: Vec<u32> = self.reaches().map(|reach| reach.key).collect();
        let from = if pick.is_multiple_of(4) || live.is_empty() { &self.keys } else { &live };
        picked(pick / 4, from.len()).map(|at| from[at])
    }

    fn has_windows(&self, mr: Mr) -> bool {
        self.windows.iter().any(|window| window.bound.as_ref().is_some_and(|(region, _)| *region == mr))
    }
}

fn reach(key: u32, pd: Pd, address: u64, length: u64, iova: u64, access: Access) -> Reach {
    let iova = if access.zero_based { 0 } else { iova.into() };
    Reach { key, pd, qpn: None, iova, address, length: length.into(), access }
}

fn valid(address: u64, length: u64, iova: u64, access: Access) -> bool {
    let ends = |start: u64| u128::from(start) + u128::from(length) <= u128::from(u64::MAX);
    ends(address)
        && (access.zero_based || ends(iova))
        && (access.local_write || !access.remote_write && !access.remote_atomic)
}

fn run(steps: Vec<Step>) {
    let mut keys = table();
    let mut model = Model::default();
    for step in steps {
        apply(&mut keys, &mut model, step);
    }
}

fn apply(keys: &mut KeyTable, model: &mut Model, step: Step) {
    match step {
        Step::Register { pd, address, length, iova, access } => {
            let made = keys.register(pd, address, length, iova, access);
            assert_eq!(made.is_ok(), valid(address, length, iova, access));
            if let Ok(MrInfo { mr, lkey, .. }) = made {
                let reach = reach(lkey, pd, address, length, iova, access);
                assert!(!model.keys.contains(&lkey));
                model.regions.push(ModelRegion { mr, reach });
                model.keys.push(lkey);
            }
        }
        Step::Reregister { pick, change } => reregister(keys, model, pick, change),
        Step::Deregister { pick } => {
            let Some(at) = picked(pick, model.regions.len()) else { return };
            let mr = model.regions[at].mr;
            let busy = model.has_windows(mr);
            assert_eq!(keys.deregister(mr).is_ok(), !busy);
            if !busy {
                model.regions.remove(at);
            }
        }
        Step::AllocateWindow { pd, mw_type } => {
            let (mw, key) = keys.allocate_window(pd, mw_type).unwrap();
            model.windows.push(ModelWindow { mw, mw_type, pd, key, bound: None });
            model.keys.push(key);
        }
        Step::DeallocateWindow { pick } => {
            let Some(at) = picked(pick, model.windows.len()) else { return };
            let window = model.windows.remove(at);
            assert_eq!(keys.deallocate_window(window.mw), Ok(window.pd));
        }
        Step::Bind { .. } => bind(keys, model, step),
        Step::Invalidate { pd, qpn, pick } => {
            let Some(key) = model.key(pick) else { return };
            let window = model.windows.iter_mut().find(|window| {
                window.key == key
                    && window.pd == pd
                    && window.mw_type == MwType::Type2
                    && window.bound.as_ref().is_some_and(|(_, reach)| reach.qpn == Some(qpn))
            });
            assert_eq!(keys.invalidate(pd, qpn, key).is_ok(), window.is_some());
            if let Some(window) = window {
                window.bound = None;
            }
        }
        Step::Access { pd, qpn, pick, offset, length, need } => {
            let Some(key) = model.key(pick) else { return };
            let start = model.reaches().find(|reach| reach.key == key).map_or(0, |reach| reach.iova as u64);
            let address = start.wrapping_add(offset);
            let remote = keys.remote(pd, qpn, key, address, length, need);
            assert_eq!(remote.ok(), model.remote(pd, qpn, key, address, length, need));
            let sge = sge(address, length as u32, key);
            let write = need == RemoteNeed::Write;
            let local = keys.local(pd, &sge, write).map(|segment| segment.address);
            assert_eq!(local.ok(), model.local(pd, &sge, write));
        }
    }
}

fn reregister(keys: &mut KeyTable, model: &mut Model, pick: usize, change: MrChange) {
    let Some(at) = picked(pick, model.regions.len()) else { return };
    let ModelRegion { mr, reach: old } = model.regions[at].clone();
    let kept = (old.address, old.length as u64, old.iova as u64);
    let (address, length, iova) = change.translation.unwrap_or(kept);
    let access = change.access.unwrap_or(old.access);
    let allowed = valid(address, length, iova, access) && !model.has_windows(mr);
    assert_eq!(keys.reregister(mr, change).is_ok(), allowed);
    if allowed {
        let pd = change.pd.unwrap_or(old.pd);
        model.regions[at].reach = reach(old.key, pd, address, length, iova, access);
    }
}

fn bind(keys: &mut KeyTable, model: &mut Model, step: Step) {
    let Step::Bind { pd, qpn, pick, tag, region, offset, length, access } = step else { return };
    let (Some(at), Some(of)) = (picked(pick, model.windows.len()), picked(region, model.regions.len()))
    else {
        return;
    };
    let (window, ModelRegion { mr, reach: under }) = (model.windows[at].clone(), model.regions[of].clone());
    let key = window.key & !0xFF | u32::from(tag);
    let address = (under.iova as u64).wrapping_add(offset);
    let type_allows = match window.mw_type {
        MwType::Type1 => !access.zero_based,
        MwType::Type2 => window.bound.is_none() && length > 0,
    };
    let place = under.place(address, length);
    let region_allows = under.pd == pd
        && under.access.window_bind
        && !under.access.zero_based
        && (under.access.local_write || !access.remote_write && !access.remote_atomic)
        && place.is_some();
    let allowed = window.pd == pd && type_allows && (length == 0 || region_allows);
    let binding = Binding { lkey: under.key, address, length, access };
    assert_eq!(keys.bind(pd, qpn, window.mw, key, &binding).is_ok(), allowed);
    if !allowed {
        return;
    }
    let owner = (window.mw_type == MwType::Type2).then_some(qpn);
    let bound = place
        .filter(|_| length > 0)
        .map(|place| (mr, Reach { qpn: owner, ..reach(key, pd, place, length, address, access) }));
    model.windows[at] = ModelWindow { key, bound, ..window };
    model.keys.push(key);
}

fn picked(pick: usize, count: usize) -> Option<usize> {
    pick.checked_rem(count)
}

fn pd() -> impl Strategy<Value = Pd> {
    prop_oneof![3 => Just(PD), 1 => Just(OTHER_PD)]
}

fn qpn() -> impl Strategy<Value = Qpn> {
    prop_oneof![3 => Just(QPN), 1 => Just(OTHER_QPN)]
}

/// Addresses and lengths where sums are ordinary, and where they wrap.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..80u64, 1 => u64::MAX - 80..=u64::MAX, 1 => any::<u64>()]
}

fn need() -> impl Strategy<Value = RemoteNeed> {
    prop_oneof![Just(RemoteNeed::Read), Just(RemoteNeed::Write), Just(RemoteNeed::Atomic)]
}

prop_compose! {
    fn access()(bits: [bool; 4], bindable in prop::bool::weighted(0.8), zero_based in prop::bool::weighted(0.2)) -> Access {
        let [local_write, remote_write, remote_read, remote_atomic] = bits;
        let local_write = local_write || remote_write;
        Access { local_write, remote_write, remote_read, remote_atomic, window_bind: bindable, zero_based, ..NOTHING }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let pick = any::<usize>;
    let mw_type = prop_oneof![Just(MwType::Type1), Just(MwType::Type2)];
    let translation = prop::option::of((number(), number(), number()));
    let change = (prop::option::of(pd()), translation, prop::option::of(access()))
        .prop_map(|(pd, translation, access)| MrChange { pd, translation, access });
    prop_oneof![
        4 => (pd(), number(), number(), number(), access()).prop_map(|(pd, address, length, iova, access)| {
            Step::Register { pd, address, length, iova, access }
        }),
        2 => (pick(), change).prop_map(|(pick, change)| Step::Reregister { pick, change }),
        1 => pick().prop_map(|pick| Step::Deregister { pick }),
        2 => (pd(), mw_type).prop_map(|(pd, mw_type)| Step::AllocateWindow { pd, mw_type }),
        1 => pick().prop_map(|pick| Step::DeallocateWindow { pick }),
        6 => ((pd(), qpn(), pick(), any::<u8>()), (pick(), number(), 0..40u64, access())).prop_map(
            |((pd, qpn, pick, tag), (region, offset, length, access))| {
                Step::Bind { pd, qpn, pick, tag, region, offset, length, access }
            }
        ),
        2 => (pd(), qpn(), pick()).prop_map(|(pd, qpn, pick)| Step::Invalidate { pd, qpn, pick }),
        12 => (pd(), qpn(), pick(), number(), number(), need()).prop_map(
            |(pd, qpn, pick, offset, length, need)| Step::Access { pd, qpn, pick, offset, length, need }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn gives_exactly_the_access_the_model_gives(steps in prop::collection::vec(step(), 1..120)) {
        run(steps);
    }
}
