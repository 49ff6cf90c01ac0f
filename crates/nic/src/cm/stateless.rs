//! Answers about what is not there: nothing is remembered of them.

use wire::cm::{
    CmMad, CmMessage, Drep, Dreq, Rej, RejReason, RejectedMessage, Rep, Req, SidrRep, SidrReq, SidrStatus,
};

/// Refuses a request for a connection.
pub(super) fn refusal(mad: &CmMad, req: &Req, reason: RejReason, info: &[u8]) -> CmMad {
    let rej = Rej { remote_id: req.local_id, reason, ..Rej::default() };
    answer(mad, CmMessage::Rej(with_info(rej, info)))
}

/// Nobody serves what is asked for.
pub(super) fn no_service(mad: &CmMad, req: &SidrReq) -> CmMad {
    let rep = SidrRep {
        request_id: req.request_id,
        status: SidrStatus::UNSUPPORTED,
        service: req.service,
        ..SidrRep::default()
    };
    answer(mad, CmMessage::SidrRep(rep))
}

/// Nobody wants, any more or at all, what was accepted.
pub(super) fn unwanted(mad: &CmMad, rep: &Rep) -> CmMad {
    let rej = Rej {
        local_id: rep.remote_id,
        remote_id: rep.local_id,
        message: RejectedMessage::Rep,
        reason: RejReason::INVALID_COMM_ID,
        ..Rej::default()
    };
    answer(mad, CmMessage::Rej(rej))
}

/// A connection is over, if it ever was.
pub(super) fn confirmation(mad: &CmMad, dreq: &Dreq) -> CmMad {
    let drep = Drep { local_id: dreq.remote_id, remote_id: dreq.local_id, ..Drep::default() };
    answer(mad, CmMessage::Drep(drep))
}

/// Adds information to a rejection; what does not fit is cut off.
pub(super) fn with_info(rej: Rej, info: &[u8]) -> Rej {
    let info = &info[..info.len().min(Rej::INFO_LEN)];
    Rej { info_len: info.len() as u8, info: wire::cm::PrivateData::new(info).unwrap_or_default(), ..rej }
}

fn answer(mad: &CmMad, message: CmMessage) -> CmMad {
    CmMad { transaction_id: mad.transaction_id, attribute_modifier: 0, message }
}
