//! Requests that cannot be, and parameters that make no sense.

use nic::Duration;
use nic::cm::*;
use nic::verbs::Mtu;
use wire::cm::{CmMad, CmMessage, PortSpace, RejReason, Req, ServiceId, TransportService};

use crate::world::*;

/// What a client hears whose request was changed on its way.
fn refusal_of(change: impl Fn(&mut Req)) -> (RejReason, Vec<u8>) {
    let mut world = World::new(2);
    world.cm(1).listen(anywhere(), 0).unwrap();
    world.connect(0, 1, 0x11);
    let transmit = world.cm(0).poll_transmit().unwrap();
    let mut mad = CmMad::parse(&transmit.mad).unwrap();
    let CmMessage::Req(req) = &mut mad.message else { panic!() };
    change(req);
    world.inject(0, 1, mad.emit().to_vec());
    world.settle();
    assert_eq!(world.cm(1).connections(), 0);
    assert!(world.programs[1].events.is_empty());
    let CmEvent::Rejected { reason, info, .. } = world.event(0) else { panic!() };
    (reason, info)
}

#[test]
fn what_a_request_asks_must_be_possible() {
    let reason = |change: fn(&mut Req)| refusal_of(change).0;
    assert_eq!(reason(|req| req.service = ServiceId(9)), RejReason::INVALID_SERVICE_ID);
    assert_eq!(
        reason(|req| req.service = ServiceId::of_port(PortSpace::UDP, PORT)),
        RejReason::INVALID_SERVICE_ID
    );
    assert_eq!(reason(|req| req.transport = TransportService::Rd), RejReason::INVALID_TRANSPORT);
    assert_eq!(reason(|req| req.transport = TransportService::Extended(5)), RejReason::INVALID_TRANSPORT);
    assert_eq!(reason(|req| req.pkey = 0x8001), RejReason::UNSUPPORTED);
    assert_eq!(reason(|req| req.private_data = Default::default()), RejReason::UNSUPPORTED);
    assert_eq!(refusal_of(|req| req.path_mtu = 0), (RejReason::INVALID_MTU, vec![5]));
    assert_eq!(refusal_of(|req| req.path_mtu = 6), (RejReason::INVALID_MTU, vec![5]));
}

#[test]
fn the_path_mtu_is_the_smaller_of_two() {
    let mut world = World::new(2);
    world.lose = lose_first(1, |message| matches!(message, CmMessage::Rej(_)));
    world.cm(1).set_mtu(Mtu::Mtu512);
    world.cm(1).listen(anywhere(), 0).unwrap();
    let mut params = world.request(0, 1, 0x11);
    params.path.mtu = Mtu::Mtu4096;
    let now = world.now;
    let client = world.cm(0).connect(now, &params).unwrap();
    world.run_for(Duration::from_millis(1_000));
    let request = world.requested(1);
    assert_eq!(request.path.mtu, Mtu::Mtu512);
    let now = world.now;
    world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Reply(_)));
    assert_eq!(world.cm(0).path_mtu(client), Some(Mtu::Mtu512));
    assert_eq!(world.cm(1).path_mtu(request.id), Some(Mtu::Mtu512));
}

#[test]
fn nobody_there_is_told_at_once() {
    let mut world = World::new(2);
    let id = world.connect(0, 1, 0x11);
    world.settle();
    let CmEvent::Rejected { reason, message, .. } = world.event(0) else { panic!() };
    assert_eq!((reason, message), (RejReason::INVALID_SERVICE_ID, wire::cm::RejectedMessage::Req));
    assert_eq!(world.cm(0).state(id), Some(State::Closed));
    assert_eq!(world.cm(1).counters().no_listener, 1);
}

#[test]
fn parameters_are_checked() {
    let mut world = World::new(2);
    let good = world.request(0, 1, 0x11);
    let now = world.now;
    let cm = world.cm(0);
    let long = [0; 225];
    let refused = |cm: &mut Cm, params: ReqParams<'_>| cm.connect(now, &params).unwrap_err();
    assert_eq!(
        refused(cm, ReqParams { private_data: &long[..57], ..good }),
        CmError::PrivateDataTooLong { most: 56 }
    );
    assert_eq!(
        refused(cm, ReqParams { private_data: &long[..93], addresses: None, ..good }),
        CmError::PrivateDataTooLong { most: 92 }
    );
    let patience = Patience { max_retries: 16, ..Patience::default() };
    assert_eq!(refused(cm, ReqParams { patience, ..good }), CmError::InvalidValue("max_retries"));
    let patience = Patience { local_response_timeout: 32, ..Patience::default() };
    assert_eq!(refused(cm, ReqParams { patience, ..good }), CmError::InvalidValue("timeouts"));
    assert_eq!(refused(cm, ReqParams { retry_count: 8, ..good }), CmError::InvalidValue("retry_count"));
    let local = Endpoint { rnr_retry_count: 8, ..good.local };
    assert_eq!(refused(cm, ReqParams { local, ..good }), CmError::InvalidValue("rnr_retry_count"));
    let path = Path { flow_label: 1 << 20, ..good.path };
    assert_eq!(refused(cm, ReqParams { path, ..good }), CmError::InvalidValue("flow_label"));
    let path = Path { service_level: 16, ..good.path };
    assert_eq!(refused(cm, ReqParams { path, ..good }), CmError::InvalidValue("service_level"));
    assert_eq!(cm.connections(), 0);

    let (_, server) = connected(&mut world);
    let cm = world.cm(1);
    assert_eq!(cm.disconnect(now, server, &long[..221]), Err(CmError::PrivateDataTooLong { most: 220 }));
    assert_eq!(cm.establish(now, server, &long), Err(CmError::PrivateDataTooLong { most: 224 }));
    let consent = RepParams { private_data: &long[..197], ..consent(1) };
    assert_eq!(cm.accept(now, server, &consent), Err(CmError::PrivateDataTooLong { most: 196 }));
    let reject = |cm: &mut Cm, info: usize, data: usize| {
        cm.reject(now, server, RejReason::CONSUMER, &long[..info], &long[..data]).unwrap_err()
    };
    assert_eq!(reject(cm, 0, 149), CmError::PrivateDataTooLong { most: 148 });
    assert_eq!(reject(cm, 73, 0), CmError::InvalidValue("info"));
    assert_eq!(reject(cm, 0, 0).to_string(), "the connection is in state Established");
}

#[test]
fn there_are_only_so_many() {
    let config = CmConfig { max_ids: 2, max_listeners: 1, ..CmConfig::default() };
    let mut world = World::with_config(2, config);
    let ids = [world.connect(0, 1, 0x11), world.connect(0, 1, 0x12)];
    let params = world.request(0, 1, 0x13);
    let now = world.now;
    assert_eq!(world.cm(0).connect(now, &params), Err(CmError::TooMany));
    world.cm(0).destroy(now, ids[0]).unwrap();
    world.connect(0, 1, 0x13);
    world.cm(0).listen(anywhere(), 0).unwrap();
    let other = Listen { datagram: true, ..anywhere() };
    assert_eq!(world.cm(0).listen(other, 0), Err(CmError::TooMany));
}
