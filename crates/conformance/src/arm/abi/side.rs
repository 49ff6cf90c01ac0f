//! An open device as a side.

use std::{
    ffi::{CStr, c_int, c_void},
    io,
    mem::zeroed,
    os::fd::BorrowedFd,
    ptr::null_mut,
};

use anyhow::{Result, ensure};
use nic::verbs::*;
use wire::{Gid, Qpn};

use super::{bindings::*, convert, library, objects::Objects};
use crate::arm::{MEMORY, Refusal, Side, Verb, buffer::Buffer};

/// See the module.
///
/// In all that follows, what makes a call sound is this: pointers come from the same library, out of [`Objects`] that hold
/// what was made and not yet unmade, and structures live until the call returns. A name that is not known is null, which is
/// refused before a call.
pub(super) struct AbiSide {
    functions: &'static Functions,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    memory: Option<Buffer>,
    gid: (u8, Gid),
    pds: Objects<ibv_pd>,
    mrs: Objects<ibv_mr>,
    mws: Objects<ibv_mw>,
    cqs: Objects<ibv_cq>,
    srqs: Objects<ibv_srq>,
    ahs: Objects<ibv_ah>,
    qps: Objects<ibv_qp>,
    inits: Vec<(Qpn, QpInit)>,
}

impl AbiSide {
    /// The device's name.
    pub fn device_name(&self) -> String {
        // SAFETY: the device is open, and names are C strings.
        let name = unsafe { CStr::from_ptr((self.functions.ibv_get_device_name)((*self.context).device)) };
        name.to_string_lossy().into_owned()
    }

    pub fn open(functions: &'static Functions, device: Option<&str>) -> Result<Self> {
        let context = library::open(functions, device)?;
        let gid = library::ipv4_gid(functions, context)?;
        // SAFETY: the device is open.
        let channel = unsafe { (functions.ibv_create_comp_channel)(context) };
        ensure!(!channel.is_null(), "no completion channel: {}", io::Error::last_os_error());
        // SAFETY: both are open until this side is dropped.
        let fds = unsafe { [(*context).async_fd, (*channel).fd].map(|fd| BorrowedFd::borrow_raw(fd)) };
        // Whoever asks for an event that is not there shall not sleep.
        fds.into_iter().try_for_each(|fd| rustix::io::ioctl_fionbio(fd, true))?;
        Ok(Self {
            functions,
            context,
            channel,
            memory: Some(Buffer::new(MEMORY as usize)),
            gid,
            pds: Objects::default(),
            mrs: Objects::default(),
            mws: Objects::default(),
            cqs: Objects::default(),
            srqs: Objects::default(),
            ahs: Objects::default(),
            qps: Objects::default(),
            inits: Vec::new(),
        })
    }

    fn ops(&self) -> &ibv_context_ops {
        // SAFETY: the device is open, and its table is not changed any more.
        unsafe { &(*self.context).ops }
    }

    fn memory(&self) -> &Buffer {
        self.memory.as_ref().expect("memory until the end")
    }

    fn recv_wr(request: &RecvRequest<'_>, post: impl FnOnce(*mut ibv_recv_wr) -> c_int) -> Verb<()> {
        let mut sges = convert::sges(request.scatter);
        let mut wr = ibv_recv_wr {
            wr_id: request.wr_id,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
        };
        status(post(&raw mut wr))
    }

    /// The part of a request that binds a window.
    fn bind_info(&self, binding: &Binding) -> ibv_mw_bind_info {
        // SAFETY: regions that are known are alive.
        let with_key = |name: &u32| unsafe { (*self.mrs.get(*name)).lkey == binding.lkey };
        let region = self.mrs.names().find(with_key).map_or(null_mut(), |name| self.mrs.get(name));
        ibv_mw_bind_info {
            mr: region,
            addr: binding.address,
            length: binding.length,
            mw_access_flags: convert::access_flags(binding.access),
        }
    }
}

/// What a function meant that returns an error number.
fn status(number: c_int) -> Verb<()> {
    match number {
        0 => Ok(()),
        number => Err(Refusal::from_errno(number)),
    }
}

/// What a function meant that returns an object, or null and an error number in `errno`.
fn made<T>(object: *mut T) -> Verb<*mut T> {
    if object.is_null() {
        let number = io::Error::last_os_error().raw_os_error().unwrap_or_default();
        return Err(Refusal::from_errno(number));
    }
    Ok(object)
}

/// An object that is there.
fn known<T>(object: *mut T) -> Verb<*mut T> {
    if object.is_null() { Err(Refusal::Invalid) } else { Ok(object) }
}

impl Side for AbiSide {
    fn address(&self) -> u64 {
        self.memory().address()
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.memory.as_mut().expect("memory until the end").store(offset, bytes);
    }

    fn load(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.memory().load(offset, length)
    }

    fn gid(&self) -> (u8, Gid) {
        self.gid
    }

    /// Nothing: a stack behind the C interface does its work by itself, in the kernel or on a thread of its own.
    fn progress(&mut self) {}

    fn alloc_pd(&mut self) -> Verb<Pd> {
        // SAFETY: the device is open.
        let pd = made(unsafe { (self.functions.ibv_alloc_pd)(self.context) })?;
        Ok(Pd(self.pds.add(pd)))
    }

    fn dealloc_pd(&mut self, pd: Pd) -> Verb<()> {
        let object = known(self.pds.get(pd.0))?;
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_dealloc_pd)(object) })?;
        self.pds.remove(pd.0);
        Ok(())
    }

    fn reg_mr(&mut self, pd: Pd, address: u64, length: u64, iova: u64, access: Access) -> Verb<MrInfo> {
        let (pd, flags) = (known(self.pds.get(pd.0))?, convert::access_flags(access) as c_int);
        let start = address as *mut c_void;
        // SAFETY: a known object; scenarios register parts of this side's memory, which outlives the device.
        let object = unsafe { (self.functions.ibv_reg_mr_iova)(pd, start, length as usize, iova, flags) };
        let object = made(object)?;
        // SAFETY: it was just made.
        let (lkey, rkey) = unsafe { ((*object).lkey, (*object).rkey) };
        Ok(MrInfo { mr: Mr(self.mrs.add(object)), lkey, rkey })
    }

    fn dereg_mr(&mut self, mr: Mr) -> Verb<()> {
        let object = known(self.mrs.get(mr.0))?;
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_dereg_mr)(object) })?;
        self.mrs.remove(mr.0);
        Ok(())
    }

    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Verb<(Mw, u32)> {
        let pd = known(self.pds.get(pd.0))?;
        // SAFETY: a known object; what was made is alive.
        unsafe {
            let object = made((self.ops().alloc_mw)(pd, convert::mw_type(mw_type)))?;
            Ok((Mw(self.mws.add(object)), (*object).rkey))
        }
    }

    fn dealloc_mw(&mut self, window: Mw) -> Verb<()> {
        let object = known(self.mws.get(window.0))?;
        // SAFETY: a known object.
        status(unsafe { (self.ops().dealloc_mw)(object) })?;
        self.mws.remove(window.0);
        Ok(())
    }

    fn bind_mw(&mut self, qpn: Qpn, wr_id: u64, window: Mw, binding: &Binding) -> Verb<u32> {
        const SIGNALED: u32 = 2;
        let (qp, mw) = (known(self.qps.get(qpn.value()))?, known(self.mws.get(window.0))?);
        let mut bind = ibv_mw_bind { wr_id, send_flags: SIGNALED, bind_info: self.bind_info(binding) };
        // SAFETY: known objects.
        unsafe {
            status((self.ops().bind_mw)(qp, mw, &raw mut bind))?;
            Ok((*mw).rkey)
        }
    }

    fn create_cq(&mut self, capacity: u32) -> Verb<Cq> {
        let size = c_int::try_from(capacity).map_err(|_| Refusal::Invalid)?;
        // SAFETY: the device is open, and so is the channel.
        let cq = unsafe { (self.functions.ibv_create_cq)(self.context, size, null_mut(), self.channel, 0) };
        Ok(Cq(self.cqs.add(made(cq)?)))
    }

    fn destroy_cq(&mut self, cq: Cq) -> Verb<()> {
        let object = known(self.cqs.get(cq.0))?;
        // SAFETY: a known object, whose events were acknowledged as they were taken.
        status(unsafe { (self.functions.ibv_destroy_cq)(object) })?;
        self.cqs.remove(cq.0);
        Ok(())
    }

    fn poll_cq(&mut self, cq: Cq) -> Verb<Option<Completion>> {
        let object = known(self.cqs.get(cq.0))?;
        // SAFETY: a known object, and room for one completion, which is plain numbers.
        let (count, wc) = unsafe {
            let mut wc: ibv_wc = zeroed();
            ((self.ops().poll_cq)(object, 1, &raw mut wc), wc)
        };
        match count {
            0 => Ok(None),
            1 => Ok(Some(convert::completion(&wc))),
            _ => Err(Refusal::Broken),
        }
    }

    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Verb<()> {
        let object = known(self.cqs.get(cq.0))?;
        // SAFETY: a known object.
        status(unsafe { (self.ops().req_notify_cq)(object, solicited_only.into()) })
    }

    fn cq_event(&mut self) -> Option<Cq> {
        let (mut cq, mut word) = (null_mut(), null_mut());
        // SAFETY: the channel is open; a queue that it names is alive, as it was not destroyed before its event was taken.
        unsafe {
            if (self.functions.ibv_get_cq_event)(self.channel, &raw mut cq, &raw mut word) != 0 {
                return None;
            }
            (self.functions.ibv_ack_cq_events)(cq, 1);
        }
        self.cqs.name_of(cq).map(Cq)
    }

    fn async_event(&mut self) -> Option<AsyncEvent> {
        // SAFETY: the device is open; the event is plain numbers and a pointer.
        let event = unsafe {
            let mut event: ibv_async_event = zeroed();
            if (self.functions.ibv_get_async_event)(self.context, &raw mut event) != 0 {
                return None;
            }
            (self.functions.ibv_ack_async_event)(&raw mut event);
            event
        };
        let qpn = self.qps.name_of(event.element.cast()).map(Qpn::new).unwrap_or_default();
        let cq = Cq(self.cqs.name_of(event.element.cast()).unwrap_or_default());
        let srq = Srq(self.srqs.name_of(event.element.cast()).unwrap_or_default());
        Some(match event.event_type {
            0 => AsyncEvent::CqError(cq),
            1 => AsyncEvent::QpFatal(qpn),
            2 => AsyncEvent::QpRequestError(qpn),
            3 => AsyncEvent::QpAccessError(qpn),
            4 => AsyncEvent::CommunicationEstablished(qpn),
            5 => AsyncEvent::SqDrained(qpn),
            8 => AsyncEvent::DeviceFatal,
            9 => AsyncEvent::PortActive,
            10 => AsyncEvent::PortError,
            14 => AsyncEvent::SrqError(srq),
            15 => AsyncEvent::SrqLimitReached(srq),
            16 => AsyncEvent::LastWqeReached(qpn),
            18 => AsyncEvent::GidChange,
            other => panic!("an asynchronous event of type {other}"),
        })
    }

    fn create_srq(&mut self, pd: Pd, attributes: SrqAttributes) -> Verb<Srq> {
        let pd = known(self.pds.get(pd.0))?;
        let SrqAttributes { max_wr, max_sge, limit } = attributes;
        let attr = ibv_srq_attr { max_wr, max_sge, srq_limit: limit };
        let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
        // SAFETY: a known object.
        let srq = made(unsafe { (self.functions.ibv_create_srq)(pd, &raw mut init) })?;
        Ok(Srq(self.srqs.add(srq)))
    }

    fn modify_srq(&mut self, srq: Srq, change: SrqChange) -> Verb<()> {
        let object = known(self.srqs.get(srq.0))?;
        let (max_wr, srq_limit) = (change.max_wr.unwrap_or_default(), change.limit.unwrap_or_default());
        let mut attr = ibv_srq_attr { max_wr, max_sge: 0, srq_limit };
        let mask = c_int::from(change.max_wr.is_some()) | c_int::from(change.limit.is_some()) << 1;
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_modify_srq)(object, &raw mut attr, mask) })
    }

    fn query_srq(&mut self, srq: Srq) -> Verb<SrqAttributes> {
        let object = known(self.srqs.get(srq.0))?;
        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 0 };
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_query_srq)(object, &raw mut attr) })?;
        Ok(SrqAttributes { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: attr.srq_limit })
    }

    fn destroy_srq(&mut self, srq: Srq) -> Verb<()> {
        let object = known(self.srqs.get(srq.0))?;
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_destroy_srq)(object) })?;
        self.srqs.remove(srq.0);
        Ok(())
    }

    fn post_srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Verb<()> {
        let (object, mut bad) = (known(self.srqs.get(srq.0))?, null_mut());
        // SAFETY: a known object.
        Self::recv_wr(request, |wr| unsafe { (self.ops().post_srq_recv)(object, wr, &raw mut bad) })
    }

    fn create_ah(&mut self, pd: Pd, path: AddressVector) -> Verb<Ah> {
        let (pd, mut attr) = (known(self.pds.get(pd.0))?, convert::ah_attr(&path));
        // SAFETY: a known object.
        let ah = made(unsafe { (self.functions.ibv_create_ah)(pd, &raw mut attr) })?;
        Ok(Ah(self.ahs.add(ah)))
    }

    fn destroy_ah(&mut self, ah: Ah) -> Verb<()> {
        let object = known(self.ahs.get(ah.0))?;
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_destroy_ah)(object) })?;
        self.ahs.remove(ah.0);
        Ok(())
    }

    fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()> {
        let (qp, group) = (known(self.qps.get(qpn.value()))?, ibv_gid { raw: group.0, align: [] });
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_attach_mcast)(qp, &raw const group, 0) })
    }

    fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Verb<()> {
        let (qp, group) = (known(self.qps.get(qpn.value()))?, ibv_gid { raw: group.0, align: [] });
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_detach_mcast)(qp, &raw const group, 0) })
    }

    fn create_qp(&mut self, init: &QpInit) -> Verb<Qpn> {
        let mut attr = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: known(self.cqs.get(init.send_cq.0))?,
            recv_cq: known(self.cqs.get(init.recv_cq.0))?,
            srq: init.srq.map_or(Ok(null_mut()), |srq| known(self.srqs.get(srq.0)))?,
            cap: convert::capabilities(&init.capabilities),
            qp_type: convert::qp_type(init.qp_type),
            sq_sig_all: init.signal_all.into(),
        };
        let pd = known(self.pds.get(init.pd.0))?;
        // SAFETY: known objects; what was made is alive.
        let (qp, number) = unsafe {
            let qp = made((self.functions.ibv_create_qp)(pd, &raw mut attr))?;
            (qp, (*qp).qp_num)
        };
        self.qps.add_as(number, qp);
        self.inits.push((Qpn::new(number), *init));
        Ok(Qpn::new(number))
    }

    fn modify_qp(&mut self, qpn: Qpn, change: &QpChange) -> Verb<()> {
        let (qp, (mut attr, mask)) = (known(self.qps.get(qpn.value()))?, convert::qp_attr(change));
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_modify_qp)(qp, &raw mut attr, mask) })
    }

    fn query_qp(&mut self, qpn: Qpn) -> Verb<QpAttributes> {
        /// Every bit of `enum ibv_qp_attr_mask`, but for the rate limit.
        const EVERYTHING: c_int = (1 << 21) - 1;
        let qp = known(self.qps.get(qpn.value()))?;
        // SAFETY: a known object; the structures are plain numbers and pointers.
        let attr = unsafe {
            let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = (zeroed(), zeroed());
            status((self.functions.ibv_query_qp)(qp, &raw mut attr, EVERYTHING, &raw mut init))?;
            attr
        };
        let init = self.inits.iter().find(|(other, _)| *other == qpn).map(|(_, init)| *init);
        Ok(convert::qp_attributes(init.ok_or(Refusal::Invalid)?, &attr))
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Verb<()> {
        let qp = known(self.qps.get(qpn.value()))?;
        // SAFETY: a known object.
        status(unsafe { (self.functions.ibv_destroy_qp)(qp) })?;
        self.qps.remove(qpn.value());
        self.inits.retain(|(other, _)| *other != qpn);
        Ok(())
    }

    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Verb<()> {
        let (qp, mut bad) = (known(self.qps.get(qpn.value()))?, null_mut());
        let mut sges = match request.data {
            SendData::Gather(pieces) => convert::sges(pieces),
            SendData::Inline(parts) => convert::inline(parts),
        };
        let (opcode, imm_data) = convert::opcode(&request.operation);
        let mut wr = ibv_send_wr {
            wr_id: request.wr_id,
            next: null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as c_int,
            opcode,
            send_flags: convert::send_flags(request),
            imm_data,
            wr: convert::target(&request.operation),
            xrc_remote_srqn: 0,
            // SAFETY: plain numbers and pointers.
            bind_mw: unsafe { zeroed() },
        };
        if let Some(DatagramDestination { ah, qpn, qkey }) = request.destination {
            let ah = known(self.ahs.get(ah.0))?;
            wr.wr.ud = send_wr_ud { ah, remote_qpn: qpn.value(), remote_qkey: qkey };
        }
        if let SendOperation::BindWindow { window, rkey, binding } = &request.operation {
            let mw = known(self.mws.get(window.0))?;
            wr.bind_mw = send_wr_bind { mw, rkey: *rkey, bind_info: self.bind_info(binding) };
        }
        // SAFETY: known objects, and elements that live until the call returns.
        status(unsafe { (self.ops().post_send)(qp, &raw mut wr, &raw mut bad) })?;
        if let SendOperation::BindWindow { rkey, .. } = request.operation {
            // By this field the genuine library finds a window when it is bound again, and leaves it to its user.
            // SAFETY: it was known before.
            unsafe { (*wr.bind_mw.mw).rkey = rkey };
        }
        Ok(())
    }

    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Verb<()> {
        let (qp, mut bad) = (known(self.qps.get(qpn.value()))?, null_mut());
        // SAFETY: a known object.
        Self::recv_wr(request, |wr| unsafe { (self.ops().post_recv)(qp, wr, &raw mut bad) })
    }
}

impl Drop for AbiSide {
    fn drop(&mut self) {
        // SAFETY: both were open until now.
        let closed = unsafe {
            (self.functions.ibv_destroy_comp_channel)(self.channel) == 0
                && (self.functions.ibv_close_device)(self.context) == 0
        };
        if !closed {
            // After a scenario that failed objects may be left, and with them the device's right to the memory.
            std::mem::forget(self.memory.take());
        }
    }
}
