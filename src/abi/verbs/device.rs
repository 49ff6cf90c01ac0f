//! The list of devices, opening one, and what it can do.

use std::{
    ffi::{c_char, c_int},
    ptr::null_mut,
    sync::OnceLock,
};

use super::context::{Context, ContextRef};
use crate::abi::{
    convert::{Flags, device_attr},
    errno::{Errno, pointer, status},
    layout::Zeroed,
    object::{Object, Visible},
    output::write_prefix,
    types::{
        constants::*,
        context::{ibv_context, ibv_values_ex},
        device::{ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_query_device_ex_input},
    },
};

/// The device that programs find. It lives as long as the process, so that no reference to it can outlive it.
#[repr(C)]
pub(crate) struct Device {
    c: Visible<ibv_device>,
    host: host::Device,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Device {
    type C = ibv_device;
}

impl Device {
    /// The device, unless the environment describes it wrongly.
    fn find() -> Option<&'static Self> {
        static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
        let device = DEVICE.get_or_init(|| match host::Device::from_environment() {
            Ok(device) => Some(Self::new(device)),
            Err(error) => {
                // A program can only tell its user that there is no device, not why.
                eprintln!("softverbs: {error}");
                None
            }
        });
        device.as_ref()
    }

    fn open(&'static self) -> Result<*mut ibv_context, Errno> {
        self.host.open().map(|adapter| Context::hand_out(self, adapter)).map_err(|error| {
            // A program can only tell its user that the device did not open, not why.
            eprintln!("softverbs: {error}");
            error.into()
        })
    }

    fn new(host: host::Device) -> Self {
        let mut c =
            ibv_device { node_type: IBV_NODE_CA, transport_type: IBV_TRANSPORT_IB, ..ibv_device::zeroed() };
        fill(&mut c.name, host.name());
        fill(&mut c.dev_name, "uverbs0");
        fill(&mut c.dev_path, "/sys/class/infiniband_verbs/uverbs0");
        fill(&mut c.ibdev_path, &format!("/sys/class/infiniband/{}", host.name()));
        Self { c: Visible::new(c), host }
    }
}

/// Copies a name into a field that ends in a zero byte; what is too long is cut.
fn fill(field: &mut [c_char], text: &str) {
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
}

/// `ibv_get_device_list(3)`.
///
/// # Safety
///
/// `count` is valid or null.
pub(super) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let device = Device::find();
    if !count.is_null() {
        // SAFETY: the caller passes a valid place.
        unsafe { *count = device.is_some().into() };
    }
    let list = [device.map_or(null_mut(), Object::c), null_mut()];
    Box::into_raw(Box::new(list)).cast()
}

/// `ibv_free_device_list(3)`.
///
/// # Safety
///
/// `list` came from [`get_device_list`].
pub(super) unsafe extern "C" fn free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: the caller passes what `get_device_list` made.
    drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_device; 2]>()) });
}

/// `ibv_get_device_name(3)`.
///
/// # Safety
///
/// `device` came from [`get_device_list`].
pub(super) unsafe extern "C" fn get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the caller passes a device.
    unsafe { (&raw const (*device).name).cast() }
}

/// `ibv_get_device_guid(3)`: big-endian.
///
/// # Safety
///
/// `device` came from [`get_device_list`].
pub(super) unsafe extern "C" fn get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: the caller passes a device.
    unsafe { Device::of(device) }.host.guid().to_be()
}

/// `ibv_get_device_index(3)`: the kernel does not know this device.
pub(super) extern "C" fn get_device_index(_device: *mut ibv_device) -> c_int {
    -1
}

/// `ibv_open_device(3)`.
///
/// # Safety
///
/// `device` came from [`get_device_list`].
pub(super) unsafe extern "C" fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the caller passes a device, and all devices live as long as the process.
    let device: &'static Device = unsafe { Device::of(device) };
    pointer(device.open())
}

/// Opens the device, if there is one.
pub(in crate::abi) fn open() -> Result<*mut ibv_context, Errno> {
    Device::find().ok_or(Errno(libc::ENODEV))?.open()
}

/// `ibv_close_device(3)`.
///
/// # Safety
///
/// `context` is an open device, of which nothing is used any more.
pub(super) unsafe extern "C" fn close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the caller passes an open device that it is done with.
    unsafe { Context::take_back(context) };
    0
}

/// `ibv_query_device(3)`.
///
/// # Safety
///
/// `context` is an open device and `attr` is valid.
pub(super) unsafe extern "C" fn query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the caller passes an open device and a valid place.
    unsafe { *attr = attributes(context) };
    0
}

/// `ibv_query_device_ex(3)`.
///
/// # Safety
///
/// `context` is an open device, `input` is valid or null, and `attr` has room for `size` bytes.
pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    // SAFETY: the caller passes valid input, or null.
    let extended = unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0);
    if extended || size < size_of::<ibv_device_attr>() {
        return libc::EINVAL;
    }
    // SAFETY: the caller passes an open device.
    let orig_attr = unsafe { attributes(context) };
    let all = ibv_device_attr_ex {
        orig_attr,
        // Completions are stamped in nanoseconds.
        completion_timestamp_mask: u64::MAX,
        hca_core_clock: 1_000_000, // kHz
        device_cap_flags_ex: orig_attr.device_cap_flags.into(),
        phys_port_cnt_ex: orig_attr.phys_port_cnt.into(),
        ..ibv_device_attr_ex::zeroed()
    };
    // SAFETY: the caller has room for that many bytes.
    unsafe { write_prefix(attr, &all, size) };
    0
}

/// The attributes of an open device.
///
/// # Safety
///
/// `context` is an open device.
unsafe fn attributes(context: *mut ibv_context) -> ibv_device_attr {
    // SAFETY: the caller passes an open device.
    let context = unsafe { ContextRef::of(context) };
    let mut attr = device_attr(&context.adapter.limits(), context.device.host.guid());
    fill(&mut attr.fw_ver, env!("CARGO_PKG_VERSION"));
    attr
}

/// `ibv_query_rt_values_ex(3)`: the clock that completions are stamped with.
///
/// # Safety
///
/// `context` is an open device and `values` is valid.
pub(super) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    // SAFETY: the caller passes an open device and values.
    let (context, values) = unsafe { (ContextRef::of(context), &mut *values) };
    let wanted = values.comp_mask;
    let clock = context.adapter.clock();
    values.comp_mask = wanted & IBV_VALUES_MASK_RAW_CLOCK;
    if wanted.has(IBV_VALUES_MASK_RAW_CLOCK) {
        values.raw_clock.tv_sec = (clock / 1_000_000_000).cast_signed();
        values.raw_clock.tv_nsec = (clock % 1_000_000_000).cast_signed();
    }
    status(wanted.only(IBV_VALUES_MASK_RAW_CLOCK, Errno::UNSUPPORTED))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn names_end_in_a_zero_byte_however_long() {
        let mut field = [0; 5];
        fill(&mut field, "abcdefg");
        // SAFETY: the last byte is zero.
        let name = unsafe { CStr::from_ptr(field.as_ptr()) };
        assert_eq!(name, c"abcd");
    }
}
