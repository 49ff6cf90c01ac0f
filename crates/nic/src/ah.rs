//! Address handles (IBTA 11.2.2).

use crate::port::{PORT, Port};
use crate::table::Table;
use crate::verbs::{AddressVector, Ah, CreateError, DestroyError, Pd};

/// All address handles of an adapter. A send copies the path when it is posted.
#[derive(Debug)]
pub(crate) struct AhTable {
    table: Table<AddressHandle>,
}

/// A checked path of a protection domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressHandle {
    /// Its protection domain.
    pub pd: Pd,
    /// The path.
    pub path: AddressVector,
}

impl AhTable {
    /// At most `limit` handles.
    pub fn new(limit: u32) -> Self {
        Self { table: Table::with_limit(limit) }
    }

    /// Makes a handle of a protection domain that exists.
    pub fn create(&mut self, pd: Pd, path: AddressVector, port: &Port) -> Result<Ah, CreateError> {
        if !is_usable(&path, port) {
            return Err(CreateError::InvalidAttribute);
        }
        let handle = AddressHandle { pd, path };
        self.table.insert(handle).map(Ah).map_err(|_| CreateError::TooMany)
    }

    /// A handle's path.
    pub fn get(&self, ah: Ah) -> Option<&AddressHandle> {
        self.table.get(ah.0)
    }

    /// Unmakes a handle; returns its protection domain.
    pub fn destroy(&mut self, ah: Ah) -> Result<Pd, DestroyError> {
        self.table.remove(ah.0).map(|handle| handle.pd)
    }
}

/// Whether a path can be used on RoCE: it has a destination GID (A17.4.1), and its port and our GID are
/// there.
pub(crate) fn is_usable(path: &AddressVector, port: &Port) -> bool {
    path.is_global
        && path.port == PORT
        && !path.destination.is_unspecified()
        && path.flow_label < 1 << 20
        && path.service_level < 16
        && port.gid(path.source_gid_index).is_some()
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use core::net::Ipv4Addr;

    use wire::Gid;

    use super::*;
    use crate::verbs::{GidEntry, GidType};

    fn port() -> Port {
        let mut port = Port::default();
        let gid = Gid::from(Ipv4Addr::new(10, 0, 0, 1));
        let entry = GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 2 };
        port.set_gid(3, Some(entry), &mut VecDeque::new());
        port
    }

    fn path() -> AddressVector {
        AddressVector {
            destination: Gid::from(Ipv4Addr::new(10, 0, 0, 2)),
            source_gid_index: 3,
            is_global: true,
            port: PORT,
            ..AddressVector::default()
        }
    }

    #[test]
    fn a_handle_keeps_its_path() {
        let mut ahs = AhTable::new(1);
        let ah = ahs.create(Pd(1), path(), &port()).unwrap();
        let handle = *ahs.get(ah).unwrap();
        assert_eq!((handle.pd, handle.path), (Pd(1), path()));
        assert_eq!(ahs.create(Pd(1), path(), &port()), Err(CreateError::TooMany));
        assert_eq!(ahs.destroy(ah), Ok(Pd(1)));
        assert!(ahs.get(ah).is_none());
    }

    #[test]
    fn paths_are_checked() {
        assert!(is_usable(&path(), &port()));
        for unusable in [
            AddressVector { is_global: false, ..path() },
            AddressVector { port: 0, ..path() },
            AddressVector { port: 2, ..path() },
            AddressVector { source_gid_index: 2, ..path() },
            AddressVector { destination: Gid::UNSPECIFIED, ..path() },
            AddressVector { flow_label: 1 << 20, ..path() },
            AddressVector { service_level: 16, ..path() },
        ] {
            let made = AhTable::new(1).create(Pd(1), unusable, &port());
            assert_eq!(made, Err(CreateError::InvalidAttribute), "{unusable:?}");
        }
    }
}
