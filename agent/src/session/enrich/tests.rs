//! Names of kernels that are read in their processes, early and late.

use agent_common::{APIS, Header, RecordKind};

use super::*;

const PID: u32 = 7;
const SECOND: u64 = 1_000_000_000;

/// A launch by the driver, of a handle that no call told of.
fn launch(handle: u64) -> LongCallRecord {
    let api = APIS.iter().position(|api| api.name == "cuLaunchKernel");
    LongCallRecord {
        call: CallRecord {
            header: Header {
                timestamp: clock::monotonic(),
                pid: PID,
                tid: PID,
                kind: RecordKind::Call as u8,
                reserved: 0,
                api: u16::try_from(api.expect("in the table")).expect("few"),
                flags: 0,
            },
            duration: 0,
            caller: 0,
            result: 0,
            parent: 0,
            reserved: 0,
            args: [handle, 0, 0, 0, 0, 0],
        },
        more: Default::default(),
    }
}

fn finding(handle: u64, id: u32, name: Option<&str>) -> Finding {
    Finding::Name(Reading {
        pid: PID,
        handle,
        id,
        name: name.map(str::to_owned),
        read_at: clock::monotonic(),
    })
}

/// The kernels of launches, and the names of kernels, in order.
#[derive(Debug, Default)]
struct Told {
    launched: Vec<u32>,
    named: Vec<(u32, Option<String>)>,
}

impl Told {
    fn take(&mut self, event: &Event) {
        self.launched.extend(event.kernel);
        if let Some(Fact::Kernel(kernel)) = event.text.as_deref().and_then(Fact::parse) {
            self.named.push((kernel.id, kernel.name));
        }
    }
}

#[test]
fn a_name_that_cannot_be_read_at_once_is_told_later() {
    let (lookout, _asked, answer) = Lookout::without_reader();
    let mut enricher = Enricher::new(Names::now(), lookout, Ids::default());
    let mut told = Told::default();
    for handle in [70, 71, 70] {
        enricher.call(&launch(handle), &mut |event| told.take(event));
    }
    let [first, second, again] = told.launched[..] else {
        panic!("{told:?}");
    };
    assert_eq!((first, told.named.len()), (again, 0));
    for (handle, id, name) in [(70, first, Some("kernel")), (71, second, None)] {
        answer.send(finding(handle, id, name)).expect("heard");
    }
    enricher.poll(clock::monotonic(), &mut |event| told.take(event));
    // That there is no name is sure.
    assert_eq!(told.named, [(second, None)]);
    let later = clock::monotonic() + 2 * SECOND;
    enricher.poll(later, &mut |event| told.take(event));
    assert_eq!(told.named[1..], [(first, Some("kernel".to_owned()))]);
}

#[test]
fn a_name_that_is_read_after_an_unloading_is_not_told() {
    let (lookout, _asked, answer) = Lookout::without_reader();
    let mut enricher = Enricher::new(Names::now(), lookout, Ids::default());
    let mut told = Told::default();
    enricher.call(&launch(70), &mut |event| told.take(event));
    enricher.missed(PID, clock::monotonic());
    enricher.call(&launch(70), &mut |event| told.take(event));
    let [first, second] = told.launched[..] else {
        panic!("{told:?}");
    };
    assert_ne!(first, second);
    for id in [first, second] {
        answer.send(finding(70, id, Some("second"))).expect("heard");
    }
    enricher.poll(clock::monotonic(), &mut |event| told.take(event));
    assert_eq!(told.named, [(first, None)]);
    enricher.finish(&mut |event| told.take(event));
    assert_eq!(told.named[1..], [(second, Some("second".to_owned()))]);
}

#[test]
fn names_that_come_after_a_process_has_ended_are_no_lessons() {
    let (lookout, _asked, _answer) = Lookout::without_reader();
    let mut enricher = Enricher::new(Names::now(), lookout, Ids::default());
    let named = || Answer {
        pid: PID,
        timestamp: 0,
        kind: AnswerKind::Stub(fact::Kernel {
            id: 3,
            name: Some("kernel".to_owned()),
            module: None,
            handle: 70,
        }),
    };
    enricher.kernels.insert((PID, 70), 3);
    enricher.heard(named(), &mut |_| {});
    assert_eq!(enricher.handles.processes(), [PID]);
    enricher.ended(PID, &mut |_| {});
    enricher.heard(named(), &mut |_| {});
    assert_eq!(enricher.handles.processes(), [0; 0]);
}

#[test]
fn what_is_not_read_by_the_end_has_no_name() {
    let (lookout, asked, answer) = Lookout::without_reader();
    let mut enricher = Enricher::new(Names::now(), lookout, Ids::default());
    let mut told = Told::default();
    for handle in [70, 71] {
        enricher.call(&launch(handle), &mut |event| told.take(event));
    }
    drop((asked, answer));
    enricher.finish(&mut |event| told.take(event));
    let nameless: Vec<_> = told.launched.iter().map(|id| (*id, None)).collect();
    assert_eq!(told.named, nameless);
}
